"""The record of one run while it goes on: what is known of it, and its events.

The run is a value; the ledger replaces it and emits. Whoever folds the events ends with the same
value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from glideslope.machines.ladder import max_rung_reached
from glideslope.machines.views import with_rung
from glideslope.model.event import (
    AgentRunCompleted,
    AgentRunPhaseChanged,
    AgentRunStarted,
    AgentVerifyRungChanged,
    Event,
)
from glideslope.model.ids import Scope
from glideslope.model.result import CancelReason, RungResult, Verdict
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung
from glideslope.model.timeslice import Phase, TimeReport
from glideslope.ports.clock import Clock

Emit = Callable[[Event, Scope], None]


class Ledger:
    """One run's record."""

    def __init__(self, run: Run, *, clock: Clock, emit: Emit) -> None:
        self._run = run
        self._clock = clock
        self._emit = emit
        self.started_s = clock.monotonic_s()
        self.ended = asyncio.Event()

    def open(self) -> None:
        """Tells that the run began. Called once."""
        self._send(AgentRunStarted(run_id=self._run.id, run=self._run))
        self._send(AgentRunPhaseChanged(run_id=self._run.id, phase=Phase.ENVIRONMENT))

    @property
    def run(self) -> Run:
        """The run as known now."""
        return self._run

    def amend(self, **fields: object) -> None:
        """Fills in what became known, without an event of its own."""
        self._run = replace(self._run, **fields)  # type: ignore[arg-type]  # names are checked by replace

    def note_rung(self, result: RungResult) -> None:
        """Puts a rung's result in its place and tells about it."""
        rungs = with_rung(self._run.rungs, result)
        self._run = replace(self._run, rungs=rungs, max_rung_reached=max_rung_reached(rungs))
        self._send(AgentVerifyRungChanged(run_id=self._run.id, result=result))

    def close(
        self,
        verdict: Verdict,
        rungs: tuple[RungResult, ...],
        *,
        reached: Rung | None,
        time: TimeReport,
        stale: Staleness | None = None,
        cancelled: CancelReason | None = None,
    ) -> None:
        """Speaks the verdict. Called once."""
        assert self._run.verdict is None, "a verdict is spoken once"
        self._run = replace(
            self._run,
            verdict=verdict,
            rungs=rungs,
            max_rung_reached=reached,
            time=time,
            stale=stale,
            cancelled=cancelled,
            ended_at=self._clock.utc_now(),
        )
        self._send(
            AgentRunCompleted(run_id=self._run.id, verdict=verdict, max_rung_reached=reached, run=self._run)
        )
        self.ended.set()

    def _send(self, event: Event) -> None:
        self._emit(event, self._run.scope)
