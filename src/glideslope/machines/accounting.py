"""Where the time of a run went: sums of time slices, and what nobody measured stays unknown.

Environment time is the sum of what each task took, so tasks side by side can add up to more than
the wall time; what is counted beyond the clock is `overlapped`. Blocked time counts only while a
task was active: waiting for nothing is not waiting for the environment. Idle time of a person is
never mixed into either.

Seconds of the injected clock come in, whole milliseconds go out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from glideslope.model.timeslice import Phase, TimeReport, TimeSlice

Stretch: TypeAlias = tuple[float, float]  # start and end, seconds


def slices_of(marks: Sequence[tuple[float, Phase]], *, until_s: float) -> tuple[TimeSlice, ...]:
    """Turns marks of a changing phase into the stretches between them.

    Args:
        marks: When each phase began, oldest first; each lasts until the next mark.
        until_s: When the last one ended.

    Returns:
        One slice per mark that lasted.
    """
    ends = [*(at for at, _ in marks), until_s][1:]
    return tuple(
        TimeSlice(phase=phase, started_s=at, ended_s=end)
        for (at, phase), end in zip(marks, ends, strict=True)
        if end > at
    )


def report(
    slices: Iterable[TimeSlice],
    *,
    started_s: float,
    ended_s: float,
    measured: Collection[Phase] = (),
) -> TimeReport:
    """Splits the time of a run.

    Args:
        slices: One per task under `environment`; any number for the other phases. What lies outside
            the run (a task it shared with an earlier run) is cut off.
        started_s: Start of the run.
        ended_s: End of the run.
        measured: Phases somebody reports, even if none of their time came up.

    Returns:
        The split. `reasoning`, `blocked` and `idle_user` are None unless they were measured.
    """
    inside = [cut for piece in slices if (cut := _cut(piece, started_s, ended_s)) is not None]
    known = {piece.phase for piece in inside} | set(measured)
    tasks = _of(inside, Phase.ENVIRONMENT)
    busy = _union(tasks)
    reasoning = _union(_of(inside, Phase.REASONING))
    blocked = _both(_union(_of(inside, Phase.BLOCKED)), busy)
    idle = _union(_of(inside, Phase.IDLE_USER))
    environment_s = _length(tasks)
    overlapped_s = environment_s - _length(busy) + _length(_both(busy, reasoning))
    return TimeReport(
        wall_ms=_ms(max(0.0, ended_s - started_s)),
        environment_ms=_ms(environment_s),
        overlapped_ms=_ms(overlapped_s),
        reasoning_ms=_ms(_length(reasoning)) if Phase.REASONING in known else None,
        blocked_ms=_ms(_length(blocked)) if Phase.BLOCKED in known else None,
        idle_user_ms=_ms(_length(idle)) if Phase.IDLE_USER in known else None,
    )


def _cut(piece: TimeSlice, started_s: float, ended_s: float) -> TimeSlice | None:
    """The part of a slice that lies inside the run, None if there is none."""
    start, end = max(piece.started_s, started_s), min(piece.ended_s, ended_s)
    return replace(piece, started_s=start, ended_s=end) if start <= end else None


def _of(slices: Iterable[TimeSlice], phase: Phase) -> list[Stretch]:
    return [(piece.started_s, piece.ended_s) for piece in slices if piece.phase is phase]


def _union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time, each moment once, in order."""
    union: list[Stretch] = []
    for start, end in sorted(stretches):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _both(these: Iterable[Stretch], those: Sequence[Stretch]) -> list[Stretch]:
    """The time that lies in both of two unions."""
    shared = [(max(a, c), min(b, d)) for a, b in these for c, d in those]
    return [(start, end) for start, end in shared if start < end]


def _length(stretches: Iterable[Stretch]) -> float:
    return sum(end - start for start, end in stretches)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
