"""The queue: every short history of a small alphabet, and long random ones of a wide one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glideslope.machines import queue
from glideslope.model.ids import RunId, SnapshotId, TaskId
from glideslope.model.result import CancelReason
from glideslope.model.task import Lane, TaskKey, TaskResult, TaskSpec, TaskState

DONE = TaskResult(state=TaskState.COMPLETED)


def spec(number: int, target: str, lane: Lane, run: str | None) -> TaskSpec:
    key = TaskKey(kind="pytest.run", target=target, sandbox_id="x", snapshot=SnapshotId("s1-a"))
    return TaskSpec(id=TaskId(f"t{number}"), key=key, lane=lane, run=RunId(run) if run else None, rung=None)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an observer of facts and effects knows about a history."""

    admitted: tuple[TaskId, ...] = ()
    started: tuple[TaskId, ...] = ()
    ended: tuple[TaskId, ...] = ()
    wanted: tuple[tuple[TaskId, RunId | None], ...] = ()  # who still wants which task
    dropped: frozenset[TaskId] = frozenset()  # cancelled by name, or by closing
    steps: int = 0

    def live(self) -> set[TaskId]:
        return set(self.started) - set(self.ended)

    def wanters(self, task: TaskId) -> set[RunId | None]:
        return {run for wanted, run in self.wanted if wanted == task}


def judge(m: ModuleType, seen: Seen, before: Any, fact: Any, after: Any, effects: tuple[Any, ...]) -> Seen:
    """Holds one step against the invariants and returns what is known now."""
    m.check(after)
    seen = replace(expected(m, seen, before, fact), steps=seen.steps + 1)
    for effect in effects:
        seen = judge_effect(m, seen, before, fact, after, effect)
    assert len(seen.live()) <= after.cap
    assert {held.spec.id for held in after.running} == seen.live(), "a task runs unseen, or was lost"
    waiting = set(seen.admitted) - set(seen.started) - set(seen.ended)
    assert {held.spec.id for held in after.waiting} == waiting, "a task waits unseen, or was lost"
    for held in (*after.waiting, *after.running):
        left = seen.wanters(held.spec.id)
        assert not left or set(held.holders) == left, "the wrong runs wait for a task"
        ends = not left or held.spec.id in seen.dropped
        assert ends == (held.cancelling is not None), "a task outlives its runs, or its runs outlive it"
    return seen


def expected(m: ModuleType, seen: Seen, before: Any, fact: Any) -> Seen:
    """Who wants what, after a fact that makes runs or tasks go away."""
    if isinstance(fact, m.RunCancelled):
        return replace(seen, wanted=tuple(want for want in seen.wanted if want[1] != fact.run))
    if isinstance(fact, m.TaskCancelled) and fact.task in seen.admitted:
        return replace(seen, dropped=seen.dropped | {fact.task})
    if isinstance(fact, m.Closed):
        return replace(seen, dropped=seen.dropped | set(seen.admitted))
    return seen


def judge_effect(m: ModuleType, seen: Seen, before: Any, fact: Any, after: Any, effect: Any) -> Seen:
    if isinstance(effect, m.AnnounceQueued):
        open_keys = [held.spec.key for held in (*before.waiting, *before.running) if not held.cancelling]
        assert fact.spec.key not in open_keys, "equal work was queued twice"
        assert effect.spec == fact.spec
        seen = replace(seen, wanted=(*seen.wanted, (effect.spec.id, effect.spec.run)))
        if before.closed:
            seen = replace(seen, dropped=seen.dropped | {effect.spec.id})
        return replace(seen, admitted=(*seen.admitted, effect.spec.id))
    if isinstance(effect, m.JoinTask):
        assert (effect.asked, effect.run) == (fact.spec.id, fact.spec.run)
        joined = next(held for held in (*before.waiting, *before.running) if held.spec.id == effect.task)
        assert joined.spec.key == fact.spec.key
        assert joined.cancelling is None, "joined a task on its way out"
        now = next((held for held in after.waiting if held.spec.id == effect.task), None)
        assert now is None or now.spec.lane <= fact.spec.lane, "an urgent asker waits in a slow lane"
        return replace(seen, wanted=(*seen.wanted, (effect.task, effect.run)))
    if isinstance(effect, m.StartTask):
        return judge_start(m, seen, after, effect)
    if isinstance(effect, m.StopTask):
        assert effect.task in seen.live()
        assert not seen.wanters(effect.task) or effect.task in seen.dropped, "a wanted task was stopped"
        held = next(held for held in before.running if held.spec.id == effect.task)
        assert held.cancelling is None, "stopped twice"
        assert effect.reason is (CancelReason.SHUTDOWN if isinstance(fact, m.Closed) else fact.reason)
        return seen
    return judge_end(m, seen, fact, effect)


