"""The Verify Epoch block: exact text; states from the enum; nothing unknown shown as zero."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glideslope.machines.card import ASCII, LINES_AT_MOST, UNICODE, view_epoch, view_status
from glideslope.model.ids import CommitId, EnvironmentKey, EpochId, LogRef, RunId, Scope, SnapshotId, TreeId
from glideslope.model.result import (
    CancelReason,
    Diagnostic,
    FailureClass,
    FindingState,
    RungResult,
    RungState,
    Severity,
    StaleReason,
    TestCase,
    TestCounts,
    Verdict,
)
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.timeslice import TimeReport


def passed(rung: Rung, duration_ms: int, summary: str) -> RungResult:
    return RungResult(rung=rung, state=RungState.PASS, duration_ms=duration_ms, summary=summary)


GREEN = Run(
    id=RunId("a1b2c3d4e5"),
    action="verify",
    epoch=EpochId("3f9a77"),
    scope=Scope("/home/dev/shop"),
    policy=VerifyPolicy.STANDARD,
    sandbox_profile="agent_ephemeral",
    isolation="snapshot",
    snapshot=SnapshotId("s1-90ab12cd34ef5a6b"),
    tree_id=TreeId("4" * 40),
    git_head=CommitId("1c2d3e4f5a"),
    inputs_digest="5",
    environment_key=EnvironmentKey("py"),
    dirty_paths=("a.py", "b.py", "c.py"),
    base_snapshot=None,
    base_reason=BaseReason.NONE,
    changed_paths=(),
    verdict=Verdict.GREEN,
    stale=None,
    cancelled=None,
    required_rung=Rung.SCOPED,
    max_rung_reached=Rung.SCOPED,
    rungs=(
        passed(Rung.DIAGNOSE, 84, "3 files, 0 new findings"),
        passed(Rung.COMPILE, 400, "2 packages"),
        passed(Rung.BUILD, 120, "import smoke 2 modules"),
        passed(Rung.SCOPED, 930, "12 of 953 tests"),
    ),
    time=TimeReport(wall_ms=1500, environment_ms=1500, overlapped_ms=900, reasoning_ms=4200, blocked_ms=600),
    started_at="2026-01-02T03:04:05.678Z",
    ended_at="2026-01-02T03:04:07.178Z",
)
FINDING = Diagnostic(
    path="a.py",
    line=3,
    column=7,
    end_line=3,
    end_column=9,
    severity=Severity.ERROR,
    code="F821",
    source="ruff",
    message="undefined name\nsecond line",
    blocking=True,
)
TEST = TestCase(nodeid="tests/t.py::test_a", path="tests/t.py", line=12, message="assert 3 == 4\nmore")


def with_rung(result: RungResult, verdict: Verdict | None = Verdict.RED) -> Run:
    return replace(GREEN, rungs=(result,), verdict=verdict, max_rung_reached=None)


def text(run: Run, *, current: bool = True) -> str:
    return "\n".join(view_epoch(run, current=current))


def test_a_green_run_reads_as_documented() -> None:
    assert text(GREEN) == (
        "Verify · standard · epoch 3f9a\n"
        "snapshot s1-90ab12cd34ef5a6b · 1c2d3e4 · 3 files dirty\n"
        "  ✓ diagnose.files      0.1s   3 files, 0 new findings\n"
        "  ✓ compile.project     0.4s   2 packages\n"
        "  ✓ build.affected      0.1s   import smoke 2 modules\n"
        "  ✓ test.scoped         0.9s   12 of 953 tests\n"
        "  — test.full                  not required\n"
        "Run a1b2c3d4\n"
        "Reasoning 4.2s · Environment 1.5s (0.9s overlapped) · Blocked 0.6s\n"
        "Status: green (standard) · required test.scoped · reached test.scoped"
    )


def test_a_change_no_test_reaches_says_so() -> None:
    run = replace(
        GREEN,
        rungs=GREEN.rungs[:3],
        required_rung=Rung.BUILD,
        max_rung_reached=Rung.BUILD,
        note="no test reaches this change",
    )
    assert view_status(run) == (
        "Status: green (standard) · required build.affected · reached build.affected"
        " · no test reaches this change"
    )
    assert "  — test.scoped                not required" in view_epoch(run)


def test_without_unicode_every_mark_is_ascii_and_every_state_of_ending_differs() -> None:
    for glyphs in (ASCII, UNICODE):
        assert set(glyphs.states) == set(RungState)
    shown = "\n".join(
        line
        for state in RungState
        for current in (True, False)
        for line in view_epoch(
            replace(with_rung(RungResult(rung=Rung.DIAGNOSE, state=state)), time=None),
            current=current,
            glyphs=ASCII,
        )
    )
    assert shown.isascii()
    for glyphs in (ASCII, UNICODE):
        telling = [glyphs.states[state] for state in RungState if state not in ("skipped", "not_permitted")]
        assert len({*telling, glyphs.stale, glyphs.dash}) == len(telling) + 2


def test_the_glyph_comes_from_the_state_whatever_the_words_say() -> None:
    for state in RungState:
        for words in ("0 errors", "passed", "failed", "error", "died"):
            line = view_epoch(with_rung(RungResult(rung=Rung.DIAGNOSE, state=state, summary=words)))[2]
            assert line.startswith(f"  {UNICODE.states[state]} diagnose.files")


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (RungResult(rung=Rung.SCOPED, state=RungState.SKIPPED, reason="no code change"), "no code change"),
        (
            RungResult(rung=Rung.SCOPED, state=RungState.NOT_PERMITTED, reason="ask"),
            "not permitted · ask",
        ),
        (RungResult(rung=Rung.SCOPED, state=RungState.PENDING), "not reached"),
        (
            RungResult(rung=Rung.SCOPED, state=RungState.INCONCLUSIVE, reason="no_covering_test"),
            "inconclusive · no covering test",
        ),
        (RungResult(rung=Rung.SCOPED, state=RungState.CANCELLED), "cancelled"),
        (RungResult(rung=Rung.SCOPED, state=RungState.RUNNING, summary="5 of 9"), "running · 5 of 9"),
        (
            replace(passed(Rung.SCOPED, 0, "12 tests"), cached_from=RunId("0123456789")),
            "12 tests · cached from 01234567",
        ),
    ],
)
def test_what_a_rung_did_not_do_is_said(result: RungResult, says: str) -> None:
    (line,) = [
        line for line in view_epoch(with_rung(result)) if "test.scoped" in line and "Status" not in line
    ]
    assert line.endswith(f"   {says}")


def test_a_rung_that_waits_in_a_run_that_goes_on_is_not_called_unreached() -> None:
    run = with_rung(RungResult(rung=Rung.DIAGNOSE, state=RungState.PENDING), verdict=None)
    assert view_epoch(run)[2] == "  · diagnose.files"
    assert view_status(run).startswith("Status: running (standard)")
    assert view_status(replace(run, stale=Staleness(reason=StaleReason.WRITE_IN_EPOCH))).startswith(
        "Status: stale"
    )


ADVICE = replace(FINDING, path="0.py", state=FindingState.ADVISORY, severity=Severity.WARNING, blocking=False)
KNOWN = replace(FINDING, state=FindingState.KNOWN, code="OLD", blocking=False)
FAILED = RungResult(
    rung=Rung.DIAGNOSE,
    state=RungState.FAIL,
    diagnostics=(ADVICE, KNOWN, FINDING, replace(FINDING, line=0, column=0)),
    log_ref=LogRef("ruff-12ab"),
    next="glideslope diagnose a.py",
)


def test_a_failed_rung_lists_what_decided_it_and_how_to_see_the_rest() -> None:
    assert view_epoch(with_rung(FAILED))[3:8] == (
        "      a.py:3:7: error F821 undefined name",
        "      a.py: error F821 undefined name",
        "      2 more findings that decide nothing: glideslope run a1b2c3d4 --all",
        "      log: glideslope log ruff-12ab",
        "      next: glideslope diagnose a.py",
    )


def test_all_findings_are_listed_where_that_is_asked_for_below_a_pass_too() -> None:
    lines = view_epoch(with_rung(FAILED), show_all=True)
    assert lines[3:8] == (
        "      0.py:3:7: warning F821 undefined name (advisory)",
        "      a.py:3:7: error OLD undefined name (known)",
        "      a.py:3:7: error F821 undefined name",
        "      a.py: error F821 undefined name",
        "      log: glideslope log ruff-12ab",
    )
    many = replace(passed(Rung.DIAGNOSE, 84, "fine"), diagnostics=(ADVICE,) * (LINES_AT_MOST + 1))
    shown = view_epoch(with_rung(many), show_all=True)
    assert sum("(advisory)" in line for line in shown) == LINES_AT_MOST + 1


def test_the_log_of_what_died_is_named_and_that_of_a_pass_is_not() -> None:
    died = RungResult(rung=Rung.SCOPED, state=RungState.DIED, log_ref=LogRef("pytest-1"))
    assert "      log: glideslope log pytest-1" in view_epoch(with_rung(died, Verdict.DIED))
    fine = replace(passed(Rung.SCOPED, 84, "fine"), log_ref=LogRef("pytest-1"))
    assert "log:" not in text(with_rung(fine))


def test_a_pass_lists_no_findings_and_no_next_step() -> None:
    result = replace(passed(Rung.DIAGNOSE, 84, "fine"), diagnostics=(FINDING,), next="nothing")
    assert view_epoch(with_rung(result))[3].startswith("  — compile.project")


def test_known_findings_are_listed_where_they_decide() -> None:
    counts = replace(KNOWN, configured=True)
    result = RungResult(
        rung=Rung.COMPILE, state=RungState.FAIL, reason="known_failures", diagnostics=(ADVICE, KNOWN, counts)
    )
    assert view_epoch(with_rung(result))[3:6] == (
        "  ✗ compile.project            known failures",
        "      a.py:3:7: error OLD undefined name (known)",
        "      2 more findings that decide nothing: glideslope run a1b2c3d4 --all",
    )


def test_failing_tests_name_node_id_place_and_message_and_known_ones_are_marked_even_below_a_pass() -> None:
    known = replace(TEST, failure_class=FailureClass.KNOWN, line=0, message="")
    inherited = replace(TEST, path="tests/base.py")
    result = replace(passed(Rung.DIAGNOSE, 1, ""), tests=TestCounts(failing=(TEST, inherited, known)))
    assert view_epoch(with_rung(result))[3:6] == (
        "      tests/t.py::test_a, line 12: assert 3 == 4",
        "      tests/t.py::test_a, tests/base.py:12: assert 3 == 4",
        "      tests/t.py::test_a (known)",
    )


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    result = RungResult(
        rung=Rung.DIAGNOSE, state=RungState.FAIL, tests=TestCounts(failing=(TEST,) * (LINES_AT_MOST + 3))
    )
    lines = view_epoch(with_rung(result))
    assert sum("::test_a" in line for line in lines) == LINES_AT_MOST
    assert "      … and 3 more" in lines


def test_a_died_run_blames_no_test_names_suspects_and_offers_a_retry() -> None:
    tail = "\n".join(f"line {number}" for number in range(9)) + "\n"
    result = RungResult(rung=Rung.SCOPED, state=RungState.DIED, stderr_tail=tail, summary="signal 11")
    lines = view_epoch(with_rung(result, Verdict.DIED))
    start = lines.index("☠ The environment died; this says nothing about the code.")
    assert lines[start + 1 : start + 8] == (
        "  If it was the code: import-time code, a crash in a C extension, or a plugin loop.",
        "      line 4",
        "      line 5",
        "      line 6",
        "      line 7",
        "      line 8",
        "  Retry: glideslope verify standard",
    )


@pytest.mark.parametrize(
    "rungs",
    [
        (),
        (RungResult(rung=Rung.SCOPED, state=RungState.DIED, reason="engine_died"),),
        (RungResult(rung=Rung.SCOPED, state=RungState.DIED, reason="state_unavailable"),),
    ],
)
def test_what_broke_on_our_side_puts_no_code_under_suspicion(rungs: tuple[RungResult, ...]) -> None:
    run = replace(GREEN, rungs=rungs, verdict=Verdict.DIED, next="glideslope daemon status")
    assert "  Retry: glideslope daemon status" in view_epoch(run)
    assert "import-time" not in text(run)


def test_a_rung_the_run_never_came_to_is_not_called_unneeded() -> None:
    ended_before_the_plan = replace(
        GREEN, rungs=(), required_rung=None, max_rung_reached=None, verdict=Verdict.DIED
    )
    assert text(ended_before_the_plan).count("not reached") == len(Rung)
    cut_off = replace(GREEN, rungs=GREEN.rungs[:1], verdict=Verdict.DIED)
    assert [line.split()[-1] for line in view_epoch(cut_off)[3:7]] == ["reached"] * 3 + ["required"]
    opened = replace(GREEN, rungs=(), required_rung=None, verdict=None)
    assert text(opened).count("not planned yet") == len(Rung)


@pytest.mark.parametrize(
    ("stale", "says"),
    [
        (Staleness(reason=StaleReason.WRITE_IN_EPOCH), "something was written."),
        (Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=("a", "b")), "something was written to a, b."),
        (
            Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=tuple("abcde")),
            "something was written to a, b, c … and 2 more.",
        ),
        (Staleness(reason=StaleReason.ENVIRONMENT_CHANGED), "the environment changed."),
        (Staleness(reason=StaleReason.SUPERSEDED), "a newer run took over."),
    ],
)
def test_a_stale_run_says_why_and_offers_a_retry(stale: Staleness, says: str) -> None:
    lines = view_epoch(replace(GREEN, verdict=Verdict.STALE, stale=stale), current=False)
    assert f"⚠ Not verified on the current snapshot: {says}" in lines
    assert "  Retry: glideslope verify standard" in lines
    assert lines[-1].startswith("Status: stale (standard)")


def test_a_green_that_is_no_longer_current_is_not_shown_as_green() -> None:
    assert "⚠ Not verified on the current snapshot: the workspace holds other content now." in view_epoch(
        GREEN, current=False
    )
    assert view_status(GREEN, current=False).startswith("Status: stale, was green (standard)")


def test_a_cancelled_run_says_who_ended_it() -> None:
    run = replace(GREEN, verdict=Verdict.CANCELLED, cancelled=CancelReason.TIMEOUT, max_rung_reached=None)
    assert (
        view_status(run)
        == "Status: cancelled (standard) · required test.scoped · reached none · reason timeout"
    )


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            replace(
                with_rung(
                    RungResult(rung=Rung.SCOPED, state=RungState.INCONCLUSIVE, reason="no_covering_test"),
                    Verdict.INCONCLUSIVE,
                ),
                note="other paths changed too",
            ),
            "test.scoped: no covering test · other paths changed too",
        ),
        (
            replace(
                with_rung(
                    RungResult(rung=Rung.DIAGNOSE, state=RungState.SKIPPED, reason="nothing changed"),
                    Verdict.INCONCLUSIVE,
                ),
                base_snapshot=SnapshotId("s1-ba"),
            ),
            "nothing changed against s1-ba",
        ),
        (
            with_rung(
                RungResult(rung=Rung.FULL, state=RungState.NOT_PERMITTED, reason="only by name"),
                Verdict.REFUSED,
            ),
            "test.full: only by name",
        ),
        (
            with_rung(
                RungResult(rung=Rung.BUILD, state=RungState.DIED, summary="signal 11\nmore"), Verdict.DIED
            ),
            "build.affected: signal 11",
        ),
        (
            replace(
                GREEN,
                verdict=Verdict.STALE,
                stale=Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=("a.py",)),
            ),
            "something was written to a.py",
        ),
    ],
)
def test_the_status_line_says_why_it_is_neither_green_nor_red(run: Run, why: str) -> None:
    assert view_status(run).split(" · ", 3)[3] == why


def test_the_next_step_of_a_run_is_shown_once() -> None:
    capped = replace(GREEN, verdict=Verdict.INCONCLUSIVE, next="glideslope verify")
    assert view_epoch(capped)[-4] == "next: glideslope verify"
    rung = RungResult(rung=Rung.SCOPED, state=RungState.INCONCLUSIVE, next="glideslope verify")
    assert text(replace(capped, rungs=(rung,))).count("next:") == 1
    assert "next:" not in text(replace(capped, verdict=Verdict.DIED))


def test_what_was_not_measured_is_a_dash_and_never_zero() -> None:
    alone = TimeReport(wall_ms=20, environment_ms=20, overlapped_ms=0)
    assert view_epoch(replace(GREEN, time=alone))[-2] == "Reasoning — · Environment 0.0s"
    assert view_epoch(replace(GREEN, time=None))[-2] == "Reasoning — · Environment —"


def test_a_clean_tree_has_no_word_about_dirty_files() -> None:
    assert view_epoch(replace(GREEN, dirty_paths=()))[1] == "snapshot s1-90ab12cd34ef5a6b · 1c2d3e4"


def test_other_actions_show_only_their_own_rungs_and_no_policy() -> None:
    run = replace(
        GREEN,
        action="diagnose",
        epoch=None,
        git_head=None,
        dirty_paths=("a.py",),
        snapshot=None,
        rungs=(RungResult(rung=Rung.DIAGNOSE, state=RungState.DIED),),
        verdict=Verdict.DIED,
        required_rung=None,
        max_rung_reached=None,
        time=None,
    )
    assert text(run) == (
        "Diagnose · run a1b2c3d4\n"
        "snapshot — · 1 file dirty\n"
        "  ☠ diagnose.files             died\n"
        "☠ The environment died; this says nothing about the code.\n"
        "  If it was the code: import-time code, a crash in a C extension, or a plugin loop.\n"
        "  Retry: glideslope diagnose\n"
        "Reasoning — · Environment —\n"
        "Status: died · reached none · diagnose.files: died"
    )
