"""Answers about runs and worktrees, from the journal and a fresh look, never from memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from glideslope.engine.actions import (
    Caller,
    GetStatus,
    ListRuns,
    QueuedTask,
    RunList,
    RunView,
    Status,
    WaitRun,
)
from glideslope.engine.runner import Runner
from glideslope.engine.scope import ActiveRun, ScopeDriver
from glideslope.engine.survey import Question, Survey, Surveyor
from glideslope.errors import GlideslopeError, NoWorkspace, UnknownId
from glideslope.model.ids import RunId, Scope
from glideslope.model.run import Run
from glideslope.model.settings import SandboxProfile
from glideslope.ports.clock import Clock
from glideslope.ports.journal import Journal

VERIFY = "verify"
RECENT_RUNS = 50  # how far back the newest verify is looked for


class Readings:
    """The read side of the engine."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        surveyor: Surveyor,
        runner: Runner,
        drivers: Mapping[Scope, ScopeDriver],
        driver: Callable[[Question], ScopeDriver],
        version: str,
    ) -> None:
        self._journal = journal
        self._surveyor = surveyor
        self._runner = runner
        self._drivers = drivers
        self._driver = driver
        self._clock = clock
        self._version = version
        self._started_s = clock.monotonic_s()

    def active(self, run: RunId) -> tuple[ScopeDriver, ActiveRun] | None:
        """A run under way, and the driver of its worktree."""
        for driver in self._drivers.values():
            for active in driver.active:
                if active.id == run:
                    return driver, active
        return None

    def known(self, run: RunId) -> Run:
        """A run as it stands.

        Args:
            run: Its id, or an unambiguous prefix.

        Raises:
            UnknownId: No such run.
        """
        found = self._journal.run(run)
        if found is None:
            raise UnknownId(f"no run {run!r} is known", next="glideslope runs", run=run)
        active = self.active(found.id)
        return active[1].ledger.run if active is not None else found

    async def wait(self, action: WaitRun) -> RunView:
        """Waits for the end of a run, or for so long."""
        run = self.known(action.run_id)
        active = self.active(run.id)
        if active is not None:
            await active[0].wait(run.id, action.timeout_s)
        return await self.view(self.known(run.id))

    async def view(self, run: Run) -> RunView:
        """A run with whether it still speaks of its worktree."""
        return RunView(run=run, current=_matches(run, await self._look(run, _caller_of(run))))

    async def last(self, caller: Caller) -> Run:
        """The newest run of the caller's worktree.

        Raises:
            UnknownId: There is none yet.
        """
        question = await asyncio.to_thread(self._surveyor.question, caller)
        newest = self._newest(question.workspace.scope)
        if newest is None:
            raise UnknownId("nothing was verified here yet", next="glideslope verify")
        return newest

    def _newest(self, scope: Scope) -> Run | None:
        """The newest verify; where there is none among the recent runs, the newest of any kind."""
        runs = self._journal.runs(scope=scope, limit=RECENT_RUNS)
        newest = next((run for run in runs if run.action == VERIFY), next(iter(runs), None))
        return self.known(newest.id) if newest else None

    async def runs(self, action: ListRuns) -> RunList:
        """A page of the runs of the caller's worktree."""
        question = await asyncio.to_thread(self._surveyor.question, action.caller)
        scope = question.workspace.scope
        found = self._journal.runs(scope=scope, before=action.before, limit=action.limit + 1)
        page = [self.known(run.id) for run in found[: action.limit]]
        looks: dict[tuple[str | None, str | None], Survey | None] = {}
        views: list[RunView] = []
        for run in page:
            named = (run.python, run.virtual_env)
            if named not in looks:
                looks[named] = await self._look(run, action.caller)
            views.append(RunView(run=run, current=_matches(run, looks[named])))
        return RunList(runs=tuple(views), next=page[-1].id if len(found) > action.limit else None)

    async def status(self, action: GetStatus) -> Status:
        """What goes on, and where the caller's worktree stands."""
        try:
            question = await asyncio.to_thread(self._surveyor.question, action.caller)
        except NoWorkspace:
            return self._status_of(None, None)
        newest = self._newest(question.workspace.scope)
        if newest is not None:
            return self._status_of(question, await self._look(newest, action.caller))
        try:
            return self._status_of(question, await self._driver(question).survey(question))
        except GlideslopeError:
            return self._status_of(question, None)

    async def _look(self, run: Run, caller: Caller) -> Survey | None:
        """The worktree of a run now, seen with the interpreter the run was about."""
        if run.snapshot is None:
            return None
        try:
            driver = self._drivers.get(run.scope)
            if driver is None:
                caller = replace(caller, folder=run.scope, explicit_folder=True)
                driver = self._driver(await asyncio.to_thread(self._surveyor.question, caller))
            return await driver.look_as(run.python, run.virtual_env)
        except GlideslopeError:
            return None  # what cannot be read is not what it was

    def _status_of(self, question: Question | None, survey: Survey | None) -> Status:
        scope = question.workspace.scope if question else None
        last = self._newest(scope) if scope else None
        active = [one.ledger.run for driver in self._drivers.values() for one in driver.active]
        queue = self._runner.queue
        states = [(ticket, "queued") for ticket in queue.waiting]
        states = [(ticket, "running") for ticket in queue.running] + states
        default = survey.loaded.settings.environment.default_sandbox_profile if survey else None
        return Status(
            active=tuple(RunView(run=run, current=_matches(run, survey)) for run in active),
            queue=tuple(
                QueuedTask(
                    task_id=ticket.spec.id,
                    kind=ticket.spec.key.kind,
                    lane=ticket.spec.lane.name.lower(),
                    state=state,
                    run_id=ticket.spec.run,
                )
                for ticket, state in states
            ),
            cap=self._runner.queue.cap,
            workspace=scope,
            sandbox_profile=default or SandboxProfile.AGENT_EPHEMERAL,
            verify_snapshot_id=survey.snapshot.id if survey else None,
            current=_matches(last, survey) if last and survey else None,
            last_run_id=last.id if last else None,
            last_verdict=last.verdict if last else None,
            pid=os.getpid(),
            version=self._version,
            uptime_s=round(self._clock.monotonic_s() - self._started_s, 1),
        )


def _caller_of(run: Run) -> Caller:
    return Caller(folder=run.scope, explicit_folder=True)


def _matches(run: Run, survey: Survey | None) -> bool:
    if survey is None or run.stale is not None or run.scope != survey.workspace.scope:
        return False
    return (run.snapshot, run.environment_key) == (survey.snapshot.id, survey.environment_key)
