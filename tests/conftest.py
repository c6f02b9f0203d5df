"""What holds for every test: the async backend, and no skip goes unseen in CI."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

IN_CI = os.environ.get("GLIDESLOPE_CI") == "1"

AnyReport = TypeVar("AnyReport", pytest.TestReport, pytest.CollectReport)


def _skips_fail(report: AnyReport) -> AnyReport:
    """Turns a skip into a failure that gives the skip's reason; an expected failure stays one."""
    if not (IN_CI and report.skipped) or hasattr(report, "wasxfail"):
        return report
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"skipped, and in CI nothing may be missing: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _skips_fail((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _skips_fail((yield))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The engine runs on asyncio."""
    return "asyncio"
