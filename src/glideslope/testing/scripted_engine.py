"""An engine that answers from a script, for tests of surfaces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from glideslope.engine.actions import Action, Answer, Diagnose, GetRun, RunView, Started, Test, Verify
from glideslope.errors import HostUnavailable
from glideslope.model.event import AgentRunCompleted, AgentRunStarted, AgentVerifyRungChanged, Event, Recorded
from glideslope.model.ids import Scope
from glideslope.model.run import Run

Reply = Answer | Exception | Callable[[Any], Answer]


class ScriptedEngine:
    """Answers by the class of the action, and keeps a journal that can be followed.

    Opens sessions like whatever a command line connects to.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Action, bool]] = []  # each action, and whether its run was tied
        self.replies: dict[type[Any], Reply] = {}
        self.journal: list[Recorded] = []
        self.up = True
        self.stream_ends_after: int | None = None  # events; None: streams do not break
        self._changed = threading.Condition()

    def actions(self, kind: type[Any]) -> list[Any]:
        """The actions of a class that were asked for, oldest first."""
        return [action for action, _ in self.asked if isinstance(action, kind)]

    def publish(self, event: Event, scope: str = "/home/dev/shop") -> None:
        """Adds an event to the journal and wakes whoever follows it."""
        with self._changed:
            seq = len(self.journal) + 1
            at = f"2026-01-02T03:04:{seq:02}.000Z"
            self.journal.append(Recorded(seq=seq, at=at, event=event, scope=Scope(scope)))
            self._changed.notify_all()

    def serve_run(self, run: Run, *, current: bool = True, joined: bool = False) -> None:
        """Lets whoever starts a run get this one; what is left of it is published at once."""

        def start(action: object) -> Started:
            before = len(self.journal)
            opened = replace(run, verdict=None, rungs=(), ended_at=None)
            self.publish(AgentRunStarted(run_id=run.id, run=opened))
            for rung in run.rungs:
                self.publish(AgentVerifyRungChanged(run_id=run.id, result=rung))
            if run.verdict is not None:
                self.publish(completed(run))
            return Started(run_id=run.id, joined=joined, seq=before)

        for kind in (Verify, Diagnose, Test):
            self.replies[kind] = start
        self.replies[GetRun] = RunView(run=run, current=current)

    def session(self, *, start: bool = True) -> ScriptedSession:
        """Opens a session.

        Raises:
            HostUnavailable: The engine is down and is not to be started.
        """
        if not (start or self.up):
            raise HostUnavailable("no engine runs: start one with `glideslope daemon start`")
        return ScriptedSession(self)

    def read(self, after: int, follow: bool, closed: threading.Event) -> Iterator[Recorded]:
        """The journal from a place on; while following, until the session is closed."""
        seen, sent = after, 0
        while sent != self.stream_ends_after and not closed.is_set():
            with self._changed:
                if len(self.journal) <= seen:
                    if not follow:
                        return
                    self._changed.wait(0.02)  # only a bound: a publisher wakes us
                    continue
                recorded = self.journal[seen]
            seen, sent = recorded.seq, sent + 1
            yield recorded


class ScriptedSession:
    """One connection to a scripted engine."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._closed = threading.Event()

    def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Answers from the script.

        Raises:
            Exception: Where the script says so.
        """
        self._engine.asked.append((action, tied))
        reply = self._engine.replies[type(action)]
        if isinstance(reply, Exception):
            raise reply
        return reply(action) if callable(reply) else reply

    @contextmanager
    def events(self, *, after: int | None, follow: bool) -> Iterator[Iterator[Recorded]]:
        """Opens a stream of the journal."""
        newest = len(self._engine.journal)  # as of now, and not of when the first is taken
        yield self._engine.read(newest if after is None else after, follow, self._closed)

    def close(self) -> None:
        """Ends the streams of this session."""
        self._closed.set()


def completed(run: Run) -> AgentRunCompleted:
    """The last word about an ended run."""
    assert run.verdict is not None, "only an ended run has a last word"
    return AgentRunCompleted(
        run_id=run.id, verdict=run.verdict, max_rung_reached=run.max_rung_reached, run=run
    )