def judge_start(m: ModuleType, seen: Seen, after: Any, effect: Any) -> Seen:
    task = effect.spec.id
    assert task in seen.admitted
    assert task not in (*seen.started, *seen.ended), "started twice"
    assert not (after.background_held and effect.spec.lane is Lane.BACKGROUND), "held work started"
    place = (effect.spec.lane, seen.admitted.index(task))
    for held in after.waiting:
        free = not (after.background_held and held.spec.lane is Lane.BACKGROUND)
        overtaken = (held.spec.lane, seen.admitted.index(held.spec.id)) < place
        assert not (free and overtaken), "a more urgent or older task was left behind"
    return replace(seen, started=(*seen.started, task))


def judge_end(m: ModuleType, seen: Seen, fact: Any, effect: Any) -> Seen:
    task = effect.spec.id
    assert isinstance(effect, m.EndTask)
    assert task in seen.admitted
    assert task not in seen.ended, "two endings"
    assert effect.result.state.ended
    if isinstance(fact, m.Ended):
        assert (fact.task, fact.result) == (task, effect.result)
    else:
        assert effect.result.state is TaskState.CANCELLED
        assert task not in seen.started, "ended before its processes were gone"
        assert not seen.wanters(task) or task in seen.dropped, "a wanted task was cancelled"
    return replace(seen, ended=(*seen.ended, task))


def facts(m: ModuleType, state: Any, number: int) -> Iterator[Any]:
    yield m.Submitted(spec=spec(number, "a", Lane.FOREGROUND, "r1"))
    yield m.Submitted(spec=spec(number, "a", Lane.INTERACTIVE, "r2"))
    yield m.Submitted(spec=spec(number, "b", Lane.BACKGROUND, None))
    yield m.Submitted(spec=spec(number, "c", Lane.FOREGROUND, "r2"))
    yield m.RunCancelled(run=RunId("r1"), reason=CancelReason.REQUESTED)
    yield m.RunCancelled(run=RunId("r2"), reason=CancelReason.TIMEOUT)
    yield m.Ended(task=TaskId("strange"), result=DONE)
    for held in (*state.running[:1], *state.waiting[:1]):
        yield m.Ended(task=held.spec.id, result=DONE)
        yield m.TaskCancelled(task=held.spec.id, reason=CancelReason.REQUESTED)
    yield m.BackgroundHeld(held=not state.background_held)
    yield m.Closed()


def drain(m: ModuleType, state: Any, seen: Seen) -> None:
    """Whatever happened, letting everything end leaves one ending per admitted task."""
    freed = m.BackgroundHeld(held=False)
    after, effects = m.step(state, freed)
    seen = judge(m, seen, state, freed, after, effects)
    for _ in range(20):
        if not after.running:
            break
        before, fact = after, m.Ended(task=after.running[0].spec.id, result=DONE)
        after, effects = m.step(before, fact)
        seen = judge(m, seen, before, fact, after, effects)
    assert not after.running
    assert not after.waiting
    assert sorted(seen.ended) == sorted(seen.admitted)


def explore(m: ModuleType, state: Any, seen: Seen, depth: int) -> None:
    for fact in facts(m, state, seen.steps + 1):
        after, effects = m.step(state, fact)
        known = judge(m, seen, state, fact, after, effects)
        if depth > 1:
            explore(m, after, known, depth - 1)
        else:
            drain(m, after, known)


