"""Time accounting: phases from marks; the sums are counted tick by tick elsewhere."""

from __future__ import annotations

from glideslope.machines.accounting import report, slices_of
from glideslope.model.timeslice import Phase, TimeReport, TimeSlice


def test_a_phase_lasts_until_the_next_mark() -> None:
    marks = [(0.0, Phase.REASONING), (2.0, Phase.ENVIRONMENT), (2.0, Phase.BLOCKED), (5.0, Phase.REASONING)]
    assert slices_of(marks, until_s=6.0) == (
        TimeSlice(phase=Phase.REASONING, started_s=0.0, ended_s=2.0),
        TimeSlice(phase=Phase.BLOCKED, started_s=2.0, ended_s=5.0),
        TimeSlice(phase=Phase.REASONING, started_s=5.0, ended_s=6.0),
    )


def test_no_marks_are_no_slices() -> None:
    assert slices_of([], until_s=6.0) == ()


def test_a_run_in_which_nothing_happened_has_only_its_wall_time() -> None:
    assert report([], started_s=1.0, ended_s=1.0306) == TimeReport(
        wall_ms=31, environment_ms=0, overlapped_ms=0
    )


def test_a_clock_that_does_not_move_gives_no_negative_time() -> None:
    assert report([], started_s=2.0, ended_s=1.0).wall_ms == 0
