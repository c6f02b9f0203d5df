"""Runs to show: one green, one red."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glideslope.model.ids import CommitId, EnvironmentKey, EpochId, LogRef, RunId, Scope, SnapshotId, TreeId
from glideslope.model.result import (
    Diagnostic,
    FailureClass,
    FindingState,
    ProjectResult,
    RungResult,
    RungState,
    Selection,
    Severity,
    TestCase,
    TestCounts,
    Verdict,
)
from glideslope.model.run import Run
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.timeslice import TimeReport

RUN_ID = RunId("0f3a9b52c1d4")
SNAPSHOT = SnapshotId("s1-90ab12cd34ef5a6b")
BASE = SnapshotId("s1-00000000000000ba")


def green_run(**changes: Any) -> Run:
    """A green run of the `standard` policy, with the changes given."""
    rungs = (
        RungResult(
            rung=Rung.DIAGNOSE,
            state=RungState.PASS,
            duration_ms=84,
            queued_ms=2,
            summary="3 files, 0 new findings",
        ),
        RungResult(
            rung=Rung.COMPILE, state=RungState.PASS, duration_ms=400, queued_ms=0, summary="2 packages"
        ),
        RungResult(
            rung=Rung.BUILD,
            state=RungState.PASS,
            duration_ms=120,
            queued_ms=0,
            summary="import smoke 2 modules",
        ),
        RungResult(
            rung=Rung.SCOPED,
            state=RungState.PASS,
            duration_ms=900,
            queued_ms=1,
            summary="12 of 953 tests",
            base_snapshot=BASE,
            tests=TestCounts(selected=2, units=40, total=953, passed=12),
            projects=(ProjectResult(name=".", state=RungState.PASS, duration_ms=900, summary="12 tests"),),
            exit_code=0,
            log_ref=LogRef("pytest-12ab"),
            host_kind="pytest.run",
        ),
    )
    made = Run(
        id=RUN_ID,
        action="verify",
        epoch=EpochId("3f9a77c0aa11"),
        scope=Scope("/home/dev/shop"),
        policy=VerifyPolicy.STANDARD,
        sandbox_profile="agent_ephemeral",
        isolation="snapshot",
        snapshot=SNAPSHOT,
        tree_id=TreeId("a" * 40),
        git_head=CommitId("1c2d3e4" + "0" * 33),
        inputs_digest="b" * 16,
        environment_key=EnvironmentKey("c" * 16),
        dirty_paths=("src/shop/cart.py", "src/shop/pricing.py", "tests/test_cart.py"),
        base_snapshot=BASE,
        base_reason=BaseReason.LAST_GREEN,
        changed_paths=("src/shop/cart.py", "tests/test_cart.py"),
        verdict=Verdict.GREEN,
        stale=None,
        cancelled=None,
        required_rung=Rung.SCOPED,
        max_rung_reached=Rung.SCOPED,
        rungs=rungs,
        time=TimeReport(
            wall_ms=1600, environment_ms=1504, overlapped_ms=900, reasoning_ms=4200, blocked_ms=600
        ),
        started_at="2026-01-02T03:04:05.678Z",
        ended_at="2026-01-02T03:04:07.278Z",
    )
    return replace(made, **changes)


def red_run() -> Run:
    """A run that is red at `test.scoped`, with findings on the way there."""
    findings = (
        Diagnostic(
            path="src/shop/cart.py",
            line=3,
            column=5,
            end_line=3,
            end_column=9,
            severity=Severity.WARNING,
            code="F401",
            source="ruff",
            message="`os` imported but unused",
            state=FindingState.ADVISORY,
            sha256="d" * 64,
        ),
        Diagnostic(
            path="pyproject.toml",
            line=0,
            column=0,
            end_line=0,
            end_column=0,
            severity=Severity.ERROR,
            code="",
            source="build",
            message="no such\n  file",
            state=FindingState.KNOWN,
            blocking=True,
        ),
    )
    failing = TestCase(
        nodeid="tests/test_cart.py::test_total[a-1]",
        path="tests/test_cart.py",
        line=14,
        message="assert 3 == 4",
        failure_class=FailureClass.NEW,
        log_ref=LogRef("pytest-12ab"),
    )
    tests = TestCounts(
        selected=2, units=40, total=953, passed=11, failed=1, failing=(failing,), selection=Selection.STATIC
    )
    first, compiled, built, scoped = green_run().rungs
    rungs = (
        replace(first, diagnostics=findings),
        compiled,
        built,
        replace(
            scoped,
            state=RungState.FAIL,
            summary="1 of 12 tests failed",
            tests=tests,
            exit_code=1,
            stderr_tail="boom",
            next="glideslope test --rerun-failed",
        ),
    )
    return green_run(rungs=rungs, verdict=Verdict.RED)
