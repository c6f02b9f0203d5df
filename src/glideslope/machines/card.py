"""The Verify Epoch block: one run as text, the same for people and agents.

States come from the enums and never from text: a summary may say "0 errors" or "passed" and means
nothing here. What is not known is shown as a dash, never as nothing or zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from glideslope.errors import EnvironmentBroken, StateUnavailable, SubstrateUnavailable
from glideslope.machines.ladder import KNOWN_FAILURES, counts_when_known
from glideslope.machines.recovery import CAUSE as ENGINE_DIED
from glideslope.model.result import (
    Diagnostic,
    FailureClass,
    FindingState,
    RungResult,
    RungState,
    StaleReason,
    TestCase,
    Verdict,
)
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import RUNGS, Rung
from glideslope.model.timeslice import TimeReport

LINES_AT_MOST = 20  # findings, or failing tests, shown below one rung
TAIL_LINES = 5  # of what a died process wrote last
_INDENT = "      "


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The marks of one kind of terminal."""

    states: Mapping[RungState, str]
    stale: str
    dot: str  # between parts of a line
    dash: str  # not known, not required
    more: str


UNICODE = Glyphs(
    states={
        RungState.PASS: "✓",
        RungState.RUNNING: "⟳",
        RungState.FAIL: "✗",
        RungState.CANCELLED: "⊘",
        RungState.DIED: "☠",
        RungState.SKIPPED: "—",
        RungState.NOT_PERMITTED: "—",
        RungState.PENDING: "·",
        RungState.INCONCLUSIVE: "?",
    },
    stale="⚠",
    dot="·",
    dash="—",
    more="…",
)
ASCII = Glyphs(
    states={
        RungState.PASS: "+",
        RungState.RUNNING: ">",
        RungState.FAIL: "x",
        RungState.CANCELLED: "/",
        RungState.DIED: "#",
        RungState.SKIPPED: "-",
        RungState.NOT_PERMITTED: "-",
        RungState.PENDING: ".",
        RungState.INCONCLUSIVE: "?",
    },
    stale="!",
    dot="|",
    dash="-",
    more="...",
)


def view_epoch(
    run: Run,
    *,
    current: bool = True,
    glyphs: Glyphs = UNICODE,
    show_time: bool = True,
    show_all: bool = False,
) -> tuple[str, ...]:
    """Draws a run, ended or not.

    Args:
        run: The run.
        current: Whether the workspace still holds what the run is about.
        glyphs: `UNICODE` or `ASCII`.
        show_time: Whether to say where the time went.
        show_all: Whether to list every finding and failing test, also those that decide nothing.

    Returns:
        Lines without line ends: header, snapshot, rungs with what they found, alerts, run, time, status.
    """
    return (
        _header(run, glyphs),
        _snapshot(run, glyphs),
        *(line for rung in _rungs(run) for line in _rung_lines(run, rung, glyphs, show_all)),
        *_died_alert(run, glyphs),
        *_stale_alert(run, current, glyphs),
        *_next_step(run, current),
        *((f"Run {_short(run)}",) if run.epoch else ()),
        *((_time(run.time, glyphs),) if show_time else ()),
        view_status(run, current=current, glyphs=glyphs),
    )


def view_status(run: Run, *, current: bool = True, glyphs: Glyphs = UNICODE) -> str:
    """The last line of the block: verdict, policy, required and reached rung."""
    policy = f" ({run.policy.value})" if run.action == "verify" else ""
    parts = [f"{_verdict(run, current)}{policy}"]
    if run.required_rung is not None:
        parts.append(f"required {run.required_rung.value}")
    parts.append(f"reached {run.max_rung_reached.value if run.max_rung_reached else 'none'}")
    if run.cancelled is not None and run.verdict is Verdict.CANCELLED:
        parts.append(f"reason {run.cancelled.value}")
    parts += [why for why in (_why(run, current, glyphs), _first_line(run.note)) if why]
    return f"Status: {_joined(parts, glyphs)}"


def _why(run: Run, current: bool, glyphs: Glyphs) -> str:
    """Why it is neither green nor red, in words; nothing where the rungs or the note say it."""
    if run.stale is not None:
        return _why_stale(run.stale, glyphs)
    if not current and run.verdict is not None:
        return OTHER_CONTENT
    state = _BEHIND.get(run.verdict) if run.verdict else None
    if run.verdict is Verdict.INCONCLUSIVE and all(one.state is RungState.SKIPPED for one in run.rungs):
        return f"nothing changed against {run.base_snapshot or glyphs.dash}" if run.rungs else ""
    rung = next((result for result in run.rungs if result.state is state), None)
    if rung is None:
        return ""
    return (
        f"{rung.rung.value}: {_first_line(rung.reason.replace('_', ' ') or rung.summary) or rung.state.value}"
    )


