"""Coalescing: every pattern of writes and looks over a few moments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import ModuleType

import pytest

from glideslope.machines import coalesce

WINDOW_S = 2.0
MOMENTS = 7


def check_patterns(m: ModuleType) -> None:
    """At each moment: nothing, a write, a look, or a write and then a look."""
    for pattern in product(("", "w", "l", "wl"), repeat=MOMENTS):
        pending = m.Pending(window_s=WINDOW_S)
        noted: list[float] = []  # moments of writes that no batch has answered yet
        for moment, acts in enumerate(pattern):
            now = float(moment)
            for act in acts:
                if act == "w":
                    pending = m.note(pending, [f"{moment}.py", "all.py"], now)
                    noted.append(now)
                else:
                    pending, batch = m.take_due(pending, now)
                    due = bool(noted) and now >= noted[-1] + WINDOW_S
                    assert (batch is not None) == due, "not on the trailing edge"
                    if batch is not None:
                        names = {f"{int(at)}.py" for at in noted} | {"all.py"}
                        assert batch.paths == tuple(sorted(names)), "a write was lost, or answered twice"
                        assert batch.writes == len(noted)
                        noted = []
                assert m.deadline(pending) == (noted[-1] + WINDOW_S if noted else None)
        taken, batch = m.take_due(pending, MOMENTS + WINDOW_S)
        assert (batch is not None) == bool(noted), "a write was never answered"
        assert m.take_due(taken, MOMENTS + 9.0) == (taken, None)


def test_every_pattern_of_writes_gives_each_write_one_batch_after_a_quiet_window() -> None:
    check_patterns(coalesce)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("now < due_at", "now <= due_at"),
        ("now < due_at", "False"),
        ("writes=pending.writes + 1", "writes=1"),
        ("max(now, pending.last_at)", "pending.last_at"),
        ("pending.paths.union(paths)", "frozenset(paths)"),
        ("return Pending(window_s=pending.window_s), batch", "return pending, batch"),
        ("pending.last_at + pending.window_s", "pending.last_at"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType], old: str, new: str
) -> None:
    with pytest.raises(AssertionError):
        check_patterns(plant(coalesce, old, new))
