"""Events as lines: one flat JSON object each."""

from __future__ import annotations

from glideslope.engine.actions import RunView
from glideslope.model.event import (
    NAMESPACE,
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    AgentRunPhaseChanged,
    AgentRunStarted,
    AgentVerifyEpochCurrent,
    AgentVerifyEpochStale,
    AgentVerifyRungChanged,
    Event,
    HostDied,
    Recorded,
)
from glideslope.model.result import Verdict
from glideslope.model.timeslice import TimeReport
from glideslope.surfaces.wire.run import wire_run, wire_rung, wire_time
from glideslope.surfaces.wire.text import path_text, plain_or_none, plain_text

EVENT_VERSION = 1


def wire_event(recorded: Recorded) -> dict[str, object]:
    """An event as clients see it: `v`, `seq`, `at`, `ns`, `type`, then its own fields."""
    return {
        "v": EVENT_VERSION,
        "seq": recorded.seq,
        "at": recorded.at,
        "ns": NAMESPACE,
        "type": type(recorded.event).__name__,
        "scope": None if recorded.scope is None else path_text(recorded.scope),
        **_fields(recorded.event),
    }


def _fields(event: Event) -> dict[str, object]:
    match event:
        case AgentRunStarted():
            return {
                "run_id": event.run_id,
                "action": event.run.action,
                "verify_policy": event.run.policy,
                "sandbox_profile": event.run.sandbox_profile,
                "verify_snapshot_id": event.run.snapshot,
            }
        case AgentRunPhaseChanged():
            return {"run_id": event.run_id, "phase": event.phase}
        case AgentVerifyRungChanged():
            return {"run_id": event.run_id, "rung": event.result.rung, "result": wire_rung(event.result)}
        case AgentEnvironmentTaskChanged() | AgentEnvironmentTaskCompleted() | AgentEnvironmentTaskDied():
            return {
                "run_id": event.run_id,
                "task_id": event.task_id,
                "kind": event.kind,
                "rung": event.rung,
                **_task(event),
            }
        case AgentVerifyEpochStale():
            return {
                "run_id": event.run_id,
                "verify_snapshot_id": event.verify_snapshot_id,
                "reason": event.reason,
                "paths": sorted(path_text(path) for path in event.paths),
            }
        case AgentVerifyEpochCurrent():
            return {"run_id": event.run_id, "verify_snapshot_id": event.verify_snapshot_id}
        case HostDied():
            return {
                "run_id": None,
                "host_kind": event.host_kind,
                "pid": event.pid,
                "signal": event.signal,
                "stderr_tail": plain_or_none(event.stderr_tail or None),
            }
        case AgentRunCompleted():
            return _completed(event)


def _task(
    event: AgentEnvironmentTaskChanged | AgentEnvironmentTaskCompleted | AgentEnvironmentTaskDied,
) -> dict[str, object]:
    match event:
        case AgentEnvironmentTaskChanged():
            return {
                "state": event.state,
                "progress": event.progress,
                "message": plain_text(event.message) or None,
                "queued_by": list(event.queued_by),
            }
        case AgentEnvironmentTaskCompleted():
            return {
                "state": event.state,
                "result_summary": plain_text(event.result_summary),
                "duration_ms": event.duration_ms,
                "queued_ms": event.queued_ms,
                "exit_code": event.exit_code,
            }
        case AgentEnvironmentTaskDied():
            return {
                "state": "died",
                "host_kind": event.host_kind,
                "exit_code": event.exit_code,
                "stderr_tail": plain_or_none(event.stderr_tail),
                "cause": plain_text(event.cause),
            }


def _completed(event: AgentRunCompleted) -> dict[str, object]:
    return {
        "run_id": event.run_id,
        "verdict": event.verdict,
        "outcome": event.verdict,
        "green": event.verdict is Verdict.GREEN,
        "max_rung_reached": event.max_rung_reached,
        "time_ms": wire_time(event.run.time),
        "time_slices": _slices(event.run.time),
        "run": wire_run(RunView(run=event.run, current=event.run.stale is None), diagnostics=False),
    }


def _slices(time: TimeReport | None) -> list[dict[str, object]]:
    """The phases that were measured, and how long each took in all."""
    if time is None:
        return []
    phases = {
        "reasoning": time.reasoning_ms,
        "environment": time.environment_ms,
        "blocked": time.blocked_ms,
        "idle_user": time.idle_user_ms,
    }
    return [{"phase": name, "duration_ms": took} for name, took in phases.items() if took is not None]
