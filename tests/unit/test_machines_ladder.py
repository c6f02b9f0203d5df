"""The ladder's smaller answers: how high a run got, and when old faults count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glideslope.machines import ladder
from glideslope.model.ids import RunId
from glideslope.model.result import (
    Diagnostic,
    FailureClass,
    FindingState,
    RungResult,
    RungState,
    Severity,
    TestCase,
    TestCounts,
)
from glideslope.model.rung import Rung, VerifyPolicy

KNOWN_ERROR = Diagnostic(
    path="a.py",
    line=1,
    column=1,
    end_line=1,
    end_column=1,
    severity=Severity.ERROR,
    code="x",
    source="mypy",
    message="",
    state=FindingState.KNOWN,
    configured=True,
)
KNOWN_TEST = TestCase(nodeid="t", path="t.py", line=1, message="", failure_class=FailureClass.KNOWN)


def passed(rung: Rung = Rung.DIAGNOSE, **parts: object) -> RungResult:
    return replace(RungResult(rung=rung, state=RungState.PASS), **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "duration_ms", "executed"),
    [
        (RungState.PASS, None, True),
        (RungState.FAIL, None, True),
        (RungState.DIED, 5, True),
        (RungState.INCONCLUSIVE, 5, True),
        (RungState.CANCELLED, 5, True),
        (RungState.DIED, None, False),
        (RungState.INCONCLUSIVE, None, False),
        (RungState.CANCELLED, None, False),
        (RungState.SKIPPED, 5, False),
        (RungState.NOT_PERMITTED, 5, False),
        (RungState.PENDING, 5, False),
        (RungState.RUNNING, 5, False),
    ],
)
def test_only_a_rung_that_really_ran_is_reached(
    state: RungState, duration_ms: int | None, executed: bool
) -> None:
    top = RungResult(rung=Rung.FULL, state=state, duration_ms=duration_ms)
    expected = Rung.FULL if executed else Rung.COMPILE
    assert ladder.max_rung_reached([top, passed(Rung.COMPILE), passed(Rung.DIAGNOSE)]) is expected


def test_a_run_of_nothing_reached_nothing() -> None:
    assert ladder.max_rung_reached([]) is None


FAULTY = [
    passed(diagnostics=(KNOWN_ERROR,)),
    passed(tests=TestCounts(failing=(KNOWN_TEST,)), cached_from=RunId("r0")),
]
HARMLESS = [
    passed(),
    passed(diagnostics=(replace(KNOWN_ERROR, configured=False),)),
    passed(diagnostics=(replace(KNOWN_ERROR, severity=Severity.WARNING),)),
    passed(diagnostics=(replace(KNOWN_ERROR, state=FindingState.ADVISORY),)),
    passed(tests=TestCounts()),
    replace(FAULTY[0], state=RungState.INCONCLUSIVE),
]


@pytest.mark.parametrize("result", FAULTY)
def test_old_faults_fail_a_pass_under_a_demanding_policy_and_under_no_other(result: RungResult) -> None:
    for policy in (VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY):
        (hardened,) = ladder.harden(policy, [result])
        assert (hardened.state, hardened.reason) == (RungState.FAIL, ladder.KNOWN_FAILURES)
        assert hardened.cached_from is None
    for policy in (VerifyPolicy.MINIMAL, VerifyPolicy.STANDARD):
        assert ladder.harden(policy, [result]) == (result,)


@pytest.mark.parametrize("result", HARMLESS)
def test_what_the_repository_did_not_ask_for_fails_nothing(result: RungResult) -> None:
    assert ladder.harden(VerifyPolicy.STRICT, [result]) == (result,)
