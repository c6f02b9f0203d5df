"""Epochs: what single facts carry, beside the histories that are enumerated elsewhere."""

from __future__ import annotations

import pytest

from glideslope.errors import InvalidInput
from glideslope.machines import epoch, ladder
from glideslope.model.ids import EpochId, RunId, SnapshotId
from glideslope.model.result import (
    FailureClass,
    RungResult,
    RungState,
    StaleReason,
    TestCase,
    TestCounts,
    Verdict,
)
from glideslope.model.rung import LadderPlan, Rung, VerifyPolicy

S = epoch.Content(snapshot=SnapshotId("s1-a"))
OTHER = epoch.Content(snapshot=SnapshotId("s1-b"))


def asked(number: int) -> epoch.Asked:
    return epoch.Asked(epoch=EpochId(f"e{number}"), run=RunId(f"r{number}"), content=S, question=str(number))


def told(state: epoch.ScopeState, *facts: epoch.Fact) -> tuple[epoch.ScopeState, epoch.Effects]:
    effects: epoch.Effects = ()
    for fact in facts:
        state, effects = epoch.step(state, fact)
        epoch.check(state)
    return state, effects


def climb(plan: LadderPlan, *results: RungResult, capped_paths: bool = False) -> epoch.EndRun:
    """A whole climb up to its verdict."""
    e = EpochId("e1")
    state, effects = told(
        epoch.ScopeState(),
        asked(1),
        epoch.Planned(epoch=e, plan=plan, capped_paths=capped_paths),
        *(epoch.RungEnded(epoch=e, result=result) for result in results),
    )
    assert effects == (epoch.LookAgain(epoch=e),)
    _, (ended,) = told(state, epoch.Looked(content=S, answers=e))
    assert isinstance(ended, epoch.EndRun)
    return ended


def plan(policy: VerifyPolicy, *, cap: Rung | None = None) -> LadderPlan:
    return ladder.plan(policy, ladder.PlanFacts(explicit=False, on_main_branch=True, cap=cap))


def passed(rung: Rung, tests: TestCounts | None = None) -> RungResult:
    return RungResult(rung=rung, state=RungState.PASS, tests=tests)


def test_looking_at_some_paths_only_is_never_green() -> None:
    assert climb(plan(VerifyPolicy.MINIMAL), passed(Rung.DIAGNOSE)).verdict is Verdict.GREEN
    capped = climb(plan(VerifyPolicy.MINIMAL), passed(Rung.DIAGNOSE), capped_paths=True)
    assert capped.verdict is Verdict.INCONCLUSIVE


def test_a_forbidden_rung_is_refused_once_the_climb_gets_there_even_if_old_faults_count_as_well() -> None:
    known = TestCase(nodeid="t", path="t.py", line=1, message="", failure_class=FailureClass.KNOWN)
    below = [passed(Rung.DIAGNOSE), passed(Rung.COMPILE), passed(Rung.BUILD)]
    ended = climb(plan(VerifyPolicy.STRICT), *below, passed(Rung.SCOPED, TestCounts(failing=(known,))))
    assert ended.verdict is Verdict.REFUSED
    assert [result.state for result in ended.results[3:]] == [RungState.FAIL, RungState.NOT_PERMITTED]


def test_old_faults_make_a_demanding_verdict_red_after_the_last_rung_has_run() -> None:
    known = TestCase(nodeid="t", path="t.py", line=1, message="", failure_class=FailureClass.KNOWN)
    below = [passed(Rung.DIAGNOSE), passed(Rung.COMPILE), passed(Rung.BUILD)]
    ended = climb(
        plan(VerifyPolicy.STRICT, cap=Rung.SCOPED),
        *below,
        passed(Rung.SCOPED, TestCounts(failing=(known,))),
    )
    assert ended.verdict is Verdict.RED


def test_a_plan_with_nothing_to_run_is_inconclusive() -> None:
    nothing = ladder.plan(VerifyPolicy.MINIMAL, ladder.PlanFacts(explicit=True, diagnose_enabled=False))
    ended = climb(nothing)
    assert ended.verdict is Verdict.INCONCLUSIVE
    assert ended.results[0].state is RungState.SKIPPED


def test_edit_and_revert_makes_the_old_verdict_apply_again_and_each_flip_is_told_once() -> None:
    e = EpochId("e1")
    state, _ = told(
        epoch.ScopeState(),
        asked(1),
        epoch.Planned(epoch=e, plan=plan(VerifyPolicy.MINIMAL)),
        epoch.RungEnded(epoch=e, result=passed(Rung.DIAGNOSE)),
        epoch.Looked(content=S, answers=e),
    )
    state, effects = told(state, epoch.Looked(content=OTHER))
    assert [type(effect) for effect in effects] == [epoch.AnnounceStale]
    state, effects = told(state, epoch.Looked(content=OTHER))
    assert effects == ()
    state, effects = told(state, epoch.Looked(content=S))
    assert [type(effect) for effect in effects] == [epoch.AnnounceCurrent]


def test_a_superseded_run_is_stale_and_is_not_watched() -> None:
    state, effects = told(epoch.ScopeState(), asked(1), asked(2))
    stale, cancel, ended, opened = effects
    assert isinstance(stale, epoch.AnnounceStale)
    assert stale.staleness.reason is StaleReason.SUPERSEDED
    assert isinstance(cancel, epoch.CancelTasks)
    assert isinstance(ended, epoch.EndRun)
    assert ended.verdict is Verdict.STALE
    assert isinstance(opened, epoch.OpenRun)
    assert state.watched == ()


def test_only_so_many_ended_runs_are_watched() -> None:
    state = epoch.ScopeState()
    for number in range(epoch.WATCHED_AT_MOST + 3):
        gone = epoch.Abandoned(epoch=EpochId(f"e{number}"), verdict=Verdict.DIED)
        state, _ = told(state, asked(number), gone)
    assert len(state.watched) == epoch.WATCHED_AT_MOST
    assert state.watched[0].run == "r3"


@pytest.mark.parametrize("verdict", [Verdict.GREEN, Verdict.RED, Verdict.STALE])
def test_nothing_abandoned_can_claim_what_only_a_climb_or_a_look_shows(verdict: Verdict) -> None:
    with pytest.raises(InvalidInput):
        epoch.Abandoned(epoch=EpochId("e1"), verdict=verdict)
