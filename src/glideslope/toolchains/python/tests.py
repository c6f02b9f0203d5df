"""The scripts of the two test rungs.

Theory of operation. `test.full` runs pytest once, as the project's own CI would. `test.scoped`
runs the selected files: pytest is started as always, and a plugin object keeps everything else
from being collected, so what runs is what plain pytest would run of those files; options that end
a run early, repeat or shuffle are switched off and named. What fails is run again on the base, to
tell new failures from known ones; then the outcomes are put together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
from glideslope.ports.toolchain import Context, ProjectRung, Script
from glideslope.toolchains.python.comparison import (
    Before,
    Ran,
    classify,
    file_of,
    is_denied,
    on_base,
    relative,
)
from glideslope.toolchains.python.endings import Case, progress, stderr_tail
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.runs import (
    neutral_options,
    pytest_command,
    selection_commands,
    unable,
    unittest_command,
)
from glideslope.toolchains.python.selection import Selected, select, units_of
from glideslope.toolchains.python.units import PytestConfig, read_config

__all__ = ["FULL", "Selected", "covers", "full", "progress", "scoped", "select"]

FULL = "full"
"""What `covered` says of a run that left no test file out."""

_COUNTS_KNOWN_FAILURES = (VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY)


def scoped(context: Context, memo: Memo) -> Script:
    """Runs the test files that the change reaches, or the tests that were named.

    Args:
        context: What to verify.
        memo: Facts of source files, kept between runs.

    Returns:
        The script.
    """
    config = read_config(context.now, context.project)
    if context.nodeids:
        return (yield from _explicit(context, config))
    graph = ImportGraph.of(context.now, context.projects, memo, context.base)
    chosen = select(context, graph)
    cannot = unable(context, chosen.selected or chosen.units)
    if cannot is not None:
        return cannot
    if not chosen.selected:
        return _nothing(context, chosen)
    outputs = yield selection_commands(context, config, chosen, _files)
    ran = tuple(Ran.of(output) for output in outputs)
    before = yield from on_base(context, config, ran)
    return _Verdict(context, config, ran, before).rung(chosen, Selection.STATIC)


def full(context: Context, memo: Memo) -> Script:
    """Runs all tests in one invocation, as the project's own CI would.

    Args:
        context: What to verify.
        memo: Not used; all scripts have one shape.

    Returns:
        The script.
    """
    config = read_config(context.now, context.project)
    units = units_of(context, config)
    cannot = unable(context, units)
    if cannot is not None:
        return cannot
    if context.interpreter.has("pytest"):
        command = pytest_command(context, ())
    elif units:
        command = unittest_command(context, units)
    else:
        return _nothing(context, Selected(selected=(), units=()))
    outputs = yield (replace(command, label="all tests"),)
    ran = (Ran.of(outputs[0]),)
    before = yield from on_base(context, config, ran)
    return _Verdict(context, config, ran, before).rung(Selected(selected=units, units=units), Selection.FULL)


def _explicit(context: Context, config: PytestConfig) -> Script:
    """Runs the tests that were named; those of other projects are left to them."""
    prefix = f"{context.project.root}/" if context.project.root else ""
    own = [nodeid for nodeid in context.nodeids if context.project.holds(nodeid.split("::")[0])]
    nodeids = tuple(nodeid.removeprefix(prefix) for nodeid in own or context.nodeids)
    files = tuple(sorted({RepoPath(prefix + nodeid.split("::")[0]) for nodeid in nodeids}))
    cannot = unable(context, files)
    if cannot is not None:
        return cannot
    if context.interpreter.has("pytest"):
        command = pytest_command(context, (*neutral_options(context, config), *nodeids), steady=True)
    else:
        command = unittest_command(context, (), names=nodeids)
    outputs = yield (
        replace(command, label=f"{len(nodeids)} chosen {'test' if len(nodeids) == 1 else 'tests'}"),
    )
    ran = (Ran.of(outputs[0]),)
    if ran[0].ending.reason == "not_found":
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="unknown_test",
            summary=ran[0].ending.text,
            next="name the test as pytest does: path::name",
        )
    before = yield from on_base(context, config, ran)
    chosen = Selected(selected=files, units=units_of(context, config))
    rung = _Verdict(context, config, ran, before).rung(chosen, Selection.EXPLICIT)
    return replace(rung, covered=_digest(("explicit", *sorted(nodeids))))


def _nothing(context: Context, chosen: Selected) -> ProjectRung:
    """No test file is reached: never a pass."""
    if not chosen.units:
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="no_tests",
            summary=f"project {context.project.name} has no tests",
            tests=TestCounts(selected=0, units=0, total=0),
        )
    return ProjectRung(
        state=RungState.INCONCLUSIVE,
        reason="no_covering_test",
        summary=f"none of {_files(len(chosen.units))} is reached by the change",
        tests=TestCounts(selected=0, units=len(chosen.units)),
        covered=_digest(()),
        next="glideslope verify ci_parity",
    )


def covers(chosen: Selected) -> str:
    """What running a selection covers: `FULL`, or a digest of it."""
    return FULL if chosen.everything else _digest(chosen.selected)


def _digest(parts: Iterable[str]) -> str:
    text = "\n".join(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _files(count: int) -> str:
    return f"{count} test file" + ("" if count == 1 else "s")


@dataclass(frozen=True, slots=True)
class _Failure:
    """A case with what is thought of it."""

    case: Case
    ran: Ran
    known: bool
    denied: bool


class _Verdict:
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
            summary="; ".join(part for part in (text, summary if self._any_ran() else "") if part),
            diagnostics=tuple(self._diagnostics()),
            tests=counts,
            covered=covers(chosen),
            known_failures=tuple(sorted(failure.case.nodeid for failure in self._failures if failure.known)),
            exit_code=decisive.output.code,
            log_ref=decisive.output.log_ref,
            stderr_tail=stderr_tail(decisive.output) if state is RungState.DIED else None,
            next=self._next(state, reason),
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
            return RungState.FAIL, whole.ending.reason, whole, whole.ending.text
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
        for case in map(self._test_case, self._failures):
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
            message=case.message,
            outcome=TestOutcome.ERROR if case.errors else TestOutcome.FAILED,
            failure_class=FailureClass.KNOWN if failure.known else FailureClass.NEW,
            log_ref=one.output.log_ref,
        )

    def _diagnostics(self) -> Iterable[Diagnostic]:
        """Faults that have a place of their own: files that do not load, broken configuration."""
        for failure in self._failures:
            case = failure.case
            path = relative(self._context, case.path)
            if case.collecting and path:
                yield Diagnostic(
                    path=path,
                    line=case.line,
                    column=0,
                    end_line=case.line,
                    end_column=0,
                    severity=Severity.ERROR,
                    code=failure.ran.ending.reason or "collection_error",
                    source="pytest",
                    message=case.message,
                    state=FindingState.KNOWN if failure.known else FindingState.NEW,
                    blocking=self._is_red(failure),
                )

    def _summary(self, chosen: Selected, selection: Selection, counts: TestCounts) -> str:
        parts: list[str] = []
        if selection is Selection.STATIC:
            parts.append(f"{counts.selected} of {_files(len(chosen.units))}")
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

    def _next(self, state: RungState, reason: str) -> str | None:
        if reason == "network_denied":
            return 'glideslope verify --base REV, or network = "host" in your own settings file'
        if state is RungState.FAIL and not self._before.compared:
            return "glideslope verify --base REV"
        return None
