"""The engine: one place where every action of every surface arrives.

It keeps one driver per worktree and one runner for all; it answers from what the journal holds
and from a fresh look at the workspace, never from memory of what was once true.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import assert_never

from glideslope.engine import doctor, upkeep
from glideslope.engine.actions import (
    Action,
    Answer,
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
    Prune,
    ReadLog,
    Started,
    Test,
    Verify,
    WaitRun,
)
from glideslope.engine.base import Bases
from glideslope.engine.climb import Climb, Errand, Kit, terms
from glideslope.engine.execute import Executor, Site
from glideslope.engine.ledger import Ledger
from glideslope.engine.profile import find_profile
from glideslope.engine.reading import Readings
from glideslope.engine.runner import Runner
from glideslope.engine.scope import ActiveRun, ScopeDriver
from glideslope.engine.survey import Question, Survey, Surveyor
from glideslope.errors import InvalidInput, ProfileRefused, StateUnavailable
from glideslope.machines.recovery import end_of_run, end_of_task
from glideslope.machines.settings.merge import allows
from glideslope.model.event import Event, Recorded
from glideslope.model.ids import EpochId, RunId, Scope
from glideslope.model.result import CancelReason
from glideslope.model.run import Run
from glideslope.model.rung import LadderPlan, PlannedRung, Rung, VerifyPolicy
from glideslope.model.sandbox import Isolation
from glideslope.model.settings import SandboxProfile
from glideslope.model.snapshot import BaseReason
from glideslope.model.task import Lane
from glideslope.ports.bus import Bus
from glideslope.ports.clock import Clock
from glideslope.ports.journal import Journal
from glideslope.ports.logs import Logs
from glideslope.ports.sandbox import Sandboxes
from glideslope.ports.storage import Storage
from glideslope.ports.watcher import Watcher

TIDY_EVERY_S = 600.0
RECENT_RUNS = 20  # how far back failing tests to run again are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything the engine reaches the machine through."""

    clock: Clock
    journal: Journal
    bus: Bus
    logs: Logs
    watcher: Watcher
    sandboxes: Sandboxes
    surveyor: Surveyor
    storage: Storage
    keep_runs: int
    new_id: Callable[[], str]
    complain: Callable[[str], None]
    version: str