OTHER_CONTENT = "the workspace holds other content now"
_BEHIND = {
    Verdict.INCONCLUSIVE: RungState.INCONCLUSIVE,
    Verdict.REFUSED: RungState.NOT_PERMITTED,
    Verdict.DIED: RungState.DIED,
}


def _next_step(run: Run, current: bool) -> Iterator[str]:
    """What to do, where no alert has said it."""
    retry = run.stale is not None or not current or run.verdict is Verdict.DIED
    said = {result.next for result in run.rungs if result.state is not RungState.PASS}
    if run.next and run.verdict is not None and not retry and run.next not in said:
        yield f"next: {run.next}"


def _verdict(run: Run, current: bool) -> str:
    """A verdict that no longer speaks of the workspace is not shown as if it did."""
    if run.verdict is None:
        return "running" if run.stale is None else "stale"
    if current or run.verdict is Verdict.STALE:
        return run.verdict.value
    return f"stale, was {run.verdict.value}"


def _header(run: Run, glyphs: Glyphs) -> str:
    parts = [run.action.capitalize()]
    if run.action == "verify":
        parts.append(run.policy.value)
    parts.append(f"epoch {run.epoch[:4]}" if run.epoch else f"run {_short(run)}")
    return _joined(parts, glyphs)


def _short(run: Run) -> str:
    """Enough of its id for every command that takes one."""
    return run.id[:8]


def _snapshot(run: Run, glyphs: Glyphs) -> str:
    parts = [f"snapshot {run.snapshot or glyphs.dash}"]
    if run.git_head:
        parts.append(run.git_head[:7])
    if run.dirty_paths:
        parts.append(f"{_counted(len(run.dirty_paths), 'file')} dirty")
    return _joined(parts, glyphs)


def _rungs(run: Run) -> Iterator[tuple[Rung, RungResult | None]]:
    """The rungs to show: a verify shows all five, other actions those they run."""
    found = {result.rung: result for result in run.rungs}
    for rung in RUNGS:
        if rung in found or run.action == "verify":
            yield rung, found.get(rung)


def _rung_lines(
    run: Run, shown: tuple[Rung, RungResult | None], glyphs: Glyphs, show_all: bool
) -> Iterator[str]:
    rung, result = shown
    if result is None:
        yield _rung_line(glyphs.dash, rung, None, _says_absent(run, rung))
        return
    yield _rung_line(glyphs.states[result.state], rung, result.duration_ms, _says(run, result, glyphs))
    most = None if show_all else LINES_AT_MOST
    findings = result.diagnostics if show_all else _deciding(result)
    yield from _limited([_finding(found) for found in findings], glyphs, most)
    failing = result.tests.failing if result.tests else ()
    yield from _limited([_test(test) for test in failing], glyphs, most)
    if result.state is RungState.PASS:
        return
    if result.state in _WITH_HINTS and (hidden := len(result.diagnostics) - len(findings)):
        verb = "decides" if hidden == 1 else "decide"
        more = f"{_counted(hidden, 'more finding')} that {verb} nothing"
        yield f"{_INDENT}{more}: glideslope run {_short(run)} --all"
    if result.state in _WITH_HINTS and result.log_ref:
        yield f"{_INDENT}log: glideslope log {result.log_ref}"
    if result.next is not None:
        yield f"{_INDENT}next: {result.next}"


_WITH_HINTS = frozenset({RungState.FAIL, RungState.DIED})


def _says_absent(run: Run, rung: Rung) -> str:
    """Of a rung that no result speaks of: outside the plan, or a run that ended before it was planned."""
    if run.verdict is None and not run.rungs:
        return "not planned yet"
    height = run.required_rung.height if run.required_rung else -1
    return "not reached" if not run.rungs or rung.height <= height else "not required"


def _rung_line(glyph: str, rung: Rung, duration_ms: int | None, text: str) -> str:
    took = "" if duration_ms is None else _seconds(duration_ms)
    return f"  {glyph} {rung.value:<18}{took:>6}   {text}".rstrip()


def _says(run: Run, result: RungResult, glyphs: Glyphs) -> str:
    parts = [_first_line(result.summary), result.reason.replace("_", " ")]
    match result.state:
        case RungState.PASS if result.cached_from is not None:
            parts.append(f"cached from {result.cached_from[:8]}")
        case RungState.NOT_PERMITTED:
            parts.insert(0, "not permitted")
        case RungState.PENDING if run.verdict is not None:
            parts.insert(0, "not reached")
        case RungState.RUNNING | RungState.CANCELLED | RungState.DIED | RungState.INCONCLUSIVE:
            parts.insert(0, result.state.value)
    return _joined([part for part in parts if part], glyphs)


