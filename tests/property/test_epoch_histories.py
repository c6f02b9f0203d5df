"""Every short history of one scope: what a verdict may claim, and what must follow a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import pytest

from glideslope.machines import epoch
from glideslope.model.result import CancelReason, RungResult, RungState, StaleReason, Verdict
from glideslope.model.rung import LadderPlan, PlannedRung, Rung, VerifyPolicy

PLAN = LadderPlan(
    policy=VerifyPolicy.STANDARD,
    rungs=(PlannedRung(rung=Rung.DIAGNOSE), PlannedRung(rung=Rung.COMPILE)),
)
LADDER = [Rung.DIAGNOSE, Rung.COMPILE]
DIED, PASS, FAIL = RungState.DIED, RungState.PASS, RungState.FAIL


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an observer of facts and effects knows about a history."""

    opened: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    climbed: tuple[Rung, ...] = ()  # rungs of the open epoch that passed while they were tried
    started: Rung | None = None
    outdated: frozenset[str] = frozenset()  # runs announced stale by content, not current again
    facts: tuple[object, ...] = field(default=(), compare=False)


def facts(m: ModuleType, state: Any, number: int) -> Iterator[Any]:
    """The alphabet; ids of new epochs are fresh, news is about the open epoch or a strange one."""
    same, other = m.Content(snapshot="s1-a"), m.Content(snapshot="s1-b")
    rebuilt = m.Content(snapshot="s1-a", environment_key="later")
    open_id = state.open.id if state.open else "e0"
    open_run = state.open.run if state.open else "r0"
    new = {"epoch": f"e{number}", "run": f"r{number}"}
    yield m.Asked(**new, content=same, question="q")
    yield m.Asked(**new, content=same, question="harder")
    yield m.Asked(**new, content=other, question="q")
    yield m.Planned(epoch=open_id, plan=PLAN)
    yield m.Planned(epoch="strange", plan=PLAN)
    for rung, end in (
        (Rung.DIAGNOSE, PASS),
        (Rung.COMPILE, PASS),
        (Rung.DIAGNOSE, FAIL),
        (Rung.COMPILE, DIED),
    ):
        yield m.RungEnded(epoch=open_id, result=RungResult(rung=rung, state=end))
    yield m.RungEnded(epoch="strange", result=RungResult(rung=Rung.DIAGNOSE, state=PASS))
    yield m.Looked(content=same)
    yield m.Looked(content=same, answers=open_id)
    yield m.Looked(content=other, answers=open_id, paths=("b.py", "a.py"))
    yield m.Looked(content=rebuilt)
    yield m.CancelAsked(run=open_run, reason=CancelReason.TIMEOUT)
    yield m.CancelAsked(run="strange", reason=CancelReason.TIMEOUT)
    yield m.Abandoned(epoch=open_id, verdict=Verdict.DIED)


def judge(m: ModuleType, seen: Seen, before: Any, fact: Any, after: Any, effects: tuple[Any, ...]) -> Seen:
    """Holds one step against the invariants and returns what is known now."""
    kinds = [type(effect) for effect in effects]
    seen = replace(seen, facts=(*seen.facts, fact))
    m.check(after)
    judge_strangers(m, before, fact, after, effects)
    judge_asking(m, before, fact, after, kinds)
    judge_looking(m, before, fact, after, effects)
    if isinstance(fact, m.RungEnded) and before.open and fact.epoch == before.open.id:
        accepted = before.open.trying is fact.result.rung
        assert accepted or (after, effects) == (before, ()), "news about another rung counted"
        if accepted and fact.result.state is PASS:
            seen = replace(seen, climbed=(*seen.climbed, fact.result.rung))
    for effect in effects:
        seen = judge_effect(m, seen, before, fact, effect)
    return seen


def judge_strangers(m: ModuleType, before: Any, fact: Any, after: Any, effects: tuple[Any, ...]) -> None:
    strange = "strange" in (getattr(fact, "epoch", ""), getattr(fact, "run", ""))
    closed = before.open is None and not isinstance(fact, (m.Asked, m.Looked))
    if strange or closed:
        assert (after, effects) == (before, ()), "news about another epoch changed something"


def judge_asking(m: ModuleType, before: Any, fact: Any, after: Any, kinds: list[type]) -> None:
    if not isinstance(fact, m.Asked):
        assert m.OpenRun not in kinds
        assert m.JoinRun not in kinds
        return
    equal = before.open is not None and (before.open.content, before.open.question) == (
        fact.content,
        fact.question,
    )
    if equal:
        assert after == before
        assert kinds == [m.JoinRun]
        return
    assert kinds[-1] is m.OpenRun
    assert (after.open.id, after.open.run, after.open.content) == (fact.epoch, fact.run, fact.content)
    if before.open is not None:
        assert m.EndRun in kinds[:-1], "two epochs open at once"


def judge_looking(m: ModuleType, before: Any, fact: Any, after: Any, effects: tuple[Any, ...]) -> None:
    if isinstance(fact, m.CancelAsked) and before.open and fact.run == before.open.run:
        assert after.open is None
        assert effects[-1].verdict is Verdict.CANCELLED
        assert effects[-1].cancelled is fact.reason
    if not isinstance(fact, m.Looked) or before.open is None:
        return
    if fact.content != before.open.content:
        assert after.open is None, "a write left the epoch open"
        ends = [effect for effect in effects if isinstance(effect, m.EndRun)]
        moved = fact.content.snapshot != before.open.content.snapshot
        reason = StaleReason.WRITE_IN_EPOCH if moved else StaleReason.ENVIRONMENT_CHANGED
        assert [(end.verdict, end.stale.reason) for end in ends] == [(Verdict.STALE, reason)]
        assert ends[0].stale.paths == (tuple(sorted(fact.paths)) if moved else ())
        busy = not before.open.confirming
        assert (m.CancelTasks in map(type, effects)) == busy, "tasks of a stale epoch go on"
    elif not (before.open.confirming and fact.answers == before.open.id):
        assert after.open == before.open, "an unasked look that found nothing new ended the epoch"
    else:
        assert after.open is None, "the last look did not bring the verdict"


