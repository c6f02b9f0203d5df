"""What a run of tests came to, read from its report stream; the exit status only completes it.

A run whose stream has no `finish` record did not come to its end, whatever its status says:
a test ended the process, or something outside did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glideslope.model.result import RungState
from glideslope.ports.toolchain import Output

_SIGNALS = {
    2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip

_UNREACHABLE = re.compile(
    r"Network is unreachable|Name or service not known|Temporary failure in name resolution"
    r"|nodename nor servname|No address associated with hostname|ENETUNREACH|EAI_AGAIN"
    r"|getaddrinfo failed|NameResolutionError|No route to host|Could not resolve host"
)

_LACKS_COVERAGE = re.compile(r"^(?:FAIL|ERROR:?) ?(?:Required test coverage|Coverage failure).*$", re.M)
_CONFTEST = re.compile(
    r"^(?:ImportError while loading conftest '(?P<path>[^']+)'|(?P<other>\S+conftest\.py):)", re.M
)
_AT = re.compile(
    r"^(?:E +)?(?:File \"(?P<file>[^\"]+)\", line (?P<n>\d+)|(?P<path>[^\s:]+):(?P<m>\d+): )", re.M
)
_SAYS = re.compile(r"^E +(\S.*)$", re.M)
_USAGE = re.compile(r"^(?:ERROR: (?!usage: )|.*?: error: )(.*)$", re.M)
_IN_FILE = re.compile(
    r"^(?P<path>\S+\.(?:toml|ini|cfg)):(?:(?P<line>\d+):)? ?(?P<text>.*)$|at line (?P<at>\d+)"
)
_NOT_FOUND = re.compile(r"^(?:file or directory )?not found: |no tests? (?:were )?matched|no match in any of")
_UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (\S+)")
_STACK = re.compile(r"^(?:Current thread|Thread|Stack) .*\(most recent call first\):$", re.M)
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line \d+')
_MOST_FRAMES = 4  # beside the error itself; a card has room for five lines
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test that failed, or a file that could not be collected. Paths as the run saw them."""

    nodeid: str
    path: str  # absolute where known, else ""
    line: int
    message: str
    errors: bool = False  # broke outside the test's own body
    collecting: bool = False
    detail: str = ""
    file: str = ""  # the test file, absolute, where the node id does not tell

    @property
    def unreachable(self) -> bool:
        """Whether it fails because something beyond this machine could not be reached."""
        return bool(_UNREACHABLE.search(self.message) or _UNREACHABLE.search(self.detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One report stream, folded."""

    started: bool = False
    finished: bool = False
    rootdir: str = ""
    neutralised: tuple[str, ...] = ()
    total: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)  # as pytest's last line counts
    failing: tuple[Case, ...] = ()  # in the order of their endings
    running: tuple[str, ...] = ()  # begun and not ended
    ended: frozenset[str] = frozenset()  # node ids of tests that ended
    trouble: str = ""  # what pytest said of an internal error or an interruption

    @property
    def ran(self) -> bool:
        """Whether any test ended."""
        return bool(self.ended)


def read_session(lines: Iterable[bytes]) -> Session:
    """Folds the lines of a report stream; lines that are no records are passed over."""
    records = [record for line in lines if (record := _record(line)) is not None]
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(str(record.get("kind")), []).append(record)
    tests, broken = by_kind.get("test", []), by_kind.get("collect_error", [])
    counts: dict[str, int] = {}
    for record in tests:
        for outcome in record.get("outcomes", ()):
            counts[outcome] = counts.get(outcome, 0) + 1
    if broken:
        counts["error"] = counts.get("error", 0) + len(broken)
    first = (by_kind.get("session") or [{}])[0]
    totals = [
        record["total"] for record in by_kind.get("collected", ()) if isinstance(record.get("total"), int)
    ]
    said = [
        str(record.get("message", ""))
        for kind in ("internal_error", "interrupt")
        for record in by_kind.get(kind, ())
    ]
    ended = frozenset(str(record.get("nodeid")) for record in tests)
    begun = dict.fromkeys(str(record.get("nodeid")) for record in by_kind.get("start", ()))
    return Session(
        started="session" in by_kind,
        finished="finish" in by_kind,
        rootdir=str(first.get("rootdir", "")),
        neutralised=tuple(first.get("neutralised", ())),
        total=max(totals, default=None),
        counts=counts,
        failing=tuple(
            [_case(record, collecting=True) for record in broken]
            + [_case(record) for record in tests if {"failed", "error"} & set(record.get("outcomes", ()))]
        ),
        running=tuple(nodeid for nodeid in begun if nodeid not in ended),
        ended=ended,
        trouble=said[0] if said else "",
    )


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # the latter for brackets without end
        return None
    return found if isinstance(found, dict) else None


def _case(record: Mapping[str, Any], *, collecting: bool = False) -> Case:
    outcomes = record.get("outcomes", ())
    return Case(
        nodeid=str(record.get("nodeid") or record.get("path") or ""),
        path=str(record.get("path") or ""),
        line=int(record.get("line") or 0),
        message=str(record.get("message", "")),
        errors=collecting or "failed" not in outcomes,
        collecting=collecting,
        detail=str(record.get("detail", "")),
        file=str(record.get("file") or ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What one run came to. `fault` is the case of a run that failed without a failing test."""

    state: RungState
    reason: str = ""
    text: str = ""
    fault: Case | None = None


def read_ending(output: Output, session: Session) -> Ending:
    """Decides what a run of tests came to.

    Args:
        output: How the process ended.
        session: Its report stream.

    Returns:
        pass, fail, inconclusive, died or cancelled, and why.
    """
    if output.outcome == "timed_out":
        return _timed_out(output, session)
    if output.outcome == "signalled":
        signal = _SIGNALS.get(output.signal or 0, f"signal {output.signal}")
        return _died("signal", f"the run was ended by {signal}{_during(session)}")
    if output.outcome == "cancelled":
        return Ending(state=RungState.CANCELLED, reason="cancelled", text="cancelled")
    if output.outcome != "exited":
        said = output.detail or {"oom": "out of memory"}.get(output.outcome, "the host was lost")
        return _died(output.outcome, f"{said}{_during(session)}")
    if not session.started:
        return _never_started(output)
    if not session.finished:
        return _died("exit", f"the process ended by itself with status {output.code}{_during(session)}")
    return _finished(output, session)


def _finished(output: Output, session: Session) -> Ending:
    code = output.code
    if code == 3:
        last = session.trouble.strip().rpartition("\n")[2]
        return _died("internal_error", f"pytest failed inside: {last}" if last else "pytest failed inside")
    if code == 4:
        return _configuration(output)
    collecting = [case for case in session.failing if case.collecting]
    if collecting:
        first = collecting[0]
        return Ending(
            state=RungState.FAIL, reason="collection_error", text=f"cannot be collected: {first.message}"
        )
    if session.failing:
        return Ending(state=RungState.FAIL)
    if code == 5:
        return Ending(state=RungState.INCONCLUSIVE, reason="no_tests", text="no test was found to run")
    if code == 2 or session.trouble:
        return _fault("interrupted", session.trouble or "the run was interrupted")
    if code:
        lacking = _LACKS_COVERAGE.search(_text(output.stdout) + "\n" + _text(output.stderr))
        if lacking:
            return _fault("coverage", lacking[0].strip())
        return _fault("exit_status", f"every test passed, but the run ended with status {code}")
    return Ending(state=RungState.PASS)


def _never_started(output: Output) -> Ending:
    """A run that ended before pytest had a session."""
    said = _text(output.stderr)
    if output.code == 4 or _CONFTEST.search(said):
        return _configuration(output)
    if "No module named 'pytest'" in said or "No module named pytest" in said:
        return Ending(state=RungState.INCONCLUSIVE, reason="tool_missing", text="pytest cannot be imported")
    if output.code == 0:
        return _died("exit", "the process ended with status 0 before any test")
    last = said.strip().rpartition("\n")[2]
    return _died("exit", f"the process ended with status {output.code} before any test: {last}")


def _configuration(output: Output) -> Ending:
    """Status 4: the snapshot's conftest or configuration is at fault, or our own arguments."""
    said = _text(output.stderr)
    conftest = _CONFTEST.search(said)
    if conftest:
        own = conftest["path"] or conftest["other"]
        spots = [(m["file"] or m["path"], int(m["n"] or m["m"])) for m in _AT.finditer(said)]
        at = [line for path, line in spots if own.endswith(path.removeprefix("./"))]
        message = (_SAYS.findall(said) or [said.strip().rpartition("\n")[2]])[-1]
        return _fault("config_error", message, path=own, line=at[-1] if at else 0)
    usage = _USAGE.search(said)
    text = usage[1].strip() if usage else said.strip().rpartition("\n")[2]
    if _NOT_FOUND.search(text):
        return Ending(state=RungState.DIED, reason="not_found", text=text)
    place = _IN_FILE.search(text)
    path, line = "", 0
    if place:
        # Only TOML says where in this way, and pytest before 8 does not say in which file.
        path, line = place["path"] or "pyproject.toml", int(place["line"] or place["at"] or 0)
        if place["path"]:
            at_line = re.search(r"at line (\d+)", text)
            line = line or (int(at_line[1]) if at_line else 0)
    inifile = re.search(r"^ *inifile: (?!None$)(.+)$", said, re.M)
    return _fault("config_error", text, path=path or (inifile[1] if inifile else ""), line=line)


def unknown_option(text: str) -> str:
    """The first option of a usage error that pytest does not know; "" where that is not the error."""
    found = _UNKNOWN_OPTION.search(text)
    return found[1] if found else ""


def _fault(reason: str, message: str, *, path: str = "", line: int = 0) -> Ending:
    case = Case(nodeid=path or reason, path=path, line=line, message=message, errors=True, collecting=True)
    return Ending(state=RungState.FAIL, reason=reason, text=message, fault=case)


def _timed_out(output: Output, session: Session) -> Ending:
    limit = "printed nothing for too long" if output.limit == "idle" else "took too long"
    text = f"the run {limit}{_during(session)}"
    nodeid = session.running[-1] if session.running else ""
    case = Case(nodeid=nodeid or "timed_out", path="", line=0, message=text, errors=True)
    return Ending(state=RungState.FAIL, reason="timed_out", text=text, fault=case)


def _died(reason: str, text: str) -> Ending:
    return Ending(state=RungState.DIED, reason=reason, text=text)


def _during(session: Session) -> str:
    if session.running:
        return " during " + ", ".join(session.running[-3:])
    return "" if session.started else " before any test"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def stderr_tail(output: Output, root: str) -> str | None:
    """What matters of what a process wrote to standard error, for people.

    Args:
        output: How the process ended.
        root: The folder that project code lies in, as the process saw it.

    Returns:
        Where the interpreter said at its death where it was: that, from the innermost frame of
        project code. Else the last of it; None where there is nothing.
    """
    return _dying_words(_text(output.stderr), root) or _text(output.stderr[-_TAIL_BYTES:]).strip() or None


def _dying_words(said: str, root: str) -> str:
    """The head of a fatal error and its innermost frames of the project; "" where there is none."""
    at = said.rfind("Fatal Python error: ")
    current = said.find("Current thread ", at)
    stack = _STACK.search(said, current if current >= 0 else at) if at >= 0 else None
    if stack is None:
        return ""
    frames: list[str] = []
    for line in said[stack.end() :].lstrip("\n").splitlines():
        if not line.startswith("  "):
            break  # another thread, or what is loaded
        frames.append(line)
    own = [line for line in frames if _is_own(line, root.rstrip("/") + "/")]
    return "\n".join([said[at:].partition("\n")[0], *(own or frames)[:_MOST_FRAMES]])


def _is_own(line: str, root: str) -> bool:
    frame = _FRAME.match(line)
    return frame is not None and frame["path"].startswith(root) and "/site-packages/" not in frame["path"]


def progress(line: bytes) -> str | None:
    """A short sentence about a record as it arrives; None where it says nothing new."""
    record = _record(line)
    if record is None or record.get("kind") != "start":
        return None
    at, bad = record.get("number", 0), record.get("failed", 0)
    file = str(record.get("nodeid", "")).split("::")[0]
    tests = "1 test" if at == 1 else f"{at} tests"
    return f"{tests}, {bad} failed, now {file}" if bad else f"{tests}, now {file}"
