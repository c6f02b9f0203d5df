"""The verification ladder: from a policy to a plan, from a plan to the next rung, from rungs to a verdict.

Three pure questions over the same two values. A plan says which rungs a policy asks for and which
of them are skipped or forbidden; results say where each rung stands. Nothing here knows how a rung
is run, and nothing here turns a rung that did not run into a pass: an unknown, missing or unfinished
result can only ever lead to `inconclusive`.

A rung of an ended run that the climb never reached stays `pending`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from glideslope.model.result import (
    Diagnostic,
    FailureClass,
    FindingState,
    RungResult,
    RungState,
    Severity,
    Verdict,
)
from glideslope.model.rung import RUNGS, LadderPlan, PlannedRung, Rung, VerifyPolicy

NO_CODE_CHANGE = "no code change"
COVERED_BY_FULL = "covered by test.full"
DISABLED = "disabled in the settings"
NEEDS_EXPLICIT = "test.full runs only when it is asked for by name"

GENERATED_STALE = "generated_stale"  # reason of a diagnose.files that saw stale generated sources
KNOWN_FAILURES = "known_failures"  # reason of a pass that a demanding policy turns into a fail

ENDS_THE_CLIMB = frozenset({RungState.FAIL, RungState.DIED, RungState.CANCELLED, RungState.NOT_PERMITTED})
_DEMANDING = frozenset({VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY})
_STATIC = (Rung.DIAGNOSE, Rung.COMPILE, Rung.BUILD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """What a plan depends on beside the policy."""

    explicit: bool  # a caller named the policy; False: it comes from the settings
    on_main_branch: bool = False
    reached_by_tests: bool = False  # a test depends on the change, or a test file changed
    neutral: bool = False  # no changed file differs in code
    cap: Rung | None = None  # climb no higher than this
    diagnose_enabled: bool = True
    test_full_require_explicit: bool = True


def plan(policy: VerifyPolicy, facts: PlanFacts) -> LadderPlan:
    """Lays out the rungs a policy asks for, for one change.

    A cap removes what lies above it; it never adds a rung. Where it removes `test.full`, nothing
    covers `test.scoped` any more, so `ci_parity` then runs that.

    Returns:
        The plan, cheapest rung first; a rung the policy does not ask for is absent.
    """
    height = RUNGS[-1].height if facts.cap is None else facts.cap.height
    rungs = [rung for rung in _asked_for(policy, facts) if rung.height <= height]
    return LadderPlan(policy=policy, rungs=tuple(_planned(rung, rungs, policy, facts) for rung in rungs))


def _asked_for(policy: VerifyPolicy, facts: PlanFacts) -> tuple[Rung, ...]:
    match policy:
        case VerifyPolicy.MINIMAL:
            return (Rung.DIAGNOSE,)
        case VerifyPolicy.STANDARD:
            scoped = facts.reached_by_tests or facts.neutral
            return (*_STATIC, Rung.SCOPED) if scoped else _STATIC
        case VerifyPolicy.STRICT:
            return RUNGS if facts.on_main_branch else RUNGS[:-1]
        case VerifyPolicy.CI_PARITY:
            return RUNGS
        case _:  # pragma: no cover
            assert_never(policy)


def _planned(rung: Rung, rungs: Sequence[Rung], policy: VerifyPolicy, facts: PlanFacts) -> PlannedRung:
    if rung is Rung.DIAGNOSE and not facts.diagnose_enabled:
        return PlannedRung(rung=rung, skipped=DISABLED)
    if rung is Rung.SCOPED and policy is VerifyPolicy.STANDARD and facts.neutral:
        return PlannedRung(rung=rung, skipped=NO_CODE_CHANGE)
    if rung is Rung.SCOPED and policy is VerifyPolicy.CI_PARITY and Rung.FULL in rungs:
        return PlannedRung(rung=rung, skipped=COVERED_BY_FULL)
    if rung is Rung.FULL and facts.test_full_require_explicit and not facts.explicit:
        return PlannedRung(rung=rung, not_permitted=NEEDS_EXPLICIT)
    return PlannedRung(rung=rung)


def settle(plan: LadderPlan, results: Iterable[RungResult]) -> tuple[RungResult, ...]:
    """Says where every rung of the plan stands: what was planned, what was found, what was not reached.

    The plan wins over a result: news about a rung that was skipped or forbidden is not believed.
    A forbidden rung becomes `not_permitted` only when the climb gets to it.

    Args:
        plan: The plan.
        results: At most one per rung, any order; those of rungs outside the plan are ignored.

    Returns:
        One result per planned rung, cheapest first.
    """
    found = {result.rung: result for result in results}
    settled: list[RungResult] = []
    ended = False
    for planned in plan.rungs:
        result = _stands(plan.policy, planned, found.get(planned.rung), reached=not ended)
        ended = ended or result.state in ENDS_THE_CLIMB or result.state in _UNFINISHED
        settled.append(result)
    return tuple(settled)


_UNFINISHED = frozenset({RungState.PENDING, RungState.RUNNING})


def _stands(
    policy: VerifyPolicy, planned: PlannedRung, found: RungResult | None, *, reached: bool
) -> RungResult:
    if planned.skipped is not None:
        return RungResult(rung=planned.rung, state=RungState.SKIPPED, reason=planned.skipped)
    if planned.not_permitted is not None:
        noted = found is not None and found.state is RungState.NOT_PERMITTED
        if reached or noted:
            return RungResult(
                rung=planned.rung,
                state=RungState.NOT_PERMITTED,
                reason=planned.not_permitted,
                next=f"glideslope verify {policy}",
            )
        return RungResult(rung=planned.rung, state=RungState.PENDING)
    return found or RungResult(rung=planned.rung, state=RungState.PENDING)


def next_rung(plan: LadderPlan, results: Iterable[RungResult]) -> Rung | None:
    """Names the rung to run now.

    A rung starts only if every cheaper one ended `pass`, `skipped` or `inconclusive`.

    Returns:
        The cheapest rung still to run; None when the climb is over or a rung is running.
    """
    for result in settle(plan, results):
        if result.state is RungState.PENDING:
            return result.rung
        if result.state in ENDS_THE_CLIMB or result.state is RungState.RUNNING:
            return None
    return None


def required_rung(plan: LadderPlan, results: Iterable[RungResult]) -> Rung | None:
    """Names the rung that has to pass: the last that is not skipped, in the plan or as found."""
    settled = settle(plan, results)
    return next((found.rung for found in reversed(settled) if found.state is not RungState.SKIPPED), None)


def max_rung_reached(results: Iterable[RungResult]) -> Rung | None:
    """Names the highest rung that was really executed, a cached pass included.

    A rung that ended neither in a pass nor in a fail counts when it has a duration: one that never
    began (nothing to run, a missing tool, cancelled in the queue) has none.
    """
    executed = [result.rung for result in results if _executed(result)]
    return max(executed, key=lambda rung: rung.height, default=None)


def _executed(result: RungResult) -> bool:
    if result.state in (RungState.PASS, RungState.FAIL):
        return True
    begun = result.state in (RungState.INCONCLUSIVE, RungState.DIED, RungState.CANCELLED)
    return begun and result.duration_ms is not None


def harden(policy: VerifyPolicy, results: Iterable[RungResult]) -> tuple[RungResult, ...]:
    """Makes old faults count, where the policy says so; to be asked once the last rung has run.

    Under `strict` and `ci_parity` a pass that carries a known failing test, or a known error of a
    checker the repository configures, becomes a fail. Other policies change nothing.

    Returns:
        The results in the order given.
    """
    if policy not in _DEMANDING:
        return tuple(results)
    return tuple(
        replace(result, state=RungState.FAIL, reason=KNOWN_FAILURES, cached_from=None)
        if result.state is RungState.PASS and _has_known_faults(result)
        else result
        for result in results
    )


def _has_known_faults(result: RungResult) -> bool:
    findings = any(counts_when_known(found) for found in result.diagnostics)
    failing = result.tests.failing if result.tests else ()
    return findings or any(test.failure_class is FailureClass.KNOWN for test in failing)


def counts_when_known(found: Diagnostic) -> bool:
    """Whether a finding counts under a demanding policy although the base had it."""
    return found.configured and found.state is FindingState.KNOWN and found.severity is Severity.ERROR


def fold_verdict(
    plan: LadderPlan,
    results: Iterable[RungResult],
    *,
    stale: bool = False,
    cancelled: bool = False,
    capped_paths: bool = False,
) -> Verdict:
    """Folds the rungs of a run into its verdict: the first that holds, worst news first.

    Args:
        plan: What the run set out to do.
        results: What became of it, at most one per rung.
        stale: The workspace no longer holds the snapshot, or a newer run took over.
        cancelled: The run as a whole was ended early.
        capped_paths: Only some of the changed paths were looked at.

    Returns:
        Green only if every rung of the plan that is not skipped passed.
    """
    settled = settle(plan, results)
    states = {result.state for result in settled}
    if stale:
        return Verdict.STALE
    if cancelled or RungState.CANCELLED in states:
        return Verdict.CANCELLED
    if RungState.DIED in states:
        return Verdict.DIED
    if RungState.NOT_PERMITTED in states:
        return Verdict.REFUSED
    if RungState.FAIL in states:
        return Verdict.RED
    proved = {result.state for result in _lifted(settled)} - {RungState.SKIPPED}
    return Verdict.GREEN if proved == {RungState.PASS} and not capped_paths else Verdict.INCONCLUSIVE


def _lifted(settled: Sequence[RungResult]) -> tuple[RungResult, ...]:
    """Without the doubt about generated sources, once the whole project compiled."""
    compiled = any(found.rung is Rung.COMPILE and found.state is RungState.PASS for found in settled)
    return tuple(found for found in settled if not (compiled and _doubts_generated(found)))


def _doubts_generated(found: RungResult) -> bool:
    return (
        found.rung is Rung.DIAGNOSE
        and found.state is RungState.INCONCLUSIVE
        and found.reason == GENERATED_STALE
    )
