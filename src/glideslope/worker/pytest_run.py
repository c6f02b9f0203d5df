"""Runs pytest as `python -m pytest` would, and streams what happens to a descriptor.

    python pytest_run.py --report-fd N [--only-from-stdin | --but-from-stdin] [--steady] -- PYTEST ARGUMENTS

The stream is one JSON object a line, each with a `kind`:

    session        pytest, rootdir, neutralised
    collected      total, deselected
    collect_error  nodeid, path, line, message, detail
    start          nodeid, number, failed (how many so far)
    test           nodeid, outcomes, ms; a failing one also path, line, message, detail
    internal_error, interrupt   message
    finish         exit, warnings, deselected
    exit           code; the last line of a run that came to its end

Options of our own:

    --only-from-stdin  collect only the files listed on standard input, ended by NUL, relative to
                       the current directory; everything else about collection stays as it is
    --but-from-stdin   collect all but the files and folders listed there; what a plug-in collects from
                       other files is kept, since nobody outside can tell what it depends on
    --steady           ignore options that end a run early or reorder it, and name those in `session`

The run must not be able to tell: no option, module, plugin name or warning is added, the script's
own folder leaves `sys.path`, `__main__` is pytest's, and the descriptor is moved out of the way.
"""

from __future__ import annotations

import os
import re
import sys
import types
from typing import Any, Callable, Iterator, Optional, TypeVar

Hook = TypeVar("Hook", bound=Callable[..., object])


def _load_stream() -> types.ModuleType:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream.py")
    module = types.ModuleType("stream")
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), module.__dict__)
    return module


stream: Any = _load_stream()