def check_histories(m: ModuleType) -> None:
    """All histories of three facts: from nothing, with everything waiting, and with work on its way out."""
    submits = [fact for fact in facts(m, m.Queue(), 0) if isinstance(fact, m.Submitted)]
    crowd = [m.Submitted(spec=replace(fact.spec, id=f"p{n}")) for n, fact in enumerate(submits)]
    leaving = [*crowd[:1], m.RunCancelled(run=RunId("r1"), reason=CancelReason.REQUESTED), *crowd[1:]]
    for beginning in ([], [m.BackgroundHeld(held=True), *reversed(crowd)], leaving):
        state, seen = m.Queue(cap=1), Seen()
        for fact in beginning:
            before = state
            state, effects = m.step(before, fact)
            seen = judge(m, seen, before, fact, state, effects)
        explore(m, state, seen, 3)


def test_every_short_history_keeps_the_invariants() -> None:
    check_histories(queue)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("held.spec.key == spec.key and held.cancelling is None", "held.spec.key == spec.key"),
        ("    if known is not None:\n        return _join", "    if False:\n        return _join"),
        ("lane=min(known.spec.lane, spec.lane)", "lane=known.spec.lane"),
        ("return self.spec.lane, self.number", "return self.spec.lane, -self.number"),
        ("return self.spec.lane, self.number", "return Lane.FOREGROUND, self.number"),
        ("queue.cap - len(queue.running))", "queue.cap - len(queue.running) + 1)"),
        ("held.holders == (fact.run,)", "fact.run in held.holders"),
        ("tuple(_without(held, fact.run) for held in tickets)", "tickets"),
        ("if held.spec.id in tasks and held.cancelling is None", "if held.spec.id in tasks"),
        ("_replaced(queue, held, replace(held, cancelling=reason))", "queue"),
        ("held for held in queue.running if held is not over)", "held for held in queue.running)"),
        ("return queue.background_held and ", "return "),
        (
            "    if over is None:\n        return queue, ()\n",
            "    if over is None:\n        over = queue.running[0] if queue.running else None\n    if over is None:\n        return queue, ()\n",
        ),
        (
            "    if queue.closed:\n        return queue, (AnnounceQueued",
            "    if False:\n        return queue, (AnnounceQueued",
        ),
        (
            "    queue, started = _start(queue)\n",
            "    queue, started = _start(queue) if effects else (queue, ())\n",
        ),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType], old: str, new: str
) -> None:
    with pytest.raises(AssertionError):
        check_histories(plant(queue, old, new))


class LongHistories(RuleBasedStateMachine):
    """Many runs, many kinds of work, any cap."""

    def __init__(self) -> None:
        super().__init__()
        self.state = queue.Queue()
        self.seen = Seen()

    def tell(self, fact: queue.Fact) -> None:
        before = self.state
        self.state, effects = queue.step(before, fact)
        self.seen = judge(queue, self.seen, before, fact, self.state, effects)

    @initialize(cap=st.integers(1, 4))
    def begin(self, cap: int) -> None:
        self.state = queue.Queue(cap=cap)

    @rule(
        work=st.sampled_from("abcdef"),
        lane=st.sampled_from(Lane),
        run=st.sampled_from(["r1", "r2", "r3", None]),
    )
    def submit(self, work: str, lane: Lane, run: str | None) -> None:
        self.tell(queue.Submitted(spec=spec(self.seen.steps + 1, work, lane, run)))

    @rule(index=st.integers(0, 3))
    def end(self, index: int) -> None:
        if index < len(self.state.running):
            self.tell(queue.Ended(task=self.state.running[index].spec.id, result=DONE))

    @rule(run=st.sampled_from(["r1", "r2", "r3"]), reason=st.sampled_from(CancelReason))
    def cancel_run(self, run: str, reason: CancelReason) -> None:
        self.tell(queue.RunCancelled(run=RunId(run), reason=reason))

    @rule(number=st.integers(1, 30))
    def cancel_task(self, number: int) -> None:
        self.tell(queue.TaskCancelled(task=TaskId(f"t{number}"), reason=CancelReason.REQUESTED))

    @rule(held=st.booleans())
    def hold(self, held: bool) -> None:
        self.tell(queue.BackgroundHeld(held=held))

    @rule(sure=st.sampled_from([False] * 9 + [True]))
    def close(self, sure: bool) -> None:
        if sure:
            self.tell(queue.Closed())

    @invariant()
    def stays_sound(self) -> None:
        queue.check(self.state)

    def teardown(self) -> None:
        drain(queue, self.state, self.seen)


LongHistories.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_long_random_histories_keep_the_invariants = LongHistories.TestCase
