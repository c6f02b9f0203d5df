"""The Python API: the same nouns, arguments and values as the command line and its JSON.

    async with glideslope.open("path/to/repo") as env:
        run = await env.verify(policy="standard")
        async for event in run.events(): ...
        verdict = (await run.wait()).verdict

Paths are relative to the root of the workspace. Words are those of the command line; one that is
unknown is an error. Answers are frozen; what the JSON leaves null is None.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from glideslope.engine.actions import (
    Caller,
    Cancel,
    Cancelled,
    Diagnose,
    Diagnosis,
    Doctor,
    GetRun,
    GetStatus,
    Last,
    ListRuns,
    LogPage,
    Prune,
    Pruned,
    ReadLog,
    RunList,
    RunView,
    Started,
    Status,
    Test,
    Verify,
    WaitRun,
)
from glideslope.errors import InvalidInput
from glideslope.machines import views
from glideslope.machines.index_access import is_index_variable
from glideslope.model.event import AgentRunCompleted, Recorded
from glideslope.model.ids import LogRef, RunId, SnapshotId
from glideslope.model.rung import Rung
from glideslope.model.settings import SandboxProfile
from glideslope.surfaces.api.backend import Backend, DaemonBackend, InProcessBackend
from glideslope.surfaces.session import DaemonConnect, expect, sends_environment
from glideslope.surfaces.wire.answer import (
    WireCancelled,
    WireDoctor,
    WireLog,
    WirePruned,
    WireRuns,
    WireStatus,
    wire_cancelled,
    wire_doctor,
    wire_log,
    wire_pruned,
    wire_runs,
    wire_status,
)
from glideslope.surfaces.wire.event import wire_event
from glideslope.surfaces.wire.run import WireRun as Run
from glideslope.surfaces.wire.run import wire_run
from glideslope.surfaces.wire.word import read_policy, read_profile, read_rung
from glideslope_fast.place import state_dir as users_state_dir

T = TypeVar("T")

Event = dict[str, Any]
VARIABLE_PREFIX = "GLIDESLOPE__"
GREEN_AMONG = 200  # newest runs that are asked whether something is green


@asynccontextmanager
async def open(
    path: str | os.PathLike[str] = ".", *, engine: str = "daemon", state_dir: str | None = None
) -> AsyncIterator[Environment]:
    """Opens the workspace a folder belongs to.

    Args:
        path: Any folder of it; outside git, the project itself.
        engine: `daemon`: the user's daemon, started where it does not run; `inprocess`: an engine of
            this process, which needs a state folder that no other engine owns.
        state_dir: The state folder; None: this user's.

    Raises:
        InvalidInput: Another word for `engine`.
        EngineBusy: Another engine owns the state folder, or the daemon is of another version.
        HostUnavailable: The daemon cannot be started.
        StateUnavailable: The state folder cannot be used.
    """
    caller = _caller(path)
    state = users_state_dir({**os.environ, **({"GLIDESLOPE_STATE_DIR": state_dir} if state_dir else {})})
    async with AsyncExitStack() as stack:
        backend: Backend
        if engine == "daemon":
            backend = DaemonBackend(DaemonConnect(environ=os.environ, state=state))
            stack.callback(backend.close)
            await backend.reach()
        elif engine == "inprocess":
            from glideslope.compose import build

            backend = InProcessBackend(await stack.enter_async_context(build(state)))
        else:
            raise InvalidInput(
                f"unknown engine {engine!r}: use daemon or inprocess", field="engine", value=engine
            )
        yield Environment(backend, caller)


def _caller(path: str | os.PathLike[str]) -> Caller:
    return Caller(
        folder=os.path.realpath(path),
        explicit_folder=True,
        virtual_env=os.environ.get("VIRTUAL_ENV") or None,
        variables=tuple(
            sorted(
                (name, text)
                for name, text in os.environ.items()
                if name.startswith(VARIABLE_PREFIX) or is_index_variable(name)
            )
        ),
    )


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end; for scripts that are not asynchronous themselves."""
    return asyncio.run(coroutine)


