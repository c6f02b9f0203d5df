"""What all connections share: the engine, and whether the daemon is to go on.

The life of a daemon has three stages: it serves; it drains (asked to stop once the runs have ended,
it begins no others); it ends (streams run out to the last event, then connections close).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol

from glideslope.engine.actions import Action, Answer
from glideslope.errors import EngineBusy
from glideslope.model.event import Recorded
from glideslope.surfaces.rpc.message import DaemonStop, Frame
from glideslope_fast import VERSION

DRAIN_LOOK_S = 0.05
_LOGGER = logging.getLogger(__name__)


class ServedEngine(Protocol):
    """What is needed of an engine to serve it."""

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        ...

    @property
    def last_seq(self) -> int:
        """The newest sequence number of the journal."""
        ...

    async def act(self, action: Action) -> Answer:
        """Serves one action."""
        ...

    def events(self, after: int) -> AsyncIterator[Recorded]:
        """Everything journaled after a sequence number, then everything new."""
        ...

    async def close(self) -> None:
        """Cancels every run and ends every process; a second time is no error."""
        ...


class Service:
    """One engine, offered to many connections. Lives on one event loop."""

    def __init__(self, engine: ServedEngine, *, idle_s: float) -> None:
        self.engine = engine
        self.ending = asyncio.Event()
        self.draining = False
        self.final_seq: int | None = None  # known once the engine has closed
        self._idle_s = idle_s
        self._connections = 0
        self._started_s = time.monotonic()
        self._last_used_s = self._started_s
        self._work: set[asyncio.Task[None]] = set()

    def entered(self) -> None:
        """A client came."""
        self._connections += 1

    def left(self) -> None:
        """A client went."""
        self._connections -= 1
        self._last_used_s = time.monotonic()

    def status(self) -> Frame:
        """Data of `daemon.status`; cheap, and true whatever the workspace looks like."""
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "uptime_s": round(time.monotonic() - self._started_s, 3),
            "busy": self.engine.busy,
            "draining": self.draining,
            "connections": self._connections,
        }

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts work that outlives the connection it came from."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def require_open(self) -> None:
        """Refuses new runs while the daemon is about to stop.

        Raises:
            EngineBusy: It is.
        """
        if self.draining or self.ending.is_set():
            raise EngineBusy(
                f"the daemon (process {os.getpid()}) is about to stop and begins no run: try again in a moment",
                pid=os.getpid(),
            )

    async def stop(self, asked: DaemonStop) -> None:
        """Ends the daemon: now, or once the runs have ended.

        Raises:
            EngineBusy: A run is under way and only an idle daemon was to be stopped.
        """
        if asked.only_idle and self.engine.busy:
            raise EngineBusy(
                f"the daemon (process {os.getpid()}, version {VERSION}) is at work: wait for it with "
                "`glideslope daemon stop --wait`",
                next="glideslope daemon stop --wait",
                pid=os.getpid(),
            )
        self.draining = True
        while asked.wait and self.engine.busy and not self.ending.is_set():  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_LOOK_S)  # an engine does not announce the end of its work
        self.ending.set()

    async def end_when_idle(self) -> None:
        """Ends the daemon after so long without a client and without a run."""
        while not self.ending.is_set():
            if self._connections or self.engine.busy:
                self._last_used_s = time.monotonic()
            left_s = self._last_used_s + self._idle_s - time.monotonic()
            if left_s <= 0:
                _LOGGER.info("idle for %g s: stopping", self._idle_s)
                self.ending.set()
                return
            await asyncio.sleep(min(left_s, 30.0))

    async def finish_work(self, within_s: float) -> None:
        """Lets what outlives its connection come to an end, and gives up what does not."""
        if self._work:
            _, late = await asyncio.wait(tuple(self._work), timeout=within_s)
            for task in late:
                task.cancel()
