"""Runs unittest tests as `python -m unittest` would, and streams the records of `pytest_run.py`.

    python unittest_run.py --report-fd N --only-from-stdin -- UNITTEST ARGUMENTS

Standard input lists the test files, each ended by NUL, relative to the current directory; each is
imported by the dotted name it has below its topmost package's folder, as discovery would do it.
The arguments are dotted test names, where tests rather than files were chosen.
"""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
import types
import unittest
from typing import Any, Optional


def _load_stream() -> types.ModuleType:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream.py")
    module = types.ModuleType("stream")
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), module.__dict__)
    return module


stream = _load_stream()

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def dotted_name(path: str) -> tuple[str, str]:
    """The folder to import a file from, and its dotted name below it."""
    folder, file = os.path.split(os.path.abspath(path))
    parts = [os.path.splitext(file)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    return folder, ".".join(parts)


def flatten(suite: Any) -> list[Any]:
    """The test cases of a suite, in order."""
    if not isinstance(suite, unittest.TestSuite):
        return [suite]
    return [case for part in suite for case in flatten(part)]


def is_import_failure(case: object) -> bool:
    """Whether a case only stands for a module that could not be loaded."""
    return type(case).__module__ == "unittest.loader" and type(case).__name__ == "_FailedTest"


class StreamingResult(unittest.TextTestResult):
    """Counts and prints as always, and sends each ending."""

    reporter: Any
    files: dict[str, str]  # module name -> absolute path

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._outcomes: list[str] = []
        self._failure: dict[str, object] = {}
        self._began = 0.0
        self._clock = time.perf_counter
        self._sent = 0

    def startTest(self, test: Any) -> None:
        """A test begins."""
        super().startTest(test)
        self._outcomes, self._failure, self._began = [], {}, self._clock()
        if not is_import_failure(test):
            failed = len(self.failures) + len(self.errors)
            self.reporter.emit("start", nodeid=test.id(), number=self.testsRun, failed=failed)

    def stopTest(self, test: Any) -> None:
        """A test has ended: whatever it came to is sent."""
        super().stopTest(test)
        if is_import_failure(test):
            self.reporter.emit("collect_error", nodeid=test.id(), **self._failure)
        else:
            outcomes = self._outcomes or ["passed"]
            spent_ms = int((self._clock() - self._began) * 1000)
            self.reporter.emit("test", nodeid=test.id(), outcomes=outcomes, ms=spent_ms, **self._failure)
        # Some versions end a skipped test that they never began.
        self._outcomes, self._failure, self._began = [], {}, self._clock()

    def _failed(self, outcome: str, test: Any, error: Any) -> None:
        self._outcomes.append(outcome)
        if self._failure:
            return
        own, path, line = self._place(test, error)
        message = "".join(traceback.format_exception_only(error[0], error[1])).strip()
        if is_import_failure(test):
            message = message.rpartition("\n")[2]  # the rest is a traceback in text
        detail = ""
        if self._sent < stream.RENDERED:
            detail = stream.shortened("".join(traceback.format_exception(*error)), stream.DETAIL_CHARS)
        self._sent += 1
        self._failure = {
            "file": own,
            "path": path,
            "line": line,
            "message": stream.shortened(message, stream.MESSAGE_CHARS),
            "detail": detail,
        }

    def _place(self, test: Any, error: Any) -> tuple[Optional[str], Optional[str], int]:
        """The test's own file, and the innermost line of it on the way to the failure."""
        if is_import_failure(test):
            spots = [(os.path.abspath(path), int(line)) for path, line in _FRAME.findall(str(error[1]))]
            own = next((path for name, path in self.files.items() if test.id().endswith("." + name)), None)
        else:
            own = self.files.get(type(test).__module__)
            frames = traceback.extract_tb(error[2])
            spots = [(os.path.abspath(frame.filename), frame.lineno or 0) for frame in frames]
            if not isinstance(test, unittest.TestCase):
                own = next(
                    (path for path in self.files.values() if any(spot[0] == path for spot in spots)), None
                )
        within = [spot for spot in spots if spot[0] == own]
        path, line = (within or spots or [(own or "", 0)])[-1]
        return own, path, line

    def addSuccess(self, test: Any) -> None:
        """It passed."""
        super().addSuccess(test)
        self._outcomes.append("passed")

    def addError(self, test: Any, err: Any) -> None:
        """It broke, or the fixture of its class or module did."""
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self._failed("error", test, err)
            return
        # A stand-in for a class's or module's fixture, which has no start and no stop.
        self._outcomes, self._failure = [], {}
        self._failed("error", test, err)
        self.reporter.emit("test", nodeid=test.id(), outcomes=["error"], ms=0, **self._failure)

    def addFailure(self, test: Any, err: Any) -> None:
        """It failed."""
        super().addFailure(test, err)
        self._failed("failed", test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        """It asked to be skipped."""
        super().addSkip(test, reason)
        if isinstance(test, unittest.TestCase):
            self._outcomes.append("skipped")
        else:  # a stand-in, as above
            self.reporter.emit("test", nodeid=test.id(), outcomes=["skipped"], ms=0)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """It failed as announced."""
        super().addExpectedFailure(test, err)
        self._outcomes.append("xfailed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        """It passed although announced to fail, which unittest counts as a failure."""
        super().addUnexpectedSuccess(test)
        self._outcomes.append("failed")
        own = self.files.get(type(test).__module__)
        self._failure = {"file": own, "path": own, "line": 0, "message": "unexpected success", "detail": ""}

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """A part of it ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._failed("failed" if failed else "error", test, err)


def load(files: list[str], names: list[str], known: dict[str, str]) -> unittest.TestSuite:
    """Loads test files and named tests; notes in `known` which module came from which file."""
    loader = unittest.TestLoader()
    suite = unittest.TestSuite()
    for path in files:
        folder, dotted = dotted_name(path)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        known[dotted] = os.path.abspath(path)
        try:
            suite.addTests(loader.loadTestsFromName(dotted))
        except unittest.SkipTest as skip:
            suite.addTest(_skipped(dotted, str(skip)))
    for name in names:
        suite.addTests(loader.loadTestsFromName(name))
    return suite


def _skipped(dotted: str, reason: str) -> unittest.TestCase:
    """A module that asked to be skipped while it was imported, as one skipped test."""

    @unittest.skip(reason)
    def skipped(self: object) -> None: ...

    case = type("ModuleSkipped", (unittest.TestCase,), {dotted: skipped})
    found: unittest.TestCase = case(dotted)
    return found


def main(arguments: list[str]) -> int:
    """Runs; returns 0, 1 for failures, 5 for nothing to run."""
    ours, theirs = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    reporter = stream.Reporter(int(ours[ours.index("--report-fd") + 1]))
    files = sorted(stream.read_selection()[0])
    sys.argv[1:] = theirs
    stream.become("unittest.__main__")
    known: dict[str, str] = {}
    reporter.emit("session", pytest="", rootdir=os.getcwd(), neutralised=[])
    suite = load(files, theirs, known)
    for case in flatten(suite):
        name = type(case).__module__
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and name != "unittest.loader":
            known.setdefault(name, os.path.abspath(path))
    cases = flatten(suite)
    reporter.emit("collected", total=sum(not is_import_failure(case) for case in cases), deselected=0)

    class Result(StreamingResult):
        pass

    Result.reporter, Result.files = reporter, known
    # As `python -m unittest`: warnings are shown unless the caller set filters of their own.
    warnings = None if sys.warnoptions else "default"
    result = unittest.TextTestRunner(resultclass=Result, warnings=warnings).run(suite)
    failed = sum(is_import_failure(case) for case, _ in result.errors)
    code = 2 if failed else (5 if not cases else (0 if result.wasSuccessful() else 1))
    reporter.emit("finish", exit=code, warnings=0, deselected=0)
    sys.stdout.flush()
    reporter.emit("exit", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
