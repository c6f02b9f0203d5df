"""A daemon with everything real but the engine: state folder, lock, journal, bus, socket, process.

The engine's runs do nothing until they are cancelled, or until a file named like their policy's
`--project` argument is removed. Run as a program; takes the arguments of the real daemon.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

from glideslope.adapters.bus import JournalBus
from glideslope.adapters.clock import SystemClock
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.lock import Owner, StateLock
from glideslope.adapters.state import StateFolder
from glideslope.engine.actions import (
    Action,
    Answer,
    Cancel,
    Cancelled,
    GetRun,
    GetStatus,
    LogPage,
    ReadLog,
    RunView,
    Started,
    Status,
    Verify,
    WaitRun,
)
from glideslope.errors import InvalidInput, UnknownId
from glideslope.model.event import AgentRunCompleted, AgentRunStarted, HostDied, Recorded
from glideslope.model.ids import RunId, Scope
from glideslope.model.result import CancelReason, Verdict
from glideslope.model.run import Run
from glideslope.model.rung import VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.surfaces.rpc import server
from glideslope_fast import VERSION


def a_run(name: str, scope: str) -> Run:
    return Run(
        id=RunId(name),
        action="verify",
        epoch=None,
        scope=Scope(scope),
        policy=VerifyPolicy.STANDARD,
        sandbox_profile="agent_ephemeral",
        isolation=None,
        snapshot=None,
        tree_id=None,
        git_head=None,
        inputs_digest=None,
        environment_key=None,
        dirty_paths=(),
        base_snapshot=None,
        base_reason=BaseReason.NONE,
        changed_paths=(),
        verdict=None,
        stale=None,
        cancelled=None,
        required_rung=None,
        max_rung_reached=None,
        rungs=(),
        time=None,
        started_at="2026-01-01T00:00:00.000Z",
        ended_at=None,
    )


class FakeEngine:
    """Serves a few actions from a real journal."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self._bus = JournalBus(journal)
        self._ended: dict[RunId, asyncio.Event] = {}
        self._numbers = count(journal.last_seq() + 1)

    def recover(self) -> None:
        for run in self._journal.open_runs():
            self._complete(run, Verdict.DIED, None)

    @property
    def busy(self) -> bool:
        return bool(self._ended)

    @property
    def last_seq(self) -> int:
        return self._journal.last_seq()

    async def act(self, action: Action) -> Answer:
        match action:
            case Verify(no_cache=True):  # stands for a mistake of ours
                raise ZeroDivisionError("planted")
            case Verify():
                return self._verify(action)
            case WaitRun():
                if action.run_id in self._ended:
                    try:
                        async with asyncio.timeout(action.timeout_s):
                            await self._ended[action.run_id].wait()
                    except TimeoutError:
                        pass
                return self._view(action.run_id)
            case GetRun():
                return self._view(action.run_id)
            case Cancel():
                return self._cancel(action.run_id, CancelReason.REQUESTED)
            case GetStatus():
                return self._status(action)
            case ReadLog():
                return LogPage(ref=action.ref, start=0, end=3, total_bytes=3, content=b"\x00\xff\n")
            case _:
                raise InvalidInput("not served here")

    async def events(self, after: int) -> AsyncIterator[Recorded]:
        async with self._bus.subscribe(after=after) as events:
            async for recorded in events:
                yield recorded

    async def close(self) -> None:
        for run in tuple(self._ended):
            self._cancel(run, CancelReason.SHUTDOWN)

    def _verify(self, action: Verify) -> Started:
        seq = self.last_seq
        if action.project == "flood":
            for n in range(2000):
                self._emit(HostDied(host_kind="tool", pid=n, stderr_tail="x" * 200))
        run = a_run(f"run-{next(self._numbers)}", action.caller.folder)
        self._ended[run.id] = asyncio.Event()
        self._emit(AgentRunStarted(run_id=run.id, run=run))
        return Started(run_id=run.id, joined=False, seq=seq)

    def _cancel(self, run: RunId | None, reason: CancelReason) -> Cancelled:
        if run not in self._ended:
            return Cancelled(cancelled=(), survivors=0)
        self._complete(self._view(run).run, Verdict.CANCELLED, reason)
        self._ended.pop(run).set()
        return Cancelled(cancelled=(run,), survivors=0)

    def _complete(self, run: Run, verdict: Verdict, reason: CancelReason | None) -> None:
        ended = replace(run, verdict=verdict, cancelled=reason)
        self._emit(AgentRunCompleted(run_id=run.id, verdict=verdict, max_rung_reached=None, run=ended))

    def _emit(self, event: AgentRunStarted | AgentRunCompleted | HostDied) -> None:
        self._bus.publish(self._journal.append(event, scope=None))

    def _view(self, run: RunId) -> RunView:
        found = self._journal.run(run)
        if found is None:
            raise UnknownId(f"no run {run!r}", run=run)
        return RunView(run=found, current=False)

    def _status(self, action: GetStatus) -> Status:
        return Status(
            active=(),
            queue=(),
            cap=2,
            workspace=action.caller.folder,
            sandbox_profile="agent_ephemeral",
            verify_snapshot_id=None,
            current=None,
            last_run_id=None,
            last_verdict=None,
            pid=os.getpid(),
            version=VERSION,
            uptime_s=time.monotonic(),
        )


@asynccontextmanager
async def build(state_dir: str, *, socket: str | None = None) -> AsyncIterator[FakeEngine]:
    state = StateFolder.open(state_dir)
    lock = StateLock.acquire(state.root, Owner(pid=os.getpid(), version=VERSION, socket=socket))
    journal = SqliteJournal(state.journal, SystemClock())
    try:
        engine = FakeEngine(journal)
        engine.recover()
        yield engine
        await engine.close()
    finally:
        journal.close()
        lock.release()


if __name__ == "__main__":
    if os.environ.get("GLIDESLOPE_FAKE_VERSION"):
        server_version = os.environ["GLIDESLOPE_FAKE_VERSION"]
        sys.modules["glideslope.surfaces.rpc.service"].VERSION = server_version  # type: ignore[attr-defined]
    if os.environ.get("GLIDESLOPE_FAKE_CRASH"):
        sys.exit("crashed as asked")
    sys.exit(server.main(build=build))