class RunHandle:
    """A run that was started, or joined."""

    def __init__(self, backend: Backend, caller: Caller, started: Started) -> None:
        self._backend = backend
        self._caller = caller
        self._started = started

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._started.run_id

    @property
    def joined(self) -> bool:
        """Whether the run was there already, answering the same question."""
        return self._started.joined

    async def events(self) -> AsyncIterator[Event]:
        """The events of the run as the NDJSON has them, from its start to its end.

        Raises:
            GlideslopeError: The engine went away.
        """
        async for recorded in self._backend.events(self._started.seq, follow=True):
            if getattr(recorded.event, "run_id", None) != self.id:
                continue
            yield _plain(recorded)
            if isinstance(recorded.event, AgentRunCompleted):
                return

    async def wait(self) -> Run:
        """Waits until the run has ended and returns it."""
        return await _wait_ended(self._backend, self._started.run_id)

    async def cancel(self) -> WireCancelled:
        """Cancels the run; done when its processes are gone."""
        action = Cancel(caller=self._caller, run_id=self._started.run_id)
        return wire_cancelled(expect(await self._backend.act(action), Cancelled))


class Environment:
    """One workspace, and an engine that verifies it."""

    def __init__(self, backend: Backend, caller: Caller) -> None:
        self._backend = backend
        self._caller = caller

    async def verify(
        self,
        policy: str | None = None,
        *,
        rung: str | None = None,
        base: str | None = None,
        paths: Sequence[str] = (),
        project: str | None = None,
        sandbox: str | None = None,
        python: str | None = None,
        timeout_s: float | None = None,
        no_cache: bool = False,
        tie: bool = False,
    ) -> RunHandle:
        """Climbs the ladder on the current snapshot.

        Args:
            policy: Its name or alias; None: the setting.
            rung: Climb no higher than this.
            base: A revision to compare with; None: the last green snapshot, or the merge base.
            paths: Look only at these.
            project: Look only at this project of the workspace.
            sandbox: Sandbox profile of the tasks; None: the setting.
            python: The project's interpreter; None: it is looked for.
            timeout_s: Cancel the run after so many seconds.
            no_cache: Run every rung, also those that passed on this content.
            tie: Cancel the run when this workspace is closed, or this process goes away.

        Raises:
            GlideslopeError: The run could not be started.
        """
        cap, warning = read_rung(rung)
        if warning is not None:
            warnings.warn(warning, DeprecationWarning, stacklevel=2)
        profile = read_profile(sandbox)
        action = Verify(
            caller=self._caller_for(profile),
            policy=read_policy(policy),
            rung=cap,
            base=base,
            paths=tuple(sorted(paths)),
            project=project,
            sandbox=profile,
            python=python,
            timeout_s=timeout_s,
            no_cache=no_cache,
        )
        return await self._start(action, tie=tie)

    async def diagnose(
        self,
        paths: Sequence[str] = (),
        *,
        base: str | None = None,
        sandbox: str | None = None,
        python: str | None = None,
        timeout_s: float | None = None,
        tie: bool = False,
    ) -> RunHandle:
        """Checks the given files, or the changed ones; arguments as of `verify`."""
        profile = read_profile(sandbox)
        action = Diagnose(
            caller=self._caller_for(profile),
            paths=tuple(sorted(paths)),
            base=base,
            sandbox=profile,
            python=python,
            timeout_s=timeout_s,
        )
        return await self._start(action, tie=tie)

    async def test(
        self,
        nodeids: Sequence[str] = (),
        *,
        profile: str | None = None,
        rerun_failed: bool = False,
        base: str | None = None,
        project: str | None = None,
        sandbox: str | None = None,
        python: str | None = None,
        timeout_s: float | None = None,
        tie: bool = False,
    ) -> RunHandle:
        """Runs chosen tests, a registered profile, or what failed in the last run; other arguments as
        of `verify`."""
        of_tasks = read_profile(sandbox)
        action = Test(
            caller=self._caller_for(of_tasks),
            nodeids=tuple(nodeids),
            profile=profile,
            rerun_failed=rerun_failed,
            base=base,
            project=project,
            sandbox=of_tasks,
            python=python,
            timeout_s=timeout_s,
        )
        return await self._start(action, tie=tie)

    async def status(self) -> WireStatus:
        """The queue, active runs and where the workspace stands."""
        return wire_status(expect(await self._backend.act(GetStatus(caller=self._caller)), Status))

    async def last(self) -> Run:
        """The newest run of the workspace.

        Raises:
            UnknownId: There is none yet.
        """
        return wire_run(expect(await self._backend.act(Last(caller=self._caller)), RunView))

    async def run(self, run_id: str) -> Run:
        """A run by its id, or by an unambiguous beginning of it.

        Raises:
            UnknownId: There is none.
        """
        return wire_run(expect(await self._backend.act(GetRun(run_id=RunId(run_id))), RunView))

    async def wait(self, run_id: str) -> Run:
        """The same, once the run has ended."""
        return await _wait_ended(self._backend, RunId(run_id))

    async def runs(self, *, before: str | None = None, limit: int = 20) -> WireRuns:
        """The runs of the workspace without their findings, newest first."""
        return wire_runs(await self._listed(before, limit))

    async def cancel(self, run_id: str | None = None) -> WireCancelled:
        """Cancels one run, or every active run of the workspace; done when their processes are gone."""
        action = Cancel(caller=self._caller, run_id=None if run_id is None else RunId(run_id))
        return wire_cancelled(expect(await self._backend.act(action), Cancelled))

    async def log(
        self,
        ref: str,
        *,
        offset: int = 0,
        limit: int = 65536,
        tail_lines: int | None = None,
        grep: str | None = None,
    ) -> WireLog:
        """A page of a stored log; `offset` and `limit` in bytes, an offset below 0 from the end."""
        action = ReadLog(ref=LogRef(ref), offset=offset, limit=limit, tail_lines=tail_lines, grep=grep)
        return wire_log(expect(await self._backend.act(action), LogPage))

    async def events(self, *, after: int | None = None, follow: bool = True) -> AsyncIterator[Event]:
        """The journal as the NDJSON has it.

        Args:
            after: The sequence number before the first one wanted; None: only what is new.
            follow: Wait for more at the end, instead of ending there.
        """
        async for recorded in self._backend.events(after, follow=follow):
            yield _plain(recorded)

    async def doctor(self, *, python: str | None = None) -> WireDoctor:
        """Looks at everything a verify needs."""
        action = Doctor(caller=self._caller, python=python)
        return wire_doctor(expect(await self._backend.act(action), Diagnosis))

    async def prune(self, *, apply: bool = False, keep_runs: int | None = None) -> WirePruned:
        """Lists what may go from the state folder; removes it with `apply`."""
        return wire_pruned(expect(await self._backend.act(Prune(apply=apply, keep_runs=keep_runs)), Pruned))

    async def is_green(self, snapshot_id: str | None = None, *, at_least: str = "diagnose.files") -> bool:
        """Whether a content is proved.

        Args:
            snapshot_id: The content; None: what the workspace holds now, on the interpreter of now.
            at_least: How high the proof must have climbed.
        """
        rung, _ = read_rung(at_least)
        found = (await self._listed(None, GREEN_AMONG)).runs
        about = [view.run for view in found if _is_about(view, snapshot_id)]
        if not about or about[0].snapshot is None:
            return False
        newest, snapshot = about[0], SnapshotId(about[0].snapshot)
        return views.is_green(about, snapshot, newest.environment_key, at_least=rung or Rung.DIAGNOSE)

    async def _listed(self, before: str | None, limit: int) -> RunList:
        older = None if before is None else RunId(before)
        return expect(
            await self._backend.act(ListRuns(caller=self._caller, before=older, limit=limit)), RunList
        )

    async def _start(self, action: Verify | Diagnose | Test, *, tie: bool) -> RunHandle:
        started = expect(await self._backend.act(action, tied=tie), Started)
        return RunHandle(self._backend, self._caller, started)

    def _caller_for(self, profile: SandboxProfile | None) -> Caller:
        """Tasks of the operator's own profile see the whole environment of this process."""
        if not sends_environment(profile, os.environ):
            return self._caller
        return replace(self._caller, variables=tuple(sorted(os.environ.items())))


def _is_about(view: RunView, snapshot_id: str | None) -> bool:
    return view.current if snapshot_id is None else view.run.snapshot == snapshot_id


def _plain(recorded: Recorded) -> Event:
    event: Event = msgspec.to_builtins(wire_event(recorded))
    return event


async def _wait_ended(backend: Backend, run_id: RunId) -> Run:
    """No call blocks longer than the engine lets it, so it is asked again until the run has ended."""
    while True:
        view = expect(await backend.act(WaitRun(run_id=run_id)), RunView)
        if view.run.verdict is not None:
            return wire_run(view)
