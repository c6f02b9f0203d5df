"""One worktree: its runs, its epoch, and the watch over what it holds.

The epoch machine decides; this module carries out its orders, one at a time, and brings back what
became of them as facts. Runs that open no epoch take the same steps without the machine.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import assert_never

from glideslope.engine.climb import Climb
from glideslope.engine.execute import Executor
from glideslope.engine.ledger import Emit, Ledger
from glideslope.engine.runner import Runner
from glideslope.engine.survey import Question, Survey, Surveyor
from glideslope.errors import EnvironmentBroken, GlideslopeError, Refused
from glideslope.machines import accounting, epoch, ladder
from glideslope.machines.base import LIVE
from glideslope.model.event import AgentVerifyEpochCurrent, AgentVerifyEpochStale
from glideslope.model.ids import EpochId, RunId, Scope, SnapshotId
from glideslope.model.result import CancelReason, RungResult, RungState, StaleReason, Verdict
from glideslope.model.run import Staleness
from glideslope.model.rung import LadderPlan, Rung, VerifyPolicy
from glideslope.model.snapshot import diff
from glideslope.model.timeslice import Phase, TimeSlice
from glideslope.ports.clock import Clock
from glideslope.ports.journal import Journal
from glideslope.ports.watcher import Watcher

HINT_QUIET_S = 0.05  # several writes of one save are one look
LOOK_AT_MOST_S = 0.25  # looks at a busy worktree are at least this far apart

NO_TEST_REACHES = "no test reaches this change"
OTHERS_CHANGED = "other paths changed too and were not looked at"

Complain = Callable[[str], None]
"""Takes a report of our own fault, for the log of the engine."""


@dataclass(slots=True, kw_only=True)
class ActiveRun:
    """A run under way."""

    ledger: Ledger
    climb: Climb
    executor: Executor
    survey: Survey
    waiting_since_s: list[float] = field(default_factory=list)
    blocked: list[TimeSlice] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    @property
    def id(self) -> RunId:
        """The run's id."""
        return self.ledger.run.id

    def note_plan(self, plan: LadderPlan) -> None:
        """Records what the run set out to do, and what its required rung compares with."""
        required = plan.required or Rung.DIAGNOSE
        base = self.climb.base(required).base
        planned = any(one.rung.height >= Rung.SCOPED.height for one in plan.rungs)
        unreached = not planned and plan.policy is VerifyPolicy.STANDARD and not self.climb.reached_by_tests
        self.ledger.amend(
            required_rung=plan.required,
            base_snapshot=base.snapshot,
            base_reason=base.reason,
            changed_paths=self.climb.changed_paths(required),
            note=NO_TEST_REACHES if unreached else "",
        )
        for result in ladder.settle(plan, ()):
            self.ledger.note_rung(result)


