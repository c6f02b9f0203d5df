"""Where the time of a run went."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Four phases; only those that somebody reports are measured."""

    REASONING = "reasoning"
    ENVIRONMENT = "environment"
    BLOCKED = "blocked"
    IDLE_USER = "idle_user"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """One stretch of one phase. Seconds of the injected clock."""

    phase: Phase
    started_s: float
    ended_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReport:
    """The split of a run, whole milliseconds; None: not measured."""

    wall_ms: int
    environment_ms: int
    overlapped_ms: int
    reasoning_ms: int | None = None
    blocked_ms: int | None = None
    idle_user_ms: int | None = None
