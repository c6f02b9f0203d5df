"""From projects to a rung: the worst state counts, and a sum is known only if its parts are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from glideslope.machines.rungfold import WORST_FIRST, ProjectEnd, fold_projects
from glideslope.model.ids import LogRef, RunId
from glideslope.model.result import (
    Diagnostic,
    ProjectRung,
    RungState,
    Severity,
    TestCase,
    TestCounts,
)
from glideslope.model.rung import Rung


def end(
    name: str, state: RungState, *, cached: str | None = None, tests: TestCounts | None = None
) -> ProjectEnd:
    return ProjectEnd(
        project=name,
        end=ProjectRung(
            state=state,
            reason=f"{name} reason",
            summary=f"{name} summary",
            tests=tests,
            log_ref=LogRef(f"{name}-log"),
            next=f"{name} next",
        ),
        duration_ms=7,
        cached_from=RunId(cached) if cached else None,
    )


def test_the_worst_project_gives_state_reason_and_log() -> None:
    for first, second in product(WORST_FIRST, repeat=2):
        folded = fold_projects(Rung.BUILD, [end("a", first), end("b", second)])
        worst = min(first, second, key=WORST_FIRST.index)
        name = "a" if first is worst else "b"
        assert (folded.state, folded.reason, folded.log_ref, folded.next) == (
            worst,
            f"{name} reason",
            f"{name}-log",
            f"{name} next",
        )
        assert [(project.name, project.state) for project in folded.projects] == [("a", first), ("b", second)]


def test_one_project_speaks_for_itself_and_several_are_named() -> None:
    one, other = end("a", RungState.PASS), end("b", RungState.FAIL)
    silent = replace(other, end=replace(other.end, summary=""))
    assert fold_projects(Rung.BUILD, [one]).summary == "a summary"
    assert fold_projects(Rung.BUILD, [one, other]).summary == "a: a summary; b: b summary"
    assert fold_projects(Rung.BUILD, [one, silent]).summary == "a: a summary"


def test_a_rung_is_cached_only_if_every_project_was() -> None:
    cached, fresh = end("a", RungState.PASS, cached="r1"), end("b", RungState.PASS)
    assert fold_projects(Rung.BUILD, [cached]).cached_from == "r1"
    assert fold_projects(Rung.BUILD, [cached, fresh]).cached_from is None
    assert fold_projects(Rung.BUILD, [fresh]).cached_from is None


def test_counts_add_up_and_one_unknown_part_makes_the_sum_unknown() -> None:
    late = TestCase(nodeid="b", path="t.py", line=9, message="")
    early = replace(late, nodeid="a", line=2)
    one = TestCounts(selected=1, units=2, total=3, passed=1, failed=1, failing=(late,))
    two = TestCounts(selected=4, units=None, total=6, passed=5, errors=1, skipped=2, failing=(early,))
    folded = fold_projects(
        Rung.SCOPED,
        [end("a", RungState.FAIL, tests=one), end("b", RungState.FAIL, tests=two), end("c", RungState.PASS)],
    )
    assert folded.tests == TestCounts(
        selected=5,
        units=None,
        total=9,
        passed=6,
        failed=1,
        errors=1,
        skipped=2,
        failing=(early, late),
    )
    assert fold_projects(Rung.SCOPED, [end("c", RungState.PASS)]).tests is None


def test_findings_of_all_projects_are_sorted_by_place() -> None:
    found = Diagnostic(
        path="b.py",
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        severity=Severity.ERROR,
        code="",
        source="ruff",
        message="",
    )
    first, second = end("a", RungState.PASS), end("b", RungState.PASS)
    folded = fold_projects(
        Rung.DIAGNOSE,
        [
            replace(first, end=replace(first.end, diagnostics=(found,))),
            replace(second, end=replace(second.end, diagnostics=(replace(found, path="a.py"),))),
        ],
    )
    assert [diagnostic.path for diagnostic in folded.diagnostics] == ["a.py", "b.py"]


def test_where_nothing_of_any_project_changed_there_is_nothing_to_fail() -> None:
    assert fold_projects(Rung.COMPILE, []).projects == ()