def _rendered(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - foreign code renders itself; a failure must not end the run
        return "(cannot be shown: %s)" % type(error).__name__


_AT = re.compile(
    r"^(?:E +)?(?:File \"(?P<file>[^\"]+)\", line (?P<n>\d+)|(?P<path>\S[^:\n]*\.\w+):(?P<m>\d+): )", re.M
)
_SAYS = re.compile(r"^E +(\S.*)$", re.M)
_NAMED = re.compile(r"^(?:E +)?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failed)\b.*)$", re.M)


def places(longrepr: Any) -> list[tuple[str, int]]:
    """Where a failure's traceback went, outermost first: pairs of path and line."""
    found = []
    chain = getattr(longrepr, "chain", None)
    tracebacks = [part[0] for part in chain] if chain else [getattr(longrepr, "reprtraceback", None)]
    for traceback in tracebacks:
        for entry in getattr(traceback, "reprentries", None) or ():
            spot = getattr(entry, "reprfileloc", None)
            if spot is not None:
                found.append((str(spot.path), int(spot.lineno)))
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        found.append((str(crash.path), int(crash.lineno)))
    return found


def places_in_text(text: str) -> list[tuple[str, int]]:
    """The same, from rendered text."""
    return [(m["file"] or m["path"], int(m["n"] or m["m"])) for m in _AT.finditer(text)]


def message_of(longrepr: Any, text: str) -> str:
    """One short sentence of what went wrong."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(stream.shortened(_rendered(crash.message), stream.MESSAGE_CHARS))
    said = _SAYS.findall(text)
    if said:
        return str(stream.shortened(said[-1], stream.MESSAGE_CHARS))
    named = _NAMED.findall(text)
    lines = [line for line in text.splitlines() if line.strip()]
    return str(stream.shortened(named[-1] if named else (lines[-1] if lines else ""), stream.MESSAGE_CHARS))


class _Failure:
    """What is kept of a failing report until its test has ended."""

    def __init__(self, path: Optional[str], line: int, message: str, detail: str) -> None:
        self.fields = {"path": path, "line": line, "message": message, "detail": detail}


class Recorder:
    """What the plugin does, free of pytest's hook markers."""

    def __init__(self, reporter: Any, start_folder: str) -> None:
        self.emit = reporter.emit
        self.start_folder = start_folder
        self.rootdir = start_folder
        self.stats: Any = None  # the terminal's own counters, where there is a terminal
        self.warnings = 0
        self.deselected = 0
        self.rendered = 0
        self.begun = 0
        self.failed = 0
        self.open: dict[str, tuple[list[str], float, Optional[_Failure]]] = {}
        self._abspath = os.path.abspath
        self._join = os.path.join
        self._exists = os.path.exists

    def failure(self, location: Any, longrepr: Any) -> _Failure:
        """Describes a failing report. Its place is in the test file where the traceback goes there."""
        own = self._join(self.rootdir, location[0]) if location else None
        crash = getattr(longrepr, "reprcrash", None)
        wanted = self.rendered < stream.RENDERED
        self.rendered += 1
        text = _rendered(longrepr) if wanted or crash is None else ""
        spots = places(longrepr) or places_in_text(text)
        absolute = [(self._abspath(self._join(self.start_folder, path)), line) for path, line in spots]
        line = (location[1] or 0) + 1 if location and location[1] is not None else 0
        path = own
        within = [found for found in absolute if found[0] == own]
        if within:
            line = within[-1][1]
        elif path is None and absolute:
            path, line = absolute[-1]
        detail = stream.shortened(text, stream.DETAIL_CHARS) if wanted else ""
        return _Failure(path, line, message_of(longrepr, text), detail)

    def category(self, report: Any) -> str:
        """The word under which the terminal counts a report; "" where it is not counted."""
        for word, reports in (self.stats or {}).items():
            if reports and reports[-1] is report:
                return str(word)
        if self.stats is not None:
            return ""
        if hasattr(report, "wasxfail") and report.outcome in ("skipped", "passed"):
            return "xfailed" if report.skipped else "xpassed"
        if report.failed:
            return "error" if report.when in ("setup", "teardown", "collect") else "failed"
        if report.passed and hasattr(report, "context"):
            return ""  # the part of a test that a subtest is counts only where it fails
        return "" if report.passed and report.when != "call" else str(report.outcome)

    def add(self, report: Any) -> None:
        """Takes a report of one phase of a test."""
        outcomes, seconds, failure = self.open.get(report.nodeid) or ([], 0.0, None)
        word = self.category(report)
        if word:
            outcomes.append(word)
        if word in ("failed", "error") and failure is None:
            failure = self.failure(report.location, report.longrepr)
        self.open[report.nodeid] = (outcomes, seconds + getattr(report, "duration", 0.0), failure)

    def close(self, nodeid: str) -> None:
        """Sends what a test came to, once nothing more will be heard of it."""
        ended = self.open.pop(nodeid, None)
        if ended is None:
            return
        outcomes, seconds, failure = ended
        self.failed += failure is not None
        fields = failure.fields if failure else {}
        self.emit("test", nodeid=nodeid, outcomes=outcomes, ms=int(seconds * 1000), **fields)

    def collect_error(self, report: Any) -> None:
        """Sends a file that could not be collected, with the place inside the project if there is one."""
        text = _rendered(report.longrepr)
        own = self._abspath(self._join(self.rootdir, report.nodeid.split("::")[0])) if report.nodeid else None
        spots = places(report.longrepr) or places_in_text(text)
        absolute = [(self._abspath(self._join(self.start_folder, path)), line) for path, line in spots]
        inside = [spot for spot in absolute if spot[0].startswith(self._join(self.start_folder, ""))]
        path, line = (inside or absolute or [(own or self.start_folder, 0)])[-1]
        self.emit(
            "collect_error",
            nodeid=report.nodeid,
            path=path,
            line=line,
            message=message_of(report.longrepr, text),
            detail=stream.shortened(text, stream.DETAIL_CHARS),
        )


# Options that end a run early, leave tests out, repeat or shuffle them: how each is switched off.
_STEADY: tuple[tuple[str, object, str], ...] = (
    ("maxfail", 0, "--maxfail"),
    ("lf", False, "--lf"),
    ("failedfirst", False, "--ff"),
    ("newfirst", False, "--nf"),
    ("stepwise", False, "--sw"),
    ("stepwise_skip", False, "--sw-skip"),
    ("reruns", 0, "--reruns"),
    ("random_order_enabled", False, "--random-order"),
)
_UNSET = "default:"  # how pytest-random-order marks a value that nobody gave


def steady(options: Any) -> list[str]:
    """Switches such options off.

    Returns:
        Those that were on, as a user would write them.
    """
    switched = []
    for name, off, shown in _STEADY:
        if getattr(options, name, None):
            setattr(options, name, off)
            switched.append(shown)
    for name, value in (("random_order_bucket", "module"), ("random_order_seed", "1")):
        if not str(getattr(options, name, _UNSET)).startswith(_UNSET):
            setattr(options, name, _UNSET + value)
            switched.append("--" + name.replace("_", "-"))
    # On wherever pytest-randomly is installed, so it is nothing that somebody asked for.
    if getattr(options, "randomly_reorganize", None):
        options.randomly_reorganize = False
    return switched


def plugin_for(
    pytest: Any,
    recorder: Recorder,
    selection: Optional[tuple[set[str], set[str]]],
    keep_steady: bool,
    all_but: bool = False,
) -> object:
    """Builds the plugin object around a recorder."""
    emit = recorder.emit

    def hook(first: bool = False, last: bool = False, optional: bool = False) -> Callable[[Hook], Hook]:
        def mark(function: Hook) -> Hook:
            pytest.hookimpl(tryfirst=first, trylast=last, optionalhook=optional)(function)
            return function

        return mark

    neutralised: list[str] = []

    class Plugin:
        @hook(first=True)
        def pytest_cmdline_main(self, config: Any) -> None:
            if keep_steady:
                neutralised.extend(steady(config.option))

        @hook(last=True)
        def pytest_sessionstart(self, session: Any) -> None:
            recorder.rootdir = str(session.config.rootpath)
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            recorder.stats = getattr(terminal, "stats", None)
            emit("session", pytest=pytest.__version__, rootdir=recorder.rootdir, neutralised=neutralised)

        def pytest_deselected(self, items: Any) -> None:
            recorder.deselected += len(items)

        @hook(last=True)
        def pytest_collection_finish(self, session: Any) -> None:
            emit("collected", total=len(session.items), deselected=recorder.deselected)

        @hook(optional=True)
        def pytest_xdist_node_collection_finished(self, ids: Any) -> None:
            emit("collected", total=len(ids), deselected=recorder.deselected)

        @hook(last=True)
        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                recorder.collect_error(report)
            elif report.skipped and recorder.category(report) == "skipped":
                emit("test", nodeid=report.nodeid, outcomes=["skipped"], ms=0)

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            recorder.begun += 1
            emit("start", nodeid=nodeid, number=recorder.begun, failed=recorder.failed)

        # Last, so that the terminal has counted the report before us.
        @hook(last=True)
        def pytest_runtest_logreport(self, report: Any) -> None:
            recorder.add(report)

        @hook(last=True)
        def pytest_runtest_logfinish(self, nodeid: str) -> None:
            recorder.close(nodeid)

        def pytest_warning_recorded(self) -> None:
            recorder.warnings += 1

        def pytest_internalerror(self, excrepr: Any) -> None:
            emit("internal_error", message=_rendered(excrepr)[-stream.DETAIL_CHARS :])

        def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
            emit("interrupt", message=stream.shortened(_rendered(excinfo.exconly()), stream.MESSAGE_CHARS))

        @hook(last=True)
        def pytest_sessionfinish(self, session: Any) -> None:
            for nodeid in list(recorder.open):
                recorder.close(nodeid)
            emit(
                "finish",
                exit=int(session.exitstatus),
                warnings=recorder.warnings,
                deselected=recorder.deselected,
            )

    if selection is not None:
        files, folders = selection
        # Before pytest 8 a package was made by collecting its `__init__.py`.
        by_init = int(pytest.__version__.split(".")[0]) < 8

        def is_wanted(collection_path: Any) -> bool:
            if all_but:
                return str(collection_path) not in files
            if by_init and collection_path.name == "__init__.py" and str(collection_path.parent) in folders:
                return True
            return str(collection_path) in files or str(collection_path) in folders

        # Around all others: the first answer counts, and a conftest may answer for every path.
        def pytest_ignore_collect(self: object, collection_path: Any) -> Iterator[None]:
            outcome: Any = yield
            if not is_wanted(collection_path):
                outcome.force_result(True)

        pytest.hookimpl(hookwrapper=True)(pytest_ignore_collect)
        setattr(Plugin, "pytest_ignore_collect", pytest_ignore_collect)  # noqa: B010 - only where files are chosen
    return Plugin()


def main(arguments: list[str]) -> int:
    """Runs; returns pytest's exit status."""
    ours, theirs = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    reporter = stream.Reporter(int(ours[ours.index("--report-fd") + 1]))
    all_but = "--but-from-stdin" in ours
    selection = stream.read_selection() if all_but or "--only-from-stdin" in ours else None
    sys.argv[1:] = theirs
    stream.become("pytest.__main__")

    import pytest  # the project's own

    recorder = Recorder(reporter, os.getcwd())
    plugin = plugin_for(pytest, recorder, selection, "--steady" in ours, all_but)
    code = int(pytest.main(list(theirs), plugins=[plugin]))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    reporter.emit("exit", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
