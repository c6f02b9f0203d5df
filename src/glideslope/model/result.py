"""What tasks, rungs and runs end with: three enums, and findings, tests and counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from glideslope.model.ids import LogRef, RunId, SnapshotId
from glideslope.model.rung import Rung


class Verdict(StrEnum):
    """What a run says about its snapshot. One word, one exit code."""

    GREEN = "green"
    RED = "red"
    REFUSED = "refused"
    STALE = "stale"
    DIED = "died"
    CANCELLED = "cancelled"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this verdict."""
        return _EXIT[self]


_EXIT = {
    Verdict.GREEN: 0,
    Verdict.RED: 1,
    Verdict.REFUSED: 3,
    Verdict.STALE: 4,
    Verdict.DIED: 5,
    Verdict.CANCELLED: 6,
    Verdict.INCONCLUSIVE: 7,
}


class RungState(StrEnum):
    """Where one rung of a run stands."""

    PENDING = "pending"
    RUNNING = "running"
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    CANCELLED = "cancelled"
    DIED = "died"
    SKIPPED = "skipped"
    NOT_PERMITTED = "not_permitted"


class Severity(StrEnum):
    """How bad the tool that reported it says it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingState(StrEnum):
    """How a finding stands to the base."""

    NEW = "new"
    KNOWN = "known"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding of a static tool. Lines and columns count from 1; 0 means the whole file."""

    path: str  # relative to the workspace root
    line: int
    column: int
    end_line: int
    end_column: int
    severity: Severity
    code: str
    source: str  # ruff, ty, mypy, pyright, syntax, imports, build ...
    message: str
    state: FindingState = FindingState.NEW
    blocking: bool = False
    configured: bool = False  # found by a checker that the repository itself configures
    sha256: str | None = None  # of the file it is about

    @property
    def new(self) -> bool:
        """Whether the base did not have it."""
        return self.state is not FindingState.KNOWN


class TestOutcome(StrEnum):
    """How one test ended."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"


class FailureClass(StrEnum):
    """How a failing test stands to the base."""

    NEW = "new"
    KNOWN = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """One test that failed or erred."""

    __test__ = False

    nodeid: str
    path: str  # relative to the workspace root
    line: int  # 0: unknown
    message: str
    outcome: TestOutcome = TestOutcome.FAILED
    failure_class: FailureClass = FailureClass.NEW
    log_ref: LogRef | None = None


class Selection(StrEnum):
    """How the tests of a rung were chosen."""

    PRECISE = "precise"
    SAFE = "safe"
    STATIC = "static"
    FULL = "full"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCounts:
    """What a test rung ran. None: not known."""

    __test__ = False

    selected: int | None = None  # test files
    units: int | None = None  # test files there are
    total: int | None = None  # tests, as far as collected
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    xfailed: int = 0
    xpassed: int = 0
    cached: int = 0
    failing: tuple[TestCase, ...] = ()  # sorted by path, line, node id
    selection: Selection = Selection.STATIC


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectResult:
    """One project's share of a rung."""

    name: str
    state: RungState
    duration_ms: int
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungResult:
    """Where one rung stands, or how it ended."""

    rung: Rung
    state: RungState
    reason: str = ""  # a reason code, e.g. tool_missing
    summary: str = ""
    duration_ms: int | None = None
    queued_ms: int | None = None
    cached_from: RunId | None = None
    base_snapshot: SnapshotId | None = None
    diagnostics: tuple[Diagnostic, ...] = ()  # sorted by path, line, column
    tests: TestCounts | None = None
    projects: tuple[ProjectResult, ...] = ()
    exit_code: int | None = None
    log_ref: LogRef | None = None
    host_kind: str | None = None
    stderr_tail: str | None = None
    next: str | None = None  # the command that would help


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRung:
    """How a rung ended for one project."""

    state: RungState  # pass, fail, inconclusive, died, skipped
    reason: str = ""
    summary: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    tests: TestCounts | None = None
    covered: str = ""  # digest of the selection; "full" where everything ran
    known_failures: tuple[str, ...] = ()
    exit_code: int | None = None
    log_ref: LogRef | None = None
    stderr_tail: str | None = None
    next: str | None = None


class StaleReason(StrEnum):
    """Why a verdict no longer speaks of the workspace."""

    WRITE_IN_EPOCH = "write_in_epoch"
    ENVIRONMENT_CHANGED = "environment_changed"
    SUPERSEDED = "superseded"


class CancelReason(StrEnum):
    """Who or what ended it early."""

    REQUESTED = "requested"
    SUPERSEDED = "superseded"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
