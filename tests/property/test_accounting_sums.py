"""Time accounting, compared with counting tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from types import ModuleType

import pytest

from glideslope.machines import accounting
from glideslope.model.timeslice import Phase, TimeReport, TimeSlice

TICKS = 4  # of a second each; the run lasts from the second to the last but one
STARTED, ENDED = 1, TICKS

STRETCHES = ((0, 2), (1, 2), (1, 4), (2, 3), (3, 5))
SLICES = tuple(
    TimeSlice(phase=phase, started_s=float(start), ended_s=float(end))
    for phase in Phase
    for start, end in STRETCHES
)


def mixtures() -> Iterator[tuple[TimeSlice, ...]]:
    for number in range(4):
        yield from combinations_with_replacement(SLICES, number)


def running(slices: tuple[TimeSlice, ...], phase: Phase, tick: int) -> int:
    return sum(1 for piece in slices if piece.phase is phase and piece.started_s <= tick < piece.ended_s)


def count(slices: tuple[TimeSlice, ...], measured: frozenset[Phase]) -> TimeReport:
    """The split, one tick after the other."""
    environment = overlapped = reasoning = blocked = idle = 0
    for tick in range(STARTED, ENDED):
        tasks = running(slices, Phase.ENVIRONMENT, tick)
        thinks = bool(running(slices, Phase.REASONING, tick))
        environment += tasks
        overlapped += max(0, tasks - 1) + (1 if tasks and thinks else 0)
        reasoning += thinks
        blocked += 1 if tasks and running(slices, Phase.BLOCKED, tick) else 0
        idle += bool(running(slices, Phase.IDLE_USER, tick))
    return TimeReport(
        wall_ms=(ENDED - STARTED) * 1000,
        environment_ms=environment * 1000,
        overlapped_ms=overlapped * 1000,
        reasoning_ms=reasoning * 1000 if Phase.REASONING in measured else None,
        blocked_ms=blocked * 1000 if Phase.BLOCKED in measured else None,
        idle_user_ms=idle * 1000 if Phase.IDLE_USER in measured else None,
    )


def check_sums(m: ModuleType) -> None:
    for slices in mixtures():
        inside = {p.phase for p in slices if p.ended_s >= STARTED and p.started_s <= ENDED}
        for measured in (frozenset[Phase](), frozenset(Phase)):
            found = m.report(slices, started_s=STARTED, ended_s=ENDED, measured=measured)
            assert found == count(slices, frozenset(inside | measured)), slices


def test_every_small_mixture_of_slices_adds_up() -> None:
    check_sums(accounting)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_both(_union(_of(inside, Phase.BLOCKED)), busy)", "_union(_of(inside, Phase.BLOCKED))"),
        ("- _length(busy) +", "+"),
        (" + _length(_both(busy, reasoning))", ""),
        ("environment_s = _length(tasks)", "environment_s = _length(busy)"),
        ("if Phase.BLOCKED in known", "if True"),
        ("if Phase.IDLE_USER in known", "if idle"),
        ("max(end, union[-1][1])", "end"),
        ("max(piece.started_s, started_s)", "piece.started_s"),
        ("| set(measured)", ""),
        ("idle = _union(_of(inside, Phase.IDLE_USER))", "idle = _of(inside, Phase.IDLE_USER)"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType], old: str, new: str
) -> None:
    with pytest.raises(AssertionError):
        check_sums(plant(accounting, old, new))
