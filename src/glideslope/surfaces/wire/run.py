"""A run as JSON: the data of `verify`, `diagnose`, `test`, `last` and `run`.

The words of the enums are shared with the model; the shapes are not.
"""

from __future__ import annotations

import re

import msgspec

from glideslope.engine.actions import RunView
from glideslope.machines import ladder
from glideslope.model.result import (
    CancelReason,
    Diagnostic,
    FailureClass,
    FindingState,
    ProjectResult,
    RungResult,
    RungState,
    Selection,
    Severity,
    StaleReason,
    TestCase,
    TestCounts,
    TestOutcome,
    Verdict,
)
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.timeslice import TimeReport
from glideslope.surfaces.wire.text import path_text, plain_or_none, plain_text


class WireDiagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. Lines and columns count from 1; null: it is about the whole file."""

    path: str
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None
    severity: Severity
    code: str
    source: str
    message: str
    new: bool
    blocking: bool
    state: FindingState
    sha256: str | None


class WireFailing(msgspec.Struct, frozen=True, kw_only=True):
    """One test that failed or erred."""

    nodeid: str
    path: str
    line: int | None
    message: str
    log_ref: str | None
    outcome: TestOutcome
    failure_class: FailureClass = msgspec.field(name="class")


class WireTests(msgspec.Struct, frozen=True, kw_only=True):
    """What a test rung ran. `selected` and `units` count test files, the others tests."""

    selected: int | None
    units: int | None
    total: int | None
    passed: int
    failed: int
    skipped: int
    errors: int
    xfailed: int
    xpassed: int
    cached: int
    failing: list[WireFailing]  # by path, line, node id
    selection: Selection


class WireProject(msgspec.Struct, frozen=True, kw_only=True):
    """One project's share of a rung."""

    name: str
    state: RungState
    duration_ms: int
    summary: str


