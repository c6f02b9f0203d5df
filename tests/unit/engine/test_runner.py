"""The runner gives every task exactly one ending, whatever its job does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from glideslope.engine.runner import JobEnd, Runner, Tell
from glideslope.errors import HostUnavailable
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    Event,
)
from glideslope.model.ids import RunId, SnapshotId, TaskId
from glideslope.model.result import CancelReason
from glideslope.model.task import Lane, TaskKey, TaskResult, TaskSpec, TaskState
from glideslope.testing.clock import FakeClock


def spec(name: str, *, target: str | None = None, lane: Lane = Lane.FOREGROUND, run: str = "r1") -> TaskSpec:
    key = TaskKey(kind="k", target=target or name, sandbox_id="s", snapshot=SnapshotId("s1"))
    return TaskSpec(id=TaskId(name), key=key, lane=lane, run=RunId(run), rung=None)


def runner(events: list[Event], *, cap: int = 2) -> Runner:
    return Runner(clock=FakeClock(), emit=events.append, cap=cap)


def endings(events: list[Event]) -> list[tuple[str, str]]:
    found = []
    for event in events:
        if isinstance(event, AgentEnvironmentTaskCompleted):
            found.append((event.task_id, str(event.state)))
        if isinstance(event, AgentEnvironmentTaskDied):
            found.append((event.task_id, "died"))
    return found


async def done(_: Tell) -> JobEnd:
    return JobEnd(result=TaskResult(state=TaskState.COMPLETED, summary="ok"))


def held_by(gate: asyncio.Event) -> Callable[[Tell], Awaitable[JobEnd]]:
    async def job(_: Tell) -> JobEnd:
        await gate.wait()
        return JobEnd(result=TaskResult(state=TaskState.COMPLETED))

    return job


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def test_a_task_is_queued_started_and_ended_once() -> None:
    events: list[Event] = []
    end = await runner(events).submit(spec("a"), done)
    assert end.result.state is TaskState.COMPLETED
    states = [event.state for event in events if isinstance(event, AgentEnvironmentTaskChanged)]
    assert states == [TaskState.QUEUED, TaskState.RUNNING]
    assert endings(events) == [("a", "completed")]


@pytest.mark.parametrize(
    ("error", "cause"), [(HostUnavailable("gone"), "host_unavailable"), (ZeroDivisionError(), "internal")]
)
async def test_whatever_a_job_raises_is_a_death_and_the_next_task_runs(error: Exception, cause: str) -> None:
    events: list[Event] = []

    async def broken(_: Tell) -> JobEnd:
        raise error

    running = runner(events)
    end = await running.submit(spec("a"), broken)
    assert (end.result.state, end.result.reason) == (TaskState.DIED, cause)
    assert (await running.submit(spec("b"), done)).result.state is TaskState.COMPLETED
    assert endings(events) == [("a", "died"), ("b", "completed")]


async def test_equal_work_runs_once_and_both_get_its_ending() -> None:
    events: list[Event] = []
    gate = asyncio.Event()
    running = runner(events)
    first = asyncio.create_task(running.submit(spec("a", target="t"), held_by(gate)))
    second = asyncio.create_task(running.submit(spec("b", target="t", run="r2"), held_by(gate)))
    await until(lambda: bool(running.queue.running) and len(running.queue.running[0].holders) == 2)
    gate.set()
    assert (await first).result == (await second).result
    assert endings(events) == [("a", "completed")]


async def test_a_shared_task_ends_only_when_its_last_run_lets_go() -> None:
    events: list[Event] = []
    gate = asyncio.Event()
    running = runner(events)
    first = asyncio.create_task(running.submit(spec("a", target="t"), held_by(gate)))
    second = asyncio.create_task(running.submit(spec("b", target="t", run="r2"), held_by(gate)))
    await until(lambda: bool(running.queue.running) and len(running.queue.running[0].holders) == 2)
    running.cancel_run(RunId("r1"), CancelReason.SUPERSEDED)
    await asyncio.sleep(0)
    assert endings(events) == []
    running.cancel_run(RunId("r2"), CancelReason.REQUESTED)
    results = [(await first).result, (await second).result]
    assert [(one.state, one.reason) for one in results] == [(TaskState.CANCELLED, "requested")] * 2


async def test_a_cancel_is_over_only_when_the_job_has_let_go() -> None:
    events: list[Event] = []
    killed = asyncio.Event()

    async def stubborn(_: Tell) -> JobEnd:
        try:
            await asyncio.Event().wait()
        finally:
            await killed.wait()
        raise AssertionError("unreachable")

    running = runner(events)
    submitted = asyncio.create_task(running.submit(spec("a"), stubborn))
    await until(lambda: bool(running.queue.running))
    await asyncio.sleep(0)
    running.cancel_run(RunId("r1"), CancelReason.REQUESTED)
    gone = asyncio.create_task(running.wait_run_gone(RunId("r1")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not gone.done() and endings(events) == []
    killed.set()
    await gone
    assert (await submitted).result.state is TaskState.CANCELLED
    assert endings(events) == [("a", "cancelled")]


async def test_a_task_cancelled_before_its_first_step_still_ends() -> None:
    events: list[Event] = []
    running = runner(events)
    submitted = asyncio.create_task(running.submit(spec("a"), done))
    await until(lambda: bool(running.queue.running))
    running.cancel_run(RunId("r1"), CancelReason.REQUESTED)
    assert (await submitted).result.state is TaskState.CANCELLED
    assert endings(events) == [("a", "cancelled")]


async def test_the_cap_holds_and_an_interactive_task_overtakes() -> None:
    events: list[Event] = []
    gate = asyncio.Event()
    running = runner(events, cap=1)
    waiting = [asyncio.create_task(running.submit(spec("a"), held_by(gate)))]
    await until(lambda: bool(running.queue.running))
    waiting.append(asyncio.create_task(running.submit(spec("b", lane=Lane.BACKGROUND), done)))
    waiting.append(asyncio.create_task(running.submit(spec("c", lane=Lane.INTERACTIVE), done)))
    await until(lambda: len(running.queue.waiting) == 2)
    assert len(running.queue.running) == 1
    gate.set()
    await asyncio.gather(*waiting)
    assert [task for task, _ in endings(events)] == ["a", "c", "b"]


async def test_closing_ends_everything_and_takes_nothing_new() -> None:
    events: list[Event] = []
    running = runner(events, cap=1)
    waiting = [
        asyncio.create_task(running.submit(spec(name), held_by(asyncio.Event()))) for name in ("a", "b")
    ]
    await until(lambda: bool(running.queue.running) and bool(running.queue.waiting))
    await running.close()
    assert {(await one).result.state for one in waiting} == {TaskState.CANCELLED}
    late = await running.submit(spec("late"), done)
    assert late.result.state is TaskState.CANCELLED


async def test_chatter_is_thinned_and_carries_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []

    async def chatty(tell: Tell) -> JobEnd:
        for number in range(100):
            tell(f"step {number}")
        return JobEnd(result=TaskResult(state=TaskState.COMPLETED))

    await runner(events).submit(spec("a"), chatty)
    said = [
        event.message for event in events if isinstance(event, AgentEnvironmentTaskChanged) and event.message
    ]
    assert said == ["step 0"]
