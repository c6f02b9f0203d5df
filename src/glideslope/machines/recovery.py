"""What becomes of runs and tasks that an engine left open when it was killed: they died with it."""

from __future__ import annotations

from dataclasses import replace

from glideslope.machines.ladder import max_rung_reached
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    Event,
)
from glideslope.model.result import RungResult, RungState, Verdict
from glideslope.model.run import Run

HOST = "daemon"
CAUSE = "engine_died"
ADVICE = "glideslope verify"


def end_of_task(last: Event) -> AgentEnvironmentTaskDied | None:
    """The missing ending of a task, made of the last that was heard of it."""
    if not isinstance(last, AgentEnvironmentTaskChanged):
        return None
    return AgentEnvironmentTaskDied(
        task_id=last.task_id, run_id=last.run_id, kind=last.kind, rung=last.rung, host_kind=HOST, cause=CAUSE
    )


def end_of_run(run: Run, *, ended_at: str) -> AgentRunCompleted:
    """The missing verdict of a run.

    Args:
        run: As last recorded.
        ended_at: Now; when it really died nobody knows.

    Returns:
        A death; what was running died, what had ended keeps its result.
    """
    rungs = tuple(_ended(result) for result in run.rungs)
    reached = max_rung_reached(rungs)
    died = replace(
        run,
        verdict=Verdict.DIED,
        rungs=rungs,
        max_rung_reached=reached,
        ended_at=ended_at,
        note="the engine was killed while this ran",
        next=ADVICE,
    )
    return AgentRunCompleted(run_id=run.id, verdict=Verdict.DIED, max_rung_reached=reached, run=died)


def _ended(result: RungResult) -> RungResult:
    if result.state is RungState.RUNNING:
        return replace(result, state=RungState.DIED, reason=CAUSE)
    return result