class WireHost(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of process served a rung, and how it was started."""

    kind: str
    mode: str


class WireRung(msgspec.Struct, frozen=True, kw_only=True):
    """One rung. In lists of runs, `diagnostics` is left out."""

    verify_rung: Rung
    state: RungState
    duration_ms: int | None
    queued_ms: int | None
    cached: bool
    cached_from: str | None
    summary: str
    reason: str
    reason_code: str | None
    base_snapshot_id: str | None
    projects: list[WireProject]
    diagnostics: list[WireDiagnostic] | msgspec.UnsetType = msgspec.UNSET  # by path, line, column
    tests: WireTests | None
    exit_code: int | None
    log_ref: str | None
    host_kind: str | None
    host: WireHost | None
    stderr_tail: str | None
    next: str | None


class WireStale(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verdict does not speak of the workspace."""

    reason: StaleReason
    paths: list[str]


class WireTime(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went, in whole milliseconds; null: not measured."""

    wall: int | None
    reasoning: int | None
    environment: int | None
    blocked: int | None
    idle_user: int | None
    overlapped: int | None


class WireRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `verdict` is null while it goes on, `reason` says why it was cancelled."""

    run_id: str
    action: str
    epoch_id: str | None
    parent_run_id: str | None
    scope: str
    verify_policy: VerifyPolicy
    sandbox_profile: str
    isolation: str | None
    verify_snapshot_id: str | None
    git_head: str | None
    tree_id: str | None
    inputs_digest: str | None
    environment_key: str | None
    dirty_paths: list[str]
    current: bool
    base_snapshot_id: str | None
    base_reason: BaseReason
    changed_paths: list[str]
    verdict: Verdict | None
    reason: CancelReason | None
    stale: WireStale | None
    required_rung: Rung | None
    max_rung_reached: Rung | None
    rungs: list[WireRung]
    time_ms: WireTime
    started_at: str
    ended_at: str | None
    note: str | None
    next: str | None


def wire_run(view: RunView, *, diagnostics: bool = True) -> WireRun:
    """A run as clients see it.

    Args:
        view: The run, and whether it is current.
        diagnostics: Whether the findings of its rungs come along.
    """
    run = view.run
    return WireRun(
        run_id=run.id,
        action=run.action,
        epoch_id=run.epoch,
        parent_run_id=run.parent_run,
        scope=path_text(run.scope),
        verify_policy=run.policy,
        sandbox_profile=run.sandbox_profile,
        isolation=run.isolation,
        verify_snapshot_id=run.snapshot,
        git_head=run.git_head,
        tree_id=run.tree_id,
        inputs_digest=run.inputs_digest,
        environment_key=run.environment_key,
        dirty_paths=sorted(path_text(path) for path in run.dirty_paths),
        current=view.current,
        base_snapshot_id=run.base_snapshot,
        base_reason=run.base_reason,
        changed_paths=sorted(path_text(path) for path in run.changed_paths),
        verdict=run.verdict,
        reason=run.cancelled,
        stale=_stale(run),
        required_rung=run.required_rung,
        max_rung_reached=run.max_rung_reached,
        rungs=[wire_rung(rung, diagnostics=diagnostics) for rung in run.rungs],
        time_ms=wire_time(run.time),
        started_at=run.started_at,
        ended_at=run.ended_at,
        note=plain_text(run.note) or None,
        next=plain_or_none(run.next),
    )


def wire_rung(rung: RungResult, *, diagnostics: bool = True) -> WireRung:
    """A rung as clients see it."""
    return WireRung(
        verify_rung=rung.rung,
        state=rung.state,
        duration_ms=rung.duration_ms,
        queued_ms=rung.queued_ms,
        cached=rung.cached_from is not None,
        cached_from=rung.cached_from,
        summary=plain_text(rung.summary),
        reason=plain_text(rung.reason),
        reason_code=reason_code(rung.reason),
        base_snapshot_id=rung.base_snapshot,
        projects=[_project(project) for project in sorted(rung.projects, key=lambda one: one.name)],
        diagnostics=_diagnostics(rung) if diagnostics else msgspec.UNSET,
        tests=_tests(rung.tests) if rung.tests else None,
        exit_code=rung.exit_code,
        log_ref=rung.log_ref,
        host_kind=rung.host_kind,
        host=WireHost(kind=rung.host_kind, mode="cold") if rung.host_kind else None,
        stderr_tail=plain_or_none(rung.stderr_tail),
        next=plain_or_none(rung.next),
    )


def wire_time(time: TimeReport | None) -> WireTime:
    """Where the time went; all null while it is not known."""
    return WireTime(
        wall=time.wall_ms if time else None,
        reasoning=time.reasoning_ms if time else None,
        environment=time.environment_ms if time else None,
        blocked=time.blocked_ms if time else None,
        idle_user=time.idle_user_ms if time else None,
        overlapped=time.overlapped_ms if time else None,
    )


# Reasons that the ladder gives in words.
_CODES = {
    ladder.NO_CODE_CHANGE: "no_code_change",
    ladder.COVERED_BY_FULL: "covered_by_full",
    ladder.DISABLED: "disabled",
    ladder.NEEDS_EXPLICIT: "needs_explicit",
}
_CODE = re.compile("[a-z][a-z0-9_]*")


def reason_code(reason: str) -> str | None:
    """The code of a reason, for programs; null where the reason is only for people."""
    return _CODES.get(reason) or (reason if _CODE.fullmatch(reason) else None)


def wire_stale(stale: Staleness) -> WireStale:
    """Why a verdict does not hold any more."""
    return WireStale(reason=stale.reason, paths=sorted(path_text(path) for path in stale.paths))


def _stale(run: Run) -> WireStale | None:
    return wire_stale(run.stale) if run.stale else None


def _project(project: ProjectResult) -> WireProject:
    return WireProject(
        name=path_text(project.name),
        state=project.state,
        duration_ms=project.duration_ms,
        summary=plain_text(project.summary),
    )


def _diagnostics(rung: RungResult) -> list[WireDiagnostic]:
    ordered = sorted(rung.diagnostics, key=lambda one: (one.path, one.line, one.column, one.source, one.code))
    return [_diagnostic(found) for found in ordered]


def _diagnostic(found: Diagnostic) -> WireDiagnostic:
    return WireDiagnostic(
        path=path_text(found.path),
        line=found.line or None,
        column=found.column or None,
        end_line=found.end_line or None,
        end_column=found.end_column or None,
        severity=found.severity,
        code=found.code,
        source=found.source,
        message=plain_text(found.message),
        new=found.new,
        blocking=found.blocking,
        state=found.state,
        sha256=found.sha256,
    )


def _tests(tests: TestCounts) -> WireTests:
    failing = sorted(tests.failing, key=lambda one: (one.path, one.line, one.nodeid))
    return WireTests(
        selected=tests.selected,
        units=tests.units,
        total=tests.total,
        passed=tests.passed,
        failed=tests.failed,
        skipped=tests.skipped,
        errors=tests.errors,
        xfailed=tests.xfailed,
        xpassed=tests.xpassed,
        cached=tests.cached,
        failing=[_failing(test) for test in failing],
        selection=tests.selection,
    )


def _failing(test: TestCase) -> WireFailing:
    return WireFailing(
        nodeid=plain_text(test.nodeid),
        path=path_text(test.path),
        line=test.line or None,
        message=plain_text(test.message),
        log_ref=test.log_ref,
        outcome=test.outcome,
        failure_class=test.failure_class,
    )
