"""What may be spent, and whether it was kept."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a figure may be. `unit` is empty for a ratio."""

    name: str
    limit: float
    unit: str = ""


LEAF_EDIT = Budget(name="verify after a leaf edit / plain tools", limit=0.7)
HUB_EDIT = Budget(name="verify after a hub edit / plain tools", limit=1.1)
FIRST = Budget(name="first verify / plain tools", limit=1.2)
STATUS_CPU = Budget(name="`status --json`, daemon up, CPU", limit=80, unit="ms")
SNAPSHOT = Budget(name="snapshot of 5,000 files, warm", limit=30, unit="ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The median of some measurements against its budget."""

    budget: Budget
    where: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def kept(self) -> bool:
        return self.median <= self.budget.limit

    def line(self) -> str:
        unit = f" {self.budget.unit}" if self.budget.unit else ""
        each = " ".join(f"{value:.2f}" if not unit else f"{value:.0f}" for value in self.values)
        shown = f"{self.median:.2f}" if not unit else f"{self.median:.0f}"
        mark = "ok  " if self.kept else "OVER"
        return (
            f"{mark} {self.budget.name:<42} {self.where:<10} {shown}{unit}"
            f" (limit {self.budget.limit:g}{unit}; {each})"
        )


def over(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Those that are over their budget."""
    return tuple(figure for figure in figures if not figure.kept)
