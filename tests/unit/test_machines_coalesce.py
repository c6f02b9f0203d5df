"""Coalescing: odd windows and odd clocks; the patterns are enumerated elsewhere."""

from __future__ import annotations

import pytest

from glideslope.errors import InvalidInput
from glideslope.machines.coalesce import Batch, Pending, deadline, note, take_due


@pytest.mark.parametrize("window_s", [-0.1, float("inf"), float("nan")])
def test_a_window_nobody_can_wait_for_is_refused(window_s: float) -> None:
    with pytest.raises(InvalidInput):
        Pending(window_s=window_s)


def test_twenty_writes_in_a_second_are_one_batch_after_the_last() -> None:
    pending = Pending(window_s=1.5)
    for number in range(20):
        pending = note(pending, [f"{number % 3}.py"], number * 0.05)
    assert deadline(pending) == pytest.approx(0.95 + 1.5)
    assert take_due(pending, 2.4)[1] is None
    _, batch = take_due(pending, 2.5)
    assert batch == Batch(paths=("0.py", "1.py", "2.py"), writes=20)


def test_without_a_window_a_write_is_due_at_once() -> None:
    _, batch = take_due(note(Pending(window_s=0), [], 3.0), 3.0)
    assert batch == Batch(paths=(), writes=1)


def test_a_hint_that_comes_late_does_not_shorten_the_wait() -> None:
    pending = note(note(Pending(window_s=1.0), [], 5.0), [], 4.0)
    assert deadline(pending) == 6.0
