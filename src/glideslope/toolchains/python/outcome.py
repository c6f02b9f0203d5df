"""What the runs of a test rung come to together: its state, its counts, its findings and what is next."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from glideslope.model.paths import RepoPath
from glideslope.model.result import (
    Diagnostic,
    FailureClass,
    FindingState,
    RungState,
    Selection,
    Severity,
    TestCase,
    TestCounts,
    TestOutcome,
)
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Context, ProjectRung
from glideslope.toolchains.python.absent import hint_for
from glideslope.toolchains.python.comparison import Before, Ran, classify, file_of, is_denied, relative
from glideslope.toolchains.python.endings import Case, stderr_tail, unknown_option
from glideslope.toolchains.python.layout import read_text
from glideslope.toolchains.python.selection import Selected
from glideslope.toolchains.python.units import PytestConfig

FULL = "full"
"""What `covered` says of a run that left no test file out."""

_COMPARE = "glideslope verify --base HEAD~1  # to see whether it failed before"
_NETWORK = (
    'network = "host" in your own settings file (`glideslope config show` names it, '
    "~/.config/glideslope/settings.toml where it says nothing), not the repository's"
)
_COUNTS_KNOWN_FAILURES = (VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY)


def covers(chosen: Selected) -> str:
    """What running a selection covers: `FULL`, or a digest of it."""
    return FULL if chosen.everything else digest(chosen.selected)


def digest(parts: Iterable[str]) -> str:
    """A name for what a run covered."""
    text = "\n".join(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def count_files(count: int) -> str:
    """Such as `3 test files`."""
    return f"{count} test file" + ("" if count == 1 else "s")


def without_root(context: Context, text: str) -> str:
    """A text with the workspace's paths as people write them."""
    return text.replace(context.workspace_root.rstrip("/") + "/", "")


