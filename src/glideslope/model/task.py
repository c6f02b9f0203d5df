"""Units of environment work, as the queue sees them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from glideslope.model.ids import LogRef, RunId, SnapshotId, TaskId
from glideslope.model.rung import Rung


class Lane(IntEnum):
    """Priority; a lower number overtakes a higher one."""

    INTERACTIVE = 0
    FOREGROUND = 1
    BACKGROUND = 2


class TaskState(StrEnum):
    """Where a task stands; the last five are endings."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIED = "died"
    TIMED_OUT = "timed_out"

    @property
    def ended(self) -> bool:
        """Whether nothing more will be heard of the task."""
        return self not in (TaskState.QUEUED, TaskState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """Equal pending keys are one execution."""

    kind: str  # e.g. python.diagnose, pytest.run
    target: str  # digest of what exactly is to be run
    sandbox_id: str
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task as admitted to the queue."""

    id: TaskId
    key: TaskKey
    lane: Lane
    run: RunId | None
    rung: Rung | None
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The one ending of a task."""

    state: TaskState
    summary: str = ""
    reason: str = ""
    exit_code: int | None = None
    duration_ms: int = 0
    queued_ms: int = 0
    log_ref: LogRef | None = None
    host_kind: str = ""
    stderr_tail: str = ""