class ScopeDriver:
    """Everything that goes on in one worktree."""

    def __init__(
        self,
        *,
        question: Question,
        surveyor: Surveyor,
        runner: Runner,
        journal: Journal,
        watcher: Watcher,
        clock: Clock,
        emit: Emit,
        complain: Complain,
    ) -> None:
        self._question = question
        self._surveyor = surveyor
        self._runner = runner
        self._journal = journal
        self._watcher = watcher
        self._clock = clock
        self._emit = emit
        self._complain = complain
        self._state = epoch.ScopeState()
        self._active: dict[RunId, ActiveRun] = {}
        self._asking: ActiveRun | None = None
        self._joined: RunId | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._last: Survey | None = None
        self._looking = asyncio.Lock()

    @property
    def active(self) -> tuple[ActiveRun, ...]:
        """Runs under way, oldest first."""
        return tuple(self._active.values())

    @property
    def question(self) -> Question:
        """Where this scope lies."""
        return self._question

    # Opening runs

    def ask(self, active: ActiveRun, digest: str) -> RunId:
        """Opens an epoch for a run, or finds the one that answers the same question.

        Args:
            active: The run to open if a new one is needed.
            digest: Digest of policy and arguments.

        Returns:
            The run that answers: the given one, or the joined.
        """
        self._question = active.survey.question
        self._last = active.survey
        run = active.ledger.run
        assert run.epoch is not None, "a verify has an epoch"
        self._asking, self._joined = active, None
        self._tell(epoch.Asked(epoch=run.epoch, run=run.id, content=active.survey.content, question=digest))
        self._asking = None
        self._ensure_watched()
        return self._joined or run.id

    def start_aside(self, active: ActiveRun, plan: LadderPlan) -> None:
        """Runs rungs that open no epoch: they supersede nothing and are superseded by nothing."""
        self._active[active.id] = active
        active.ledger.open()
        self._spawn(self._aside(active, plan), active)

    async def cancel(self, run: RunId, reason: CancelReason) -> int:
        """Cancels a run and waits until its processes are gone.

        Returns:
            How many processes are left: 0, or it is a fault of the sandbox.
        """
        active = self._active[run]
        if active.ledger.run.epoch is not None:
            self._tell(epoch.CancelAsked(run=run, reason=reason))
        else:
            active.executor.stopped = reason
            self._runner.cancel_run(run, reason)
        await active.ledger.ended.wait()
        return active.executor.survivors

    def time_out(self, run: RunId) -> None:
        """Ends a run because its time is up."""
        if run in self._active:
            self._spawn(self._cancelled_by_time(run), self._active[run])

    async def _cancelled_by_time(self, run: RunId) -> None:
        await self.cancel(run, CancelReason.TIMEOUT)

    async def wait(self, run: RunId, timeout_s: float) -> None:
        """Waits until a run has ended, or for so long; the wait counts as blocked time."""
        active = self._active.get(run)
        if active is None:
            return
        since_s = self._clock.monotonic_s()
        active.waiting_since_s.append(since_s)
        try:
            await asyncio.wait_for(active.ledger.ended.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:
            active.waiting_since_s.remove(since_s)
            active.blocked.append(
                TimeSlice(phase=Phase.BLOCKED, started_s=since_s, ended_s=self._clock.monotonic_s())
            )

    async def close(self) -> None:
        """Cancels what runs here, waits for the endings, and stops watching."""
        await asyncio.gather(*(self.cancel(run, CancelReason.SHUTDOWN) for run in tuple(self._active)))
        tasks = [task for task in (self._watch, *self._errands, *self._endings) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Looking

    async def survey(self, question: Question) -> Survey:
        """Digests the worktree now. One look at a time: an older one never arrives after a newer."""
        async with self._looking:
            return await asyncio.to_thread(self._surveyor.look, question)

    async def look_as(self, python: str | None, virtual_env: str | None) -> Survey:
        """Digests the worktree as somebody with this interpreter would; tells the epochs if it is theirs."""
        question = replace(self._question, python=python, virtual_env=virtual_env)
        return await (self.look() if _same_question(question, self._question) else self.survey(question))

    async def look(self) -> Survey:
        """Digests the worktree now and lets the epochs know."""
        async with self._looking:
            survey = await asyncio.to_thread(self._surveyor.look, self._question)
            self._see(survey)
        return survey

    def _see(self, survey: Survey) -> None:
        if not _same_question(survey.question, self._question):
            return  # another interpreter was named: says nothing about the runs watched here
        paths = _differing(self._last, survey) if self._last is not None else ()
        self._last = survey
        self._tell(epoch.Looked(content=survey.content, paths=paths))

    def _ensure_watched(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._keep_watch())

    async def _keep_watch(self) -> None:
        async with self._watcher.watch(self._question.workspace.scope) as hints:
            async for _ in hints:
                await asyncio.sleep(HINT_QUIET_S)
                try:
                    await self.look()
                except GlideslopeError as error:
                    self._complain(f"cannot look at {self._question.workspace.scope}: {error.message}")
                await asyncio.sleep(LOOK_AT_MOST_S - HINT_QUIET_S)

    # Carrying out

    def _tell(self, fact: epoch.Fact) -> None:
        self._state, effects = epoch.step(self._state, fact)
        for effect in effects:
            self._do(effect)

    def _do(self, effect: epoch.Effect) -> None:
        match effect:
            case epoch.OpenRun():
                assert self._asking is not None, "a run is opened because somebody asked"
                self._active[effect.run] = self._asking
                self._asking.ledger.open()
                self._spawn(self._lay_out(effect.epoch, self._asking), self._asking)
            case epoch.JoinRun():
                self._joined = effect.run
            case epoch.StartRung():
                active = self._active[self._run_of(effect.epoch)]
                self._spawn(self._try_rung(effect.epoch, effect.rung, active), active)
            case epoch.LookAgain():
                active = self._active[self._run_of(effect.epoch)]
                self._spawn(self._confirm(effect.epoch, active), active)
            case epoch.CancelTasks():
                self._active[effect.run].executor.stopped = effect.reason
                self._runner.cancel_run(effect.run, effect.reason)
            case epoch.AnnounceStale():
                self._emit(
                    AgentVerifyEpochStale(
                        run_id=effect.run,
                        verify_snapshot_id=effect.content.snapshot,
                        reason=effect.staleness.reason,
                        paths=effect.staleness.paths,
                    ),
                    self.scope,
                )
            case epoch.AnnounceCurrent():
                self._emit(
                    AgentVerifyEpochCurrent(run_id=effect.run, verify_snapshot_id=effect.content.snapshot),
                    self.scope,
                )
            case epoch.EndRun():
                ending = asyncio.create_task(self._end(effect, self._active[effect.run]))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
            case _:
                assert_never(effect)

    @property
    def scope(self) -> Scope:
        """The real path of the worktree root."""
        return self._question.workspace.scope

    def _run_of(self, wanted: EpochId) -> RunId:
        assert self._state.open is not None and self._state.open.id == wanted, "orders concern the open epoch"
        return self._state.open.run

    def _spawn(self, work: Coroutine[None, None, None], active: ActiveRun) -> None:
        task = asyncio.create_task(self._guard(work, active))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _guard(self, work: Coroutine[None, None, None], active: ActiveRun) -> None:
        """Whatever breaks on the way up becomes an end of the run, never silence."""
        try:
            await work
        except GlideslopeError as error:
            self._abandon(active, error)
        except Exception as error:  # noqa: BLE001  # the edge where our own faults become an ending
            self._complain("".join(traceback.format_exception(error)))
            self._abandon(
                active, EnvironmentBroken(f"glideslope failed: {error!r}", next="glideslope doctor")
            )

    def _abandon(self, active: ActiveRun, error: GlideslopeError) -> None:
        active.ledger.amend(note=error.message, next=error.next)
        run = active.ledger.run
        verdict = Verdict.REFUSED if isinstance(error, Refused) else Verdict.DIED
        if run.epoch is not None:
            self._tell(epoch.Abandoned(epoch=run.epoch, verdict=verdict))
        elif run.verdict is None:
            self._close(active, verdict, run.rungs)

    # A run with an epoch

    async def _lay_out(self, which: EpochId, active: ActiveRun) -> None:
        if self._endings:  # one chain at a time: the predecessor's processes go first
            await asyncio.wait(set(self._endings))
        plan = await asyncio.to_thread(active.climb.lay_out)
        active.note_plan(plan)
        left_out = active.climb.leaves_out_changes()
        if left_out:
            active.ledger.amend(note=OTHERS_CHANGED, next="glideslope verify")
        self._tell(epoch.Planned(epoch=which, plan=plan, capped_paths=left_out))

    async def _try_rung(self, which: EpochId, rung: Rung, active: ActiveRun) -> None:
        active.ledger.note_rung(RungResult(rung=rung, state=RungState.RUNNING))
        result = await active.climb.rung(rung)
        self._keep_proofs(active)
        if active.ledger.run.verdict is None:
            active.ledger.note_rung(result)
        self._tell(epoch.RungEnded(epoch=which, result=result))

    async def _confirm(self, which: EpochId, active: ActiveRun) -> None:
        """The last look: only content seen to be still there lets a verdict be spoken."""
        moved = await asyncio.to_thread(active.executor.moved_large_files)
        async with self._looking:
            try:
                survey = await asyncio.to_thread(self._surveyor.look, active.survey.question)
            except EnvironmentBroken:
                raise
            except GlideslopeError as error:  # what can no longer be read is not what it was
                active.ledger.amend(note=error.message, next=error.next)
                self._tell(epoch.Looked(content=_other_than(active.survey.content), answers=which))
                return
            if self._state.open is None or self._state.open.id != which:
                return  # over meanwhile; another run may have asked with another interpreter
            if moved:
                content = _other_than(survey.content)
                self._tell(epoch.Looked(content=content, paths=tuple(moved), answers=which))
                return
            paths = _differing(active.survey, survey)
            self._tell(epoch.Looked(content=survey.content, paths=paths, answers=which))

    async def _end(self, effect: epoch.EndRun, active: ActiveRun) -> None:
        await self._runner.wait_run_gone(active.id)
        reason = effect.stale.reason if effect.stale else effect.cancelled
        rungs = tuple(_stopped(active, result, reason) for result in effect.results)
        self._close(active, effect.verdict, rungs, stale=effect.stale, cancelled=effect.cancelled)

    # A run without one

    async def _aside(self, active: ActiveRun, plan: LadderPlan) -> None:
        active.note_plan(plan)
        results: tuple[RungResult, ...] = ()
        while (rung := ladder.next_rung(plan, results)) is not None:
            active.ledger.note_rung(RungResult(rung=rung, state=RungState.RUNNING))
            result = await active.climb.rung(rung)
            active.ledger.note_rung(result)
            results = (*results, result)
        survey = await self.survey(active.survey.question)
        stale = _staleness(active.survey, survey)
        settled = ladder.harden(plan.policy, ladder.settle(plan, results))
        cancelled = active.executor.stopped
        verdict = ladder.fold_verdict(
            plan, settled, stale=stale is not None and cancelled is None, cancelled=cancelled is not None
        )
        await self._runner.wait_run_gone(active.id)
        self._close(
            active, verdict, settled, stale=stale if verdict is Verdict.STALE else None, cancelled=cancelled
        )

    # Endings

    def _keep_proofs(self, active: ActiveRun) -> None:
        proofs, active.climb.proofs = active.climb.proofs, []
        if proofs and active.survey.snapshot.complete and active.executor.isolation != LIVE:
            self._journal.keep_snapshot(active.survey.snapshot)
            for proof in proofs:
                self._journal.prove(proof)

    def _close(
        self,
        active: ActiveRun,
        verdict: Verdict,
        rungs: tuple[RungResult, ...],
        *,
        stale: Staleness | None = None,
        cancelled: CancelReason | None = None,
    ) -> None:
        now_s = self._clock.monotonic_s()
        waited = [
            TimeSlice(phase=Phase.BLOCKED, started_s=since_s, ended_s=now_s)
            for since_s in active.waiting_since_s
        ]
        time = accounting.report(
            [*active.executor.slices, *active.blocked, *waited],
            started_s=active.ledger.started_s,
            ended_s=now_s,
        )
        if active.timer is not None:
            active.timer.cancel()
        active.executor.release()
        del self._active[active.id]
        active.ledger.close(
            verdict,
            rungs,
            reached=ladder.max_rung_reached(rungs),
            time=time,
            stale=stale,
            cancelled=cancelled,
        )


def _stopped(active: ActiveRun, result: RungResult, reason: StaleReason | CancelReason | None) -> RungResult:
    """A rung that was running when its run was ended shows as cancelled, not as never begun."""
    known = next((rung for rung in active.ledger.run.rungs if rung.rung is result.rung), result)
    if result.state is RungState.PENDING and known.state in (RungState.RUNNING, RungState.CANCELLED):
        return replace(known, state=RungState.CANCELLED, reason=reason or CancelReason.REQUESTED)
    return result


def _staleness(then: Survey, now: Survey) -> Staleness | None:
    if then.content == now.content:
        return None
    if then.snapshot.id == now.snapshot.id:
        return Staleness(reason=StaleReason.ENVIRONMENT_CHANGED)
    return Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=_differing(then, now))


def _differing(then: Survey, now: Survey) -> tuple[str, ...]:
    if then.snapshot.id == now.snapshot.id:
        return ()
    return tuple(change.path for change in diff(then.tree.entries, now.tree.entries))


def _other_than(content: epoch.Content) -> epoch.Content:
    """Content that equals no snapshot: what cannot be digested, or moved without a new id."""
    return replace(content, snapshot=SnapshotId(f"{content.snapshot}+"))


def _same_question(one: Question, other: Question) -> bool:
    return (one.python, one.virtual_env) == (other.python, other.virtual_env)
