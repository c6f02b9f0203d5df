"""The task runner: performs what the queue decides, and gives every task exactly one ending.

A job is a coroutine that returns how it ended. Cancelling a task cancels its job and then waits
for it: the ending is recorded when the job has let go of its processes, never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from glideslope.errors import EnvironmentBroken, GlideslopeError, InternalError
from glideslope.machines import queue as machine
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    Event,
)
from glideslope.model.ids import RunId, TaskId
from glideslope.model.result import CancelReason
from glideslope.model.task import TaskResult, TaskSpec, TaskState
from glideslope.ports.clock import Clock
from glideslope.ports.toolchain import Output

PROGRESS_AT_LEAST_S = 10.0  # silence never lasts longer while a task runs
PROGRESS_AT_MOST_S = 0.5  # and chatter is thinned to this

Tell = Callable[[str], None]
"""Takes a sentence about what the job is doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended, and what its command put out."""

    result: TaskResult
    output: Output | None = None


Job = Callable[[Tell], Awaitable[JobEnd]]
Emit = Callable[[Event], None]


@dataclass(slots=True)
class _Work:
    """What the runner keeps of an admitted task."""

    job: Job
    admitted_s: float
    done: asyncio.Future[JobEnd]
    started_s: float | None = None
    performing: asyncio.Task[JobEnd] | None = None
    stopped: CancelReason = CancelReason.REQUESTED
    end: JobEnd | None = None


class Runner:
    """Drives one queue. Not thread-safe: it lives on one event loop."""

    def __init__(self, *, clock: Clock, emit: Emit, cap: int) -> None:
        self._clock = clock
        self._emit = emit
        self._queue = machine.Queue(cap=cap)
        self._work: dict[TaskId, _Work] = {}
        self._joined: dict[TaskId, TaskId] = {}

    @property
    def queue(self) -> machine.Queue:
        """The queue as it stands, for read models."""
        return self._queue

    async def submit(self, spec: TaskSpec, job: Job) -> JobEnd:
        """Admits a task and waits for its one ending.

        Work with an equal key that is waiting or running is joined, and its ending shared.

        Returns:
            The ending; cancelled and died tasks are endings too, not exceptions.
        """
        done: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self._work[spec.id] = _Work(job=job, admitted_s=self._clock.monotonic_s(), done=done)
        self._feed(machine.Submitted(spec=spec))
        joined = self._joined.pop(spec.id, None)
        if joined is not None:
            del self._work[spec.id]
            done = self._work[joined].done
        return await asyncio.shield(done)

    def cancel_run(self, run: RunId, reason: CancelReason) -> None:
        """Makes a run let go of its tasks; those that nobody else wants are stopped."""
        self._feed(machine.RunCancelled(run=run, reason=reason))

    def hold_background(self, held: bool) -> None:
        """Keeps the background lane from starting, or lets it start again."""
        self._feed(machine.BackgroundHeld(held=held))

    async def wait_run_gone(self, run: RunId) -> None:
        """Waits until no task of a run is waiting or running."""
        while pending := [
            self._work[ticket.spec.id].done
            for ticket in (*self._queue.waiting, *self._queue.running)
            if run in ticket.holders or ticket.cancelling is not None
        ]:
            await asyncio.wait(pending)

    async def close(self) -> None:
        """Stops everything and waits until it is gone."""
        self._feed(machine.Closed())
        while pending := [work.done for work in self._work.values() if not work.done.done()]:
            await asyncio.wait(pending)

    def _feed(self, fact: machine.Fact) -> None:
        self._queue, effects = machine.step(self._queue, fact)
        for effect in effects:
            self._do(effect)

    def _do(self, effect: machine.Effect) -> None:
        match effect:
            case machine.JoinTask():
                self._joined[effect.asked] = effect.task
            case machine.AnnounceQueued():
                self._emit(_changed(effect.spec, TaskState.QUEUED))
            case machine.StartTask():
                work = self._work[effect.spec.id]
                work.started_s = self._clock.monotonic_s()
                self._emit(_changed(effect.spec, TaskState.RUNNING))
                work.performing = asyncio.create_task(self._perform(effect.spec, work.job))
                work.performing.add_done_callback(partial(self._performed, effect.spec))
            case machine.StopTask():
                work = self._work[effect.task]
                work.stopped = effect.reason
                if work.performing is not None:
                    work.performing.cancel()
            case machine.EndTask():
                self._end(effect)
            case _:
                assert_never(effect)

    def _end(self, effect: machine.EndTask) -> None:
        work = self._work.pop(effect.spec.id)
        self._emit(_ending(effect.spec, effect.result))
        work.done.set_result(JobEnd(result=effect.result, output=work.end.output if work.end else None))

    async def _perform(self, spec: TaskSpec, job: Job) -> JobEnd:
        """The task boundary: whatever a job does, it becomes one result."""
        pulse = asyncio.create_task(self._pulse(spec))
        try:
            return await job(self._teller(spec))
        except EnvironmentBroken as broken:
            return JobEnd(result=_died(broken, cause=broken.code))
        except Exception as error:  # noqa: BLE001  # the task boundary
            cause = error if isinstance(error, GlideslopeError) else InternalError(repr(error))
            return JobEnd(result=_died(cause, cause="internal"))
        finally:
            pulse.cancel()

    def _performed(self, spec: TaskSpec, performing: asyncio.Task[JobEnd]) -> None:
        """Reports the end; a job may also have been cancelled before its first step."""
        work = self._work[spec.id]
        end = _cancelled(work.stopped) if performing.cancelled() else performing.result()
        started_s = work.started_s if work.started_s is not None else work.admitted_s
        result = replace(
            end.result,
            duration_ms=round((self._clock.monotonic_s() - started_s) * 1000),
            queued_ms=round((started_s - work.admitted_s) * 1000),
        )
        work.end = replace(end, result=result)
        self._feed(machine.Ended(task=spec.id, result=result))

    def _teller(self, spec: TaskSpec) -> Tell:
        told_s = -PROGRESS_AT_MOST_S

        def tell(message: str) -> None:
            nonlocal told_s
            now_s = self._clock.monotonic_s()
            if now_s - told_s >= PROGRESS_AT_MOST_S:
                told_s = now_s
                self._emit(replace(_changed(spec, TaskState.RUNNING), message=message))

        return tell

    async def _pulse(self, spec: TaskSpec) -> None:
        while True:
            await asyncio.sleep(PROGRESS_AT_LEAST_S)
            self._emit(replace(_changed(spec, TaskState.RUNNING), message="still running"))


def _changed(spec: TaskSpec, state: TaskState) -> AgentEnvironmentTaskChanged:
    return AgentEnvironmentTaskChanged(
        task_id=spec.id, run_id=spec.run, kind=spec.key.kind, rung=spec.rung, state=state, message=spec.label
    )


def _ending(spec: TaskSpec, result: TaskResult) -> Event:
    if result.state is TaskState.DIED:
        return AgentEnvironmentTaskDied(
            task_id=spec.id,
            run_id=spec.run,
            kind=spec.key.kind,
            rung=spec.rung,
            host_kind=result.host_kind,
            exit_code=result.exit_code,
            stderr_tail=result.stderr_tail or None,
            cause=result.reason,
        )
    return AgentEnvironmentTaskCompleted(
        task_id=spec.id,
        run_id=spec.run,
        kind=spec.key.kind,
        rung=spec.rung,
        state=result.state,
        result_summary=result.summary,
        duration_ms=result.duration_ms,
        queued_ms=result.queued_ms,
        exit_code=result.exit_code,
    )


def _cancelled(reason: CancelReason) -> JobEnd:
    return JobEnd(result=TaskResult(state=TaskState.CANCELLED, reason=reason, summary=f"cancelled: {reason}"))


def _died(error: GlideslopeError, *, cause: str) -> TaskResult:
    return TaskResult(
        state=TaskState.DIED,
        reason=cause,
        summary=error.message,
        stderr_tail=error.message,
        host_kind="runner",
    )
