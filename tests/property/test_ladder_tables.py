"""The ladder, compared with its table over every plan, and over every way its rungs can end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType

import pytest

from glideslope.machines import ladder
from glideslope.model.result import RungResult, RungState, Verdict
from glideslope.model.rung import RUNGS, LadderPlan, PlannedRung, Rung, VerifyPolicy

PLAIN, SKIPPED, FORBIDDEN = "plain", "skipped", "forbidden"
D, C, B, S, F = RUNGS


def expected_plan(policy: VerifyPolicy, facts: ladder.PlanFacts) -> list[tuple[Rung, str]]:
    """The table of policies, written down a second time."""
    rows: dict[VerifyPolicy, list[tuple[Rung, str]]] = {
        VerifyPolicy.MINIMAL: [(D, PLAIN)],
        VerifyPolicy.STANDARD: [(D, PLAIN), (C, PLAIN), (B, PLAIN)],
        VerifyPolicy.STRICT: [(D, PLAIN), (C, PLAIN), (B, PLAIN), (S, PLAIN)],
        VerifyPolicy.CI_PARITY: [(D, PLAIN), (C, PLAIN), (B, PLAIN), (S, SKIPPED), (F, PLAIN)],
    }
    row = rows[policy]
    if policy is VerifyPolicy.STANDARD and facts.neutral:
        row = [*row, (S, SKIPPED)]
    elif policy is VerifyPolicy.STANDARD and facts.reached_by_tests:
        row = [*row, (S, PLAIN)]
    if policy is VerifyPolicy.STRICT and facts.on_main_branch:
        row = [*row, (F, PLAIN)]
    if not facts.explicit and facts.test_full_require_explicit:
        row = [(rung, FORBIDDEN if rung is F else how) for rung, how in row]
    if not facts.diagnose_enabled:
        row = [(rung, SKIPPED if rung is D else how) for rung, how in row]
    if facts.cap is not None:
        allowed = RUNGS[: RUNGS.index(facts.cap) + 1]
        row = [(rung, how) for rung, how in row if rung in allowed]
        if policy is VerifyPolicy.CI_PARITY and F not in allowed:  # nothing covers it any more
            row = [(rung, PLAIN if rung is S else how) for rung, how in row]
    return row


def every_facts(module: ModuleType) -> Iterator[ladder.PlanFacts]:
    for explicit, main, tests, neutral, diagnose, demand in product((True, False), repeat=6):
        for cap in (None, *RUNGS):
            yield module.PlanFacts(
                explicit=explicit,
                on_main_branch=main,
                reached_by_tests=tests,
                neutral=neutral,
                cap=cap,
                diagnose_enabled=diagnose,
                test_full_require_explicit=demand,
            )


def how(planned: PlannedRung) -> str:
    assert planned.skipped is None or planned.not_permitted is None
    if planned.skipped is not None:
        return SKIPPED
    return PLAIN if planned.not_permitted is None else FORBIDDEN


def check_plans(module: ModuleType) -> None:
    for policy, facts in product(VerifyPolicy, every_facts(module)):
        made = module.plan(policy, facts)
        assert made.policy is policy
        assert [(planned.rung, how(planned)) for planned in made.rungs] == expected_plan(policy, facts)


def plan_of(*rows: tuple[Rung, str]) -> LadderPlan:
    return LadderPlan(
        policy=VerifyPolicy.STANDARD,
        rungs=tuple(
            PlannedRung(
                rung=rung,
                skipped="reason" if way is SKIPPED else None,
                not_permitted="reason" if way is FORBIDDEN else None,
            )
            for rung, way in rows
        ),
    )


PLANS = (
    plan_of((D, PLAIN)),
    plan_of((D, SKIPPED)),
    plan_of((D, PLAIN), (C, PLAIN), (B, PLAIN)),
    plan_of((D, PLAIN), (C, PLAIN), (S, SKIPPED)),
    plan_of((D, PLAIN), (C, PLAIN), (F, FORBIDDEN)),
    plan_of((D, SKIPPED), (C, PLAIN), (S, SKIPPED), (F, PLAIN)),
)
FLAGS = ((False, False, False), (True, True, True), (False, True, True), (False, False, True))
CLIMBS_ON = (RungState.PASS, RungState.SKIPPED, RungState.INCONCLUSIVE)
REASONS = ("", "generated_stale")


def endings(plan: LadderPlan) -> Iterator[tuple[RungResult, ...]]:
    """Every state of every rung; None: nothing was heard of it. Of a skipped one, only lies are told."""
    heard = [(None, RungState.PASS) if planned.skipped else (*RungState, None) for planned in plan.rungs]
    for states in product(*heard):
        for reason in REASONS if states[0] is RungState.INCONCLUSIVE else REASONS[:1]:
            yield tuple(
                RungResult(rung=planned.rung, state=state, reason=reason)
                for planned, state in zip(plan.rungs, states, strict=True)
                if state is not None
            )


def expected_states(plan: LadderPlan, results: tuple[RungResult, ...]) -> list[RungState]:
    heard = {result.rung: result.state for result in results}
    states: list[RungState] = []
    for planned in plan.rungs:
        found = heard.get(planned.rung, RungState.PENDING)
        if planned.skipped:
            found = RungState.SKIPPED
        elif planned.not_permitted and found is not RungState.NOT_PERMITTED:
            reached = all(state in CLIMBS_ON for state in states)
            found = RungState.NOT_PERMITTED if reached else RungState.PENDING
        states.append(found)
    return states


def expected_verdict(
    plan: LadderPlan, results: tuple[RungResult, ...], stale: bool, cancelled: bool, capped: bool
) -> Verdict:
    states = expected_states(plan, results)
    if stale:
        return Verdict.STALE
    for state, verdict in (
        (RungState.CANCELLED, Verdict.CANCELLED),
        (RungState.DIED, Verdict.DIED),
        (RungState.NOT_PERMITTED, Verdict.REFUSED),
        (RungState.FAIL, Verdict.RED),
    ):
        if state in states or (cancelled and verdict is Verdict.CANCELLED):
            return verdict
    needed = []
    by_rung = dict(zip((planned.rung for planned in plan.rungs), states, strict=True))
    doubted = any(result.rung is D and result.reason == "generated_stale" for result in results)
    for rung, state in by_rung.items():
        lifted = rung is D and doubted and by_rung.get(C) is RungState.PASS
        if state is not RungState.SKIPPED and not (lifted and state is RungState.INCONCLUSIVE):
            needed.append(state)
    proved = bool(needed) and all(state is RungState.PASS for state in needed)
    return Verdict.GREEN if proved and not capped else Verdict.INCONCLUSIVE


def check_folds(module: ModuleType) -> None:
    for plan in PLANS:
        for results in endings(plan):
            states = expected_states(plan, results)
            assert [settled.state for settled in module.settle(plan, results)] == states
            for stale, cancelled, capped in FLAGS:
                verdict = module.fold_verdict(
                    plan, results, stale=stale, cancelled=cancelled, capped_paths=capped
                )
                assert verdict is expected_verdict(plan, results, stale, cancelled, capped), results
            check_next(module, plan, results, states)


def check_next(
    module: ModuleType, plan: LadderPlan, results: tuple[RungResult, ...], states: list[RungState]
) -> None:
    rung = module.next_rung(plan, results)
    waiting = [planned.rung for planned, state in zip(plan.rungs, states, strict=True) if state == "pending"]
    free = all(state in (*CLIMBS_ON, RungState.PENDING) for state in states[: _climbed(states)])
    assert rung == (waiting[0] if waiting and free else None)
    asked = [planned.rung for planned, state in zip(plan.rungs, states, strict=True) if state != "skipped"]
    assert module.required_rung(plan, results) == (asked[-1] if asked else None)


def _climbed(states: list[RungState]) -> int:
    return states.index(RungState.PENDING) if RungState.PENDING in states else len(states)


def test_every_plan_is_the_one_in_the_table() -> None:
    check_plans(ladder)


def test_every_way_the_rungs_can_end_gives_the_verdict_of_the_first_rule_that_holds() -> None:
    check_folds(ladder)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (check_plans, "facts.reached_by_tests or facts.neutral", "facts.reached_by_tests"),
        (check_plans, "RUNGS if facts.on_main_branch else RUNGS[:-1]", "RUNGS[:-1]"),
        (check_plans, "and not facts.explicit", "and facts.explicit"),
        (check_plans, "rung.height <= height", "rung.height < height"),
        (check_plans, "VerifyPolicy.CI_PARITY and Rung.FULL in rungs", "VerifyPolicy.CI_PARITY"),
        (check_folds, "    if RungState.DIED in states:\n        return Verdict.DIED\n", ""),
        (check_folds, "proved == {RungState.PASS}", "RungState.PASS in proved"),
        (check_folds, "proved == {RungState.PASS}", "proved <= {RungState.PASS}"),
        (check_folds, "and not capped_paths", ""),
        (check_folds, "and found.reason == GENERATED_STALE", ""),
        (check_folds, "if reached or noted:", "if True:"),
        (check_folds, "found.rung is Rung.COMPILE and found.state is RungState.PASS", "True"),
        (
            check_folds,
            "    if planned.skipped is not None:\n        return RungResult",
            "    if 0:\n        return RungResult",
        ),
        (check_folds, "ENDS_THE_CLIMB or result.state is RungState.RUNNING", "ENDS_THE_CLIMB"),
        (check_folds, "frozenset({RungState.FAIL, RungState.DIED,", "frozenset({RungState.DIED,"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType],
    check: Callable[[ModuleType], None],
    old: str,
    new: str,
) -> None:
    with pytest.raises(AssertionError):
        check(plant(ladder, old, new))