def judge_effect(m: ModuleType, seen: Seen, before: Any, fact: Any, effect: Any) -> Seen:
    if isinstance(effect, m.OpenRun):
        assert effect.run not in seen.opened
        return replace(seen, opened=(*seen.opened, effect.run), climbed=(), started=None)
    if isinstance(effect, m.StartRung):
        assert list(seen.climbed) == LADDER[: LADDER.index(effect.rung)], "a rung before its turn"
        assert seen.started is not effect.rung, "a rung started twice"
        return replace(seen, started=effect.rung)
    if isinstance(effect, m.AnnounceStale):
        if effect.staleness.reason is StaleReason.SUPERSEDED:
            assert isinstance(fact, m.Asked)
            return seen
        assert effect.run not in seen.outdated, "announced stale twice"
        return replace(seen, outdated=seen.outdated | {effect.run})
    if isinstance(effect, m.AnnounceCurrent):
        assert effect.run in seen.outdated, "current again without having been stale"
        assert effect.content == fact.content
        return replace(seen, outdated=seen.outdated - {effect.run})
    if isinstance(effect, m.EndRun):
        return judge_end(m, seen, before, fact, effect)
    return seen


def judge_end(m: ModuleType, seen: Seen, before: Any, fact: Any, end: Any) -> Seen:
    assert end.run in seen.opened
    assert end.run not in seen.ended, "a run ended twice"
    if end.verdict is Verdict.GREEN:
        assert list(seen.climbed) == LADDER, "green without every rung"
        assert isinstance(fact, m.Looked), "green without a last look"
        assert (fact.answers, fact.content) == (before.open.id, before.open.content)
    states = [result.state for result in end.results]
    if end.verdict is Verdict.RED:
        assert FAIL in states
        assert DIED not in states
    if isinstance(fact, m.Looked) and end.verdict is not Verdict.STALE:
        assert (DIED in states) == (end.verdict is Verdict.DIED), "died is not failed"
    if isinstance(fact, m.Asked):
        assert (end.verdict, end.stale.reason) == (Verdict.STALE, StaleReason.SUPERSEDED)
    return replace(seen, ended=(*seen.ended, end.run))


def explore(m: ModuleType, state: Any, seen: Seen, depth: int) -> None:
    for fact in facts(m, state, len(seen.facts) + 1):
        after, effects = m.step(state, fact)
        known = judge(m, seen, state, fact, after, effects)
        for kept in after.watched:
            assert (kept.run in known.outdated) != kept.current, "a flip was not announced"
        if depth > 1:
            explore(m, after, known, depth - 1)


def check_histories(m: ModuleType) -> None:
    """All histories of three facts, and all of three after each of three common beginnings."""
    first = list(facts(m, m.ScopeState(), 0))
    asked, planned = first[0], m.Planned(epoch="e0", plan=PLAN)
    passed = [m.RungEnded(epoch="e0", result=RungResult(rung=rung, state=PASS)) for rung in LADDER]
    last_look = m.Looked(content=asked.content, answers="e0")
    for beginning in ((), (asked, planned), (asked, planned, *passed), (asked, planned, *passed, last_look)):
        state, seen = m.ScopeState(), Seen()
        for fact in beginning:
            before = state
            state, effects = m.step(before, fact)
            seen = judge(m, seen, before, fact, state, effects)
        explore(m, state, seen, 3)


def test_every_short_history_keeps_the_invariants() -> None:
    check_histories(epoch)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epoch is not None and fact.content != epoch.content", "False"),
        ("epoch.confirming and fact.answers == epoch.id", "epoch.confirming"),
        ("epoch.confirming and fact.answers == epoch.id", "fact.answers == epoch.id and epoch.plan"),
        ("epoch.trying is not None and fact.result.rung is epoch.trying", "epoch.plan is not None"),
        ("else fact.epoch == epoch.id", "else True"),
        ("fact.run == epoch.run if", "True if"),
        ("case Planned() if epoch.plan is None:", "case Planned():"),
        ("== (fact.content, fact.question):", "== (fact.content, epoch.question):"),
        ("state, superseded = _stale(state, epoch, ", "_, superseded = state, ()  # ("),
        (
            "    if epoch.confirming:\n        return closed, (ended,)\n",
            "    if True:\n        return closed, (ended,)\n",
        ),
        ("for kept in state.watched if kept.current != (kept.content == now))", "for kept in state.watched)"),
        ("tuple(replace(kept, current=kept.content == now) for kept in state.watched)", "state.watched"),
        ("Verdict.CANCELLED, cancelled=fact.reason", "Verdict.GREEN, cancelled=fact.reason"),
        ("current=stale is None", "current=True"),
        ("if was.snapshot != now.snapshot:", "if True:"),
        ("closed = replace(state, open=None, watched=", "closed = replace(state, watched="),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType], old: str, new: str
) -> None:
    with pytest.raises(AssertionError):
        check_histories(plant(epoch, old, new))
