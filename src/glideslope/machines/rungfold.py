"""From the projects of a rung to the rung: the worst state counts, everything else adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glideslope.model.ids import RunId
from glideslope.model.result import ProjectResult, ProjectRung, RungResult, RungState, TestCounts
from glideslope.model.rung import Rung

WORST_FIRST = (
    RungState.DIED,
    RungState.CANCELLED,
    RungState.NOT_PERMITTED,
    RungState.FAIL,
    RungState.INCONCLUSIVE,
    RungState.PASS,
    RungState.SKIPPED,
)
NOTHING_TOUCHED = "nothing changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectEnd:
    """How a rung ended for one project."""

    project: str
    end: ProjectRung
    duration_ms: int
    cached_from: RunId | None = None


def fold_projects(rung: Rung, ends: Sequence[ProjectEnd]) -> RungResult:
    """Folds the projects of a rung into the rung.

    Args:
        rung: Which rung.
        ends: One per touched project, in the order of the workspace.

    Returns:
        The state is the worst; the words, exit code and log are those of the project that gave it.
        Cached only if every project was. A rung of no project at all is skipped.
    """
    if not ends:
        return RungResult(rung=rung, state=RungState.SKIPPED, reason=NOTHING_TOUCHED)
    worst = min(ends, key=lambda one: WORST_FIRST.index(one.end.state))
    cached = [one.cached_from for one in ends if one.cached_from is not None]
    return RungResult(
        rung=rung,
        state=worst.end.state,
        reason=worst.end.reason,
        summary=worst.end.summary if len(ends) == 1 else _summary(ends),
        cached_from=cached[-1] if len(cached) == len(ends) else None,
        diagnostics=tuple(
            sorted(
                (found for one in ends for found in one.end.diagnostics),
                key=lambda found: (found.path, found.line, found.column, found.source, found.code),
            )
        ),
        tests=_add(tuple(one.end.tests for one in ends if one.end.tests is not None)),
        projects=tuple(
            ProjectResult(
                name=one.project, state=one.end.state, duration_ms=one.duration_ms, summary=one.end.summary
            )
            for one in ends
        ),
        exit_code=worst.end.exit_code,
        log_ref=worst.end.log_ref,
        host_kind="worker-process",
        stderr_tail=worst.end.stderr_tail,
        next=worst.end.next,
    )


def _summary(ends: Sequence[ProjectEnd]) -> str:
    return "; ".join(f"{one.project}: {one.end.summary}" for one in ends if one.end.summary)


def _add(counts: tuple[TestCounts, ...]) -> TestCounts | None:
    if not counts:
        return None
    failing = sorted(
        (test for one in counts for test in one.failing), key=lambda test: (test.path, test.line, test.nodeid)
    )
    return TestCounts(
        selected=_total(tuple(one.selected for one in counts)),
        units=_total(tuple(one.units for one in counts)),
        total=_total(tuple(one.total for one in counts)),
        passed=sum(one.passed for one in counts),
        failed=sum(one.failed for one in counts),
        skipped=sum(one.skipped for one in counts),
        errors=sum(one.errors for one in counts),
        xfailed=sum(one.xfailed for one in counts),
        xpassed=sum(one.xpassed for one in counts),
        cached=sum(one.cached for one in counts),
        failing=tuple(failing),
        selection=counts[0].selection,
    )


def _total(numbers: tuple[int | None, ...]) -> int | None:
    """A sum is known only if every part is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