def how_to_name(context: Context, files: tuple[RepoPath, ...]) -> str:
    """What to do where nothing bears the names that were given."""
    there = next((path for path in files if path in context.now.entries), None)
    whole = f", or run its file: glideslope test {shlex.quote(there)}" if there is not None else ""
    return f"name the test as pytest does, path::name{whole}"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A case with what is thought of it."""

    case: Case
    ran: Ran
    known: bool
    denied: bool


class Outcome:
    """Puts the runs of a rung together."""

    def __init__(self, context: Context, config: PytestConfig, ran: tuple[Ran, ...], before: Before) -> None:
        self._context = context
        self._config = config
        self._ran = ran
        self._before = before
        self._failures = [
            _Failure(
                case,
                one,
                classify(context, one, case, before) is FailureClass.KNOWN,
                is_denied(context, one, case, before),
            )
            for one in ran
            for case in one.cases
        ]

    def rung(self, chosen: Selected, selection: Selection) -> ProjectRung:
        """The end of the rung."""
        state, reason, decisive, text = self._outcome()
        counts = self._counts(chosen, selection)
        summary = self._summary(chosen, selection, counts)
        return ProjectRung(
            state=state,
            reason=reason,
            summary="; ".join(part for part in (text, summary if self._any_told() else "") if part),
            diagnostics=tuple(self._diagnostics()),
            tests=counts,
            covered=covers(chosen),
            known_failures=tuple(sorted(failure.case.nodeid for failure in self._failures if failure.known)),
            exit_code=decisive.output.code,
            log_ref=decisive.output.log_ref,
            stderr_tail=stderr_tail(decisive.output, self._context.workspace_root)
            if state is RungState.DIED
            else None,
            next=self._next(state, reason, chosen, selection),
        )

    def _outcome(self) -> tuple[RungState, str, Ran, str]:
        """State, reason, the run that decided it, and a sentence where counts do not say it."""
        for state in (RungState.CANCELLED, RungState.DIED):
            for one in self._ran:
                if one.ending.state is state:
                    return state, one.ending.reason, one, one.ending.text
        late = next((one for one in self._ran if one.ending.reason == "timed_out"), None)
        red = [failure for failure in self._failures if self._is_red(failure)]
        if late is not None and self._before.timed_out:
            red = [failure for failure in red if failure.case is not late.ending.fault]
            if not red:
                text = f"{late.ending.text}, and so it does on the base"
                return RungState.INCONCLUSIVE, "timed_out", late, text
        if red:
            whole = next((failure.ran for failure in red if failure.ran.ending.reason), red[0].ran)
            text = without_root(self._context, whole.ending.text)
            return RungState.FAIL, whole.ending.reason, whole, text + hint_for(self._context, text)
        denied = next((failure.ran for failure in self._failures if failure.denied), None)
        if denied is not None:
            text = "a test wants the network, which is closed, and there is nothing to compare with"
            return RungState.INCONCLUSIVE, "network_denied", denied, text
        missing = next((one for one in self._ran if one.ending.reason == "tool_missing"), None)
        if missing is not None or not self._any_ran():
            one = missing or self._ran[0]
            return RungState.INCONCLUSIVE, one.ending.reason or "no_tests", one, one.ending.text
        return RungState.PASS, "", self._ran[0], ""

    def _is_red(self, failure: _Failure) -> bool:
        if failure.denied:
            return False
        return not failure.known or self._context.policy in _COUNTS_KNOWN_FAILURES

    def _any_ran(self) -> bool:
        return any(one.session.ran for one in self._ran) or bool(self._failures)

    def _any_told(self) -> bool:
        """Whether there is more to say than that a run failed as a whole."""
        faults = {id(one.ending.fault) for one in self._ran}
        other = any(id(failure.case) not in faults for failure in self._failures)
        return other or any(one.session.ran for one in self._ran)

    def _counts(self, chosen: Selected, selection: Selection) -> TestCounts:
        def total(word: str) -> int:
            return sum(one.session.counts.get(word, 0) for one in self._ran)

        totals = [one.session.total for one in self._ran]
        return TestCounts(
            selected=len(chosen.selected),
            units=len(chosen.units),
            total=None if None in totals else sum(found or 0 for found in totals),
            passed=total("passed"),
            failed=total("failed"),
            skipped=total("skipped"),
            errors=total("error"),
            xfailed=total("xfailed"),
            xpassed=total("xpassed"),
            failing=self._failing(),
            selection=selection,
        )

    def _failing(self) -> tuple[TestCase, ...]:
        """One entry per test: a test whose parts fail each by itself is named once, as new if any part is."""
        cases: dict[str, TestCase] = {}
        # What is wrong with a file of configuration is a finding there, and no test.
        tests = (failure for failure in self._failures if not self._is_configuration(failure))
        for case in map(self._test_case, tests):
            if case.nodeid not in cases or case.failure_class is FailureClass.NEW:
                cases[case.nodeid] = case
        return tuple(sorted(cases.values(), key=lambda case: (case.path, case.line, case.nodeid)))

    def _test_case(self, failure: _Failure) -> TestCase:
        case, one = failure.case, failure.ran
        path = relative(self._context, case.path) or file_of(self._context, one.session, case)
        return TestCase(
            nodeid=case.nodeid,
            path=path,
            line=case.line,
            message=self._message(case),
            outcome=TestOutcome.ERROR if case.errors else TestOutcome.FAILED,
            failure_class=FailureClass.KNOWN if failure.known else FailureClass.NEW,
            log_ref=one.output.log_ref,
        )

    def _message(self, case: Case) -> str:
        """What went wrong, and what helps where the snapshot lacks a module that a file wants to import."""
        if not case.collecting:
            return case.message
        return without_root(self._context, case.message) + hint_for(self._context, case.message)

    def _is_configuration(self, failure: _Failure) -> bool:
        return failure.case is failure.ran.ending.fault and bool(self._place(failure)[0])

    def _place(self, failure: _Failure) -> tuple[str, int]:
        """Where a fault is that has a place of its own; the line of an unknown option is looked for."""
        case = failure.case
        path, line = relative(self._context, case.path), case.line
        if failure.ran.ending.reason == "config_error":
            path = path or str(self._config.source or "")
            option = unknown_option(case.message).partition("=")[0]
            if option and not line:
                lines = read_text(self._context.now, path).splitlines()
                line = next((number for number, text in enumerate(lines, 1) if option in text), 0)
        return path, line

    def _diagnostics(self) -> Iterable[Diagnostic]:
        """Faults that have a place of their own: files that do not load, broken configuration."""
        for failure in self._failures:
            case = failure.case
            path, line = self._place(failure)
            if case.collecting and path:
                yield Diagnostic(
                    path=path,
                    line=line,
                    column=0,
                    end_line=line,
                    end_column=0,
                    severity=Severity.ERROR,
                    code=failure.ran.ending.reason or "collection_error",
                    source="pytest",
                    message=self._message(case),
                    state=FindingState.KNOWN if failure.known else FindingState.NEW,
                    blocking=self._is_red(failure),
                )

    def _summary(self, chosen: Selected, selection: Selection, counts: TestCounts) -> str:
        parts: list[str] = []
        if selection is Selection.STATIC:
            parts.append(f"{counts.selected} of {count_files(len(chosen.units))}")
        words = {
            "passed": counts.passed,
            "failed": counts.failed,
            "errors" if counts.errors != 1 else "error": counts.errors,
            "skipped": counts.skipped,
            "xfailed": counts.xfailed,
            "xpassed": counts.xpassed,
        }
        parts += [f"{count} {word}" for word, count in words.items() if count]
        known = sum(failure.known for failure in self._failures)
        if known:
            parts.append(f"{known} known failure" + ("" if known == 1 else "s"))
        dropped = self._dropped() if selection is not Selection.FULL else ()
        return ", ".join(parts) + (f" (without {', '.join(dropped)})" if dropped else "")

    def _dropped(self) -> tuple[str, ...]:
        """Options of the project's own that this run did not follow."""
        named = [name for one in self._ran for name in one.session.neutralised]
        has = self._context.interpreter.has
        if has("pytest-xdist") and self._config.mentions("-n", "--numprocesses"):
            named.append("-n")
        if has("pytest-cov") and self._config.mentions("--cov"):
            named.append("--cov")
        return tuple(dict.fromkeys(named))

    def _next(self, state: RungState, reason: str, chosen: Selected, selection: Selection) -> str | None:
        if reason == "network_denied":
            return _NETWORK if self._before.compared else f"{_COMPARE}; or {_NETWORK}"
        if state is RungState.FAIL and reason == "config_error":
            return self._correct()
        if state is RungState.FAIL and not self._before.compared:
            return _COMPARE
        if selection is Selection.EXPLICIT and reason == "no_tests":
            return how_to_name(self._context, ())
        return None

    def _correct(self) -> str | None:
        """What to do about the first configuration that pytest does not accept."""
        for failure in self._failures:
            path, line = self._place(failure)
            option = unknown_option(failure.case.message)
            if option and path:
                return f"take {option} out of {path}, or install the plug-in that knows it"
            if path and self._is_configuration(failure):
                return f"correct {path}:{line}" if line else f"correct {path}"
        return None