def _deciding(result: RungResult) -> Sequence[Diagnostic]:
    """The findings a rung did not pass because of; none below a pass."""
    if result.state is RungState.PASS:
        return ()
    if result.state is RungState.FAIL and result.reason == KNOWN_FAILURES:
        return [found for found in result.diagnostics if counts_when_known(found)]
    return [found for found in result.diagnostics if found.blocking and found.state is FindingState.NEW]


def _finding(found: Diagnostic) -> str:
    mark = "" if found.state is FindingState.NEW else f" ({found.state.value})"
    spot = [found.line, found.column] if found.line and found.column else [found.line] if found.line else []
    place = ":".join([found.path, *map(str, spot)])
    return f"{place}: {found.severity.value} {found.code} {_first_line(found.message)}{mark}"


def _test(test: TestCase) -> str:
    """The node id whole, and the line; the path only where it is not that of the node id."""
    place = "" if test.nodeid.partition("::")[0] == test.path else test.path
    line = (f"{place}:{test.line}" if place else f"line {test.line}") if test.line else place
    said = _first_line(test.message)
    mark = "" if test.failure_class is FailureClass.NEW else f" ({test.failure_class.value})"
    return f"{test.nodeid}{f', {line}' if line else ''}{f': {said}' if said else ''}{mark}"


def _limited(lines: Sequence[str], glyphs: Glyphs, most: int | None) -> Iterator[str]:
    for line in lines[:most]:
        yield _INDENT + line
    if most is not None and len(lines) > most:
        yield f"{_INDENT}{glyphs.more} and {len(lines) - most} more"


def _died_alert(run: Run, glyphs: Glyphs) -> Iterator[str]:
    """Says that the code was not judged, and where in the code to look all the same."""
    died = next((result for result in run.rungs if result.state is RungState.DIED), None)
    if died is None and run.verdict is not Verdict.DIED:
        return
    yield f"{glyphs.states[RungState.DIED]} The environment died; this says nothing about the code."
    if died is not None and died.reason not in _NEVER_THE_CODE:
        yield "  If it was the code: import-time code, a crash in a C extension, or a plugin loop."
    for line in _tail(died):
        yield f"{_INDENT}{line}"
    yield f"  Retry: {_retry(run)}"


# What broke on our side, before a tool could.
_NEVER_THE_CODE = frozenset(
    {ENGINE_DIED, *(kind.code for kind in (EnvironmentBroken, StateUnavailable, SubstrateUnavailable))}
)


def _tail(died: RungResult | None) -> Sequence[str]:
    text = died.stderr_tail if died is not None else None
    return (text or "").rstrip().splitlines()[-TAIL_LINES:]


def _stale_alert(run: Run, current: bool, glyphs: Glyphs) -> Iterator[str]:
    if run.stale is not None:
        why = _why_stale(run.stale, glyphs)
    elif not current:
        why = OTHER_CONTENT
    else:
        return
    yield f"{glyphs.stale} Not verified on the current snapshot: {why}."
    yield f"  Retry: {_retry(run)}"


_STALE_BECAUSE = {
    StaleReason.WRITE_IN_EPOCH: "something was written",
    StaleReason.ENVIRONMENT_CHANGED: "the environment changed",
    StaleReason.SUPERSEDED: "a newer run took over",
}


def _why_stale(stale: Staleness, glyphs: Glyphs) -> str:
    because = _STALE_BECAUSE[stale.reason]
    if not stale.paths:
        return because
    named = ", ".join(stale.paths[:3])
    rest = len(stale.paths) - 3
    return f"{because} to {named}" + (f" {glyphs.more} and {rest} more" if rest > 0 else "")


def _retry(run: Run) -> str:
    policy = f" {run.policy.value}" if run.action == "verify" else ""
    return run.next or f"glideslope {run.action}{policy}"


def _time(time: TimeReport | None, glyphs: Glyphs) -> str:
    reasoning = time.reasoning_ms if time else None
    environment = _phase("Environment", time.environment_ms if time else None, glyphs)
    if time is not None and time.overlapped_ms:
        environment += f" ({_seconds(time.overlapped_ms)} overlapped)"
    parts = [_phase("Reasoning", reasoning, glyphs), environment]
    if time is not None and time.blocked_ms is not None:
        parts.append(_phase("Blocked", time.blocked_ms, glyphs))
    return _joined(parts, glyphs)


def _phase(name: str, duration_ms: int | None, glyphs: Glyphs) -> str:
    return f"{name} {glyphs.dash if duration_ms is None else _seconds(duration_ms)}"


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f}s"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def _joined(parts: Iterable[str], glyphs: Glyphs) -> str:
    return f" {glyphs.dot} ".join(parts)