class Engine:
    """Serves actions. Lives on one event loop."""

    def __init__(self, *, world: World, kit: Kit, site: Callable[[Runner], Site], cap: int) -> None:
        self._world = world
        self._kit = kit
        self._runner = Runner(clock=world.clock, emit=lambda event: self._emit(event, None), cap=cap)
        self._site = site(self._runner)
        self._scopes: dict[Scope, ScopeDriver] = {}
        self._read = Readings(
            journal=world.journal,
            clock=world.clock,
            surveyor=world.surveyor,
            runner=self._runner,
            drivers=self._scopes,
            driver=self._driver,
            version=world.version,
        )

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        return any(driver.active for driver in self._scopes.values())

    def recover(self) -> None:
        """Ends what an engine before this one left open: its tasks and runs died with it.

        To be called once, by the new owner of the state folder, before anything else.
        """
        for recorded in self._world.journal.open_tasks():
            event = end_of_task(recorded.event)
            if event is not None:
                self._emit(event, recorded.scope)
        for run in self._world.journal.open_runs():
            self._emit(end_of_run(run, ended_at=self._world.clock.utc_now()), run.scope)

    async def keep_tidy(self) -> None:
        """Lets go of old runs and of what outgrew the state folder, now and then, for ever.

        Only what nothing needs goes, so it does not matter that a run may begin meanwhile.
        """
        while True:
            if not self.busy:
                try:
                    await self.act(Prune(apply=True))
                except StateUnavailable as error:
                    self._world.complain(f"cannot prune: {error.message}")
            await asyncio.sleep(TIDY_EVERY_S)

    async def act(self, action: Action) -> Answer:
        """Serves one action.

        Raises:
            GlideslopeError: The action could not be served; the branch says what to do.
        """
        match action:
            case Verify():
                return await self._verify(action)
            case Diagnose():
                return await self._diagnose(action)
            case Test():
                return await self._test(action)
            case WaitRun():
                return await self._read.wait(action)
            case GetRun():
                return await self._read.view(self._read.known(action.run_id))
            case Last():
                return await self._read.view(await self._read.last(action.caller))
            case ListRuns():
                return await self._read.runs(action)
            case GetStatus():
                return await self._read.status(action)
            case Cancel():
                return await self._cancel(action)
            case ReadLog():
                return await asyncio.to_thread(upkeep.read_log, self._world.logs, action)
            case Doctor():
                return await self._doctor(action)
            case Prune():
                world = self._world
                return await asyncio.to_thread(upkeep.prune, world.storage, action, keep_runs=world.keep_runs)
            case _:
                assert_never(action)

    @property
    def last_seq(self) -> int:
        """The newest sequence number of the journal, 0 when it is empty."""
        return self._world.journal.last_seq()

    async def events(self, after: int) -> AsyncIterator[Recorded]:
        """Everything journaled after a sequence number, then everything new, without a gap."""
        async with self._world.bus.subscribe(after=after) as recorded:
            async for one in recorded:
                yield one

    async def close(self) -> None:
        """Cancels every run, ends every process, stops watching."""
        await asyncio.gather(*(driver.close() for driver in self._scopes.values()))
        await self._runner.close()
        await self._world.sandboxes.close()

    # Runs

    async def _verify(self, action: Verify) -> Started:
        survey = await self._survey(action.caller, action.python)
        environment = survey.loaded.settings.environment
        errand = Errand(
            action="verify",
            policy=action.policy or environment.default_verify_policy,
            explicit_policy=action.policy is not None,
            cap=action.rung,
            base=action.base,
            paths=action.paths,
            project=action.project,
            use_cache=not action.no_cache,
        )
        active = await self._open(errand, survey, action.sandbox, Lane.FOREGROUND)
        seq = await asyncio.to_thread(self._world.journal.last_seq)
        driver = self._driver(survey.question)
        run = driver.ask(active, _digest(errand, active.ledger.run.sandbox_profile, action))
        if run == active.id:
            self._limit(driver, active, action.timeout_s)
        return Started(run_id=run, joined=run != active.id, seq=seq)

    async def _diagnose(self, action: Diagnose) -> Started:
        errand = Errand(
            action="diagnose",
            policy=VerifyPolicy.MINIMAL,
            explicit_policy=True,
            base=action.base,
            paths=action.paths,
        )
        survey = await self._survey(action.caller, action.python)
        return await self._aside(errand, action, Rung.DIAGNOSE, survey)

    async def _test(self, action: Test) -> Started:
        nodeids = await self._nodeids(action)
        survey = await self._survey(action.caller, action.python)
        errand = Errand(
            action="test",
            policy=VerifyPolicy.STANDARD,
            explicit_policy=True,
            base=action.base,
            project=action.project,
            nodeids=nodeids,
            profile=find_profile(survey.loaded.settings, action.profile) if action.profile else None,
        )
        return await self._aside(errand, action, Rung.SCOPED, survey)

    async def _nodeids(self, action: Test) -> tuple[str, ...]:
        if not action.rerun_failed:
            return action.nodeids
        last = await self._read.last(action.caller)
        failing = [test.nodeid for rung in last.rungs if rung.tests for test in rung.tests.failing]
        if not failing:
            raise InvalidInput(
                "the last run has no failing test to run again: name tests", field="rerun_failed"
            )
        return tuple(failing)

    async def _aside(self, errand: Errand, action: Diagnose | Test, rung: Rung, survey: Survey) -> Started:
        active = await self._open(errand, survey, action.sandbox, Lane.INTERACTIVE)
        seq = await asyncio.to_thread(self._world.journal.last_seq)
        driver = self._driver(survey.question)
        plan = LadderPlan(policy=errand.policy, rungs=(PlannedRung(rung=rung),))
        driver.start_aside(active, plan)
        self._limit(driver, active, action.timeout_s)
        return Started(run_id=active.id, joined=False, seq=seq)

    def _limit(self, driver: ScopeDriver, active: ActiveRun, timeout_s: float | None) -> None:
        if timeout_s is not None:
            loop = asyncio.get_running_loop()
            active.timer = loop.call_later(timeout_s, driver.time_out, active.id)

    async def _survey(self, caller: Caller, python: str | None) -> Survey:
        question = await asyncio.to_thread(self._world.surveyor.question, caller, python)
        return await self._driver(question).survey(question)

    async def _open(
        self, errand: Errand, survey: Survey, sandbox: SandboxProfile | None, lane: Lane
    ) -> ActiveRun:
        """Everything a run needs, found before it begins; what cannot work is an error, not a run."""
        await asyncio.to_thread(self._world.storage.require_room, survey.workspace.scope)
        settings = survey.loaded.settings.environment
        profile = sandbox or settings.default_sandbox_profile
        if not allows(settings.default_sandbox_profile, profile):
            raise ProfileRefused(
                f"the profile {profile} is wider than {settings.default_sandbox_profile}, which your settings "
                "grant: set default_sandbox_profile in your own settings file to allow it",
                next="glideslope config show",
                profile=profile,
            )
        isolation = await self._isolation(settings.isolation)
        self._world.sandboxes.check_profile(profile)
        run = RunId(self._world.new_id())
        executor = Executor(
            run=run, survey=survey, site=self._site, profile=profile, isolation=isolation, lane=lane
        )
        bases = Bases(
            vcs=self._site.vcs,
            journal=self._world.journal,
            survey=survey,
            terms=terms(survey, self._kit.toolchain, isolation),
            given=errand.base,
        )
        climb = Climb(run=run, errand=errand, survey=survey, kit=self._kit, bases=bases, executor=executor)
        await asyncio.to_thread(climb.prepare)
        ledger = Ledger(
            self._blank(run, errand, survey, profile, isolation), clock=self._world.clock, emit=self._emit
        )
        return ActiveRun(ledger=ledger, climb=climb, executor=executor, survey=survey)

    async def _isolation(self, wanted: str) -> Isolation:
        """The tier to use: what the settings name, or the best this machine allows."""
        if wanted != "auto":
            return Isolation(wanted)
        return (await self._world.sandboxes.probe()).isolation

    def _blank(
        self, run: RunId, errand: Errand, survey: Survey, profile: SandboxProfile, isolation: Isolation
    ) -> Run:
        snapshot = survey.snapshot
        return Run(
            id=run,
            action=errand.action,
            epoch=EpochId(self._world.new_id()) if errand.action == "verify" else None,
            scope=survey.workspace.scope,
            policy=errand.policy,
            sandbox_profile=profile,
            isolation=isolation,
            snapshot=snapshot.id,
            tree_id=snapshot.tree_id,
            git_head=snapshot.git.head if snapshot.git else None,
            inputs_digest=snapshot.inputs_digest,
            environment_key=survey.environment_key,
            dirty_paths=snapshot.dirty_paths,
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
            started_at=self._world.clock.utc_now(),
            ended_at=None,
            python=survey.question.python,
            virtual_env=survey.question.virtual_env,
        )

    def _driver(self, question: Question) -> ScopeDriver:
        scope = question.workspace.scope
        if scope not in self._scopes:
            self._scopes[scope] = ScopeDriver(
                question=question,
                surveyor=self._world.surveyor,
                runner=self._runner,
                journal=self._world.journal,
                watcher=self._world.watcher,
                clock=self._world.clock,
                emit=self._emit,
                complain=self._world.complain,
            )
        return self._scopes[scope]

    def _emit(self, event: Event, scope: Scope | None) -> None:
        self._world.bus.publish(self._world.journal.append(event, scope=scope))

    async def _cancel(self, action: Cancel) -> Cancelled:
        if action.run_id is not None:
            run = self._read.known(action.run_id)
            found = self._read.active(run.id)
            targets = [found] if found else []
        else:
            question = await asyncio.to_thread(self._world.surveyor.question, action.caller)
            driver = self._scopes.get(question.workspace.scope)
            targets = [(driver, active) for active in driver.active] if driver else []
        left = await asyncio.gather(
            *(driver.cancel(active.id, CancelReason.REQUESTED) for driver, active in targets)
        )
        return Cancelled(cancelled=tuple(active.id for _, active in targets), survivors=sum(left))

    async def _doctor(self, action: Doctor) -> Diagnosis:
        probe = await self._world.sandboxes.probe()
        return await asyncio.to_thread(
            doctor.examine,
            action,
            probe=probe,
            surveyor=self._world.surveyor,
            tools=self._kit.tools,
            storage=self._world.storage,
        )


def _digest(errand: Errand, profile: str, action: Verify) -> str:
    told = replace(errand, action="verify")
    return hashlib.sha256(repr((told, profile, action.python, action.timeout_s)).encode()).hexdigest()
