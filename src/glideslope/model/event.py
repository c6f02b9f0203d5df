"""Every event, in the past tense, and its envelope."""

from __future__ import annotations

from dataclasses import dataclass

from glideslope.model.ids import RunId, Scope, SnapshotId, TaskId
from glideslope.model.result import RungResult, StaleReason, Verdict
from glideslope.model.run import Run
from glideslope.model.rung import Rung
from glideslope.model.task import TaskState
from glideslope.model.timeslice import Phase

NAMESPACE = "glideslope.agent.environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunStarted:
    """A run was opened."""

    run_id: RunId
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunPhaseChanged:
    """The run moved to another phase."""

    run_id: RunId
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVerifyRungChanged:
    """A rung of a run started or ended."""

    run_id: RunId
    result: RungResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironmentTaskChanged:
    """A task was queued, started, or made progress; never its ending."""

    task_id: TaskId
    run_id: RunId | None
    kind: str
    rung: Rung | None
    state: TaskState
    progress: float | None = None  # 0 to 1
    message: str = ""
    queued_by: tuple[RunId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironmentTaskCompleted:
    """A task ended in any way but by dying; exactly one ending per task."""

    task_id: TaskId
    run_id: RunId | None
    kind: str
    rung: Rung | None
    state: TaskState  # completed, failed, cancelled or timed_out
    result_summary: str
    duration_ms: int
    queued_ms: int = 0
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironmentTaskDied:
    """A task was lost to its infrastructure, which user code may have broken."""

    task_id: TaskId
    run_id: RunId | None
    kind: str
    rung: Rung | None
    host_kind: str
    exit_code: int | None = None
    stderr_tail: str | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVerifyEpochStale:
    """A run's snapshot is no longer what the workspace holds."""

    run_id: RunId
    verify_snapshot_id: SnapshotId
    reason: StaleReason
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVerifyEpochCurrent:
    """The workspace holds a run's snapshot again."""

    run_id: RunId
    verify_snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDied:
    """A helper process died."""

    host_kind: str
    pid: int
    signal: int | None = None
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunCompleted:
    """A run ended; always the last word about it."""

    run_id: RunId
    verdict: Verdict
    max_rung_reached: Rung | None
    run: Run


Event = (
    AgentRunStarted
    | AgentRunPhaseChanged
    | AgentVerifyRungChanged
    | AgentEnvironmentTaskChanged
    | AgentEnvironmentTaskCompleted
    | AgentEnvironmentTaskDied
    | AgentVerifyEpochStale
    | AgentVerifyEpochCurrent
    | HostDied
    | AgentRunCompleted
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event as the journal keeps it."""

    seq: int  # from 1, no gaps
    at: str  # RFC 3339, UTC
    event: Event
    scope: Scope | None = None
