"""Imports modules one after the other in one fresh process and tells which of them cannot be.

`boot.py import_smoke REPORT_FD SECONDS ROOT...`, standard input holds module names, one a line.
ROOTs are put at the front of the path. A syntax warning in a file below a root is an error. One
JSON line before each module, `{"begin": name}`, and one after it:

    {"module": name, "ok": true}
    {"module": name, "ok": false, "type": "...", "message": "...", "file": "...", "line": 1}

and for each thing done while importing that outlives an import or leaves the process:

    {"module": name, "effect": "thread|socket|write", "detail": "...", "file": "...", "line": 1}

A module that ends the process leaves its `begin` without an end.
"""

import importlib
import json
import os
import re
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import Any, Dict, List, Optional, Set, Tuple


class TooSlow(BaseException):
    """An import took longer than it may; not an `Exception`, so that nobody handles it."""


class Smoke:
    """The state of one run."""

    def __init__(self, report_fd: int, cap_s: float, roots: List[str]) -> None:
        self.report_fd = report_fd
        self.cap_s = cap_s
        self.roots = [os.path.join(os.path.abspath(root), "") for root in roots]
        self.module = ""
        self.seen: Set[Tuple[str, str, int]] = set()  # effects already told

    def tell(self, record: Dict[str, Any]) -> None:
        """Writes one line, whole."""
        data = (json.dumps(record) + "\n").encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self.report_fd, data) :]

    def is_ours(self, path: str) -> bool:
        """Whether a file lies below one of the roots and not in an environment inside it."""
        if "site-packages" in path:
            return False
        return any(path.startswith(root) for root in self.roots)

    def on_event(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """The audit hook: notes what an import does to the world."""
        if not self.module:
            return
        if event in ("socket.connect", "socket.bind"):
            self.effect("socket", event)
        elif event.startswith("_thread.start"):
            self.effect("thread", "a thread is started")
        elif event == "open" and len(arguments) == 3:
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, (str, bytes)):
                text = os.fsdecode(path)
                if text != os.devnull and not text.endswith((".pyc", ".lock")) and "__pycache__" not in text:
                    self.effect("write", text)

    def effect(self, kind: str, detail: str) -> None:
        """Tells an effect once for each place in project code that causes it."""
        frame: Optional[FrameType] = sys._getframe(2)
        while frame is not None and not self.is_ours(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return
        place = (kind, frame.f_code.co_filename, frame.f_lineno)
        if place not in self.seen:
            self.seen.add(place)
            self.tell(
                {
                    "module": self.module,
                    "effect": kind,
                    "detail": detail,
                    "file": frame.f_code.co_filename,
                    "line": frame.f_lineno,
                }
            )

    def smoke(self, module: str) -> None:
        """Imports one module and tells how it went."""
        self.tell({"begin": module})
        self.module = module
        before = self.threads()
        try:
            self.compile_source(module)
            signal.setitimer(signal.ITIMER_REAL, self.cap_s)
            importlib.import_module(module)
        except TooSlow as slow:
            self.fail(module, "TooSlow", "not imported after %g s" % self.cap_s, slow)
        except BaseException as error:  # noqa: BLE001 - a module may raise whatever it likes, SystemExit too
            self.fail(module, type(error).__name__, said(error), error)
        else:
            self.tell_threads(module, before)
            self.tell({"module": module, "ok": True})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.module = ""

    def threads(self) -> int:
        """How many Python threads there are; before 3.12 no audit event tells of them."""
        threading = sys.modules.get("threading")
        return threading.active_count() if threading is not None else 1

    def tell_threads(self, module: str, before: int) -> None:
        """Tells of threads that an import left running, where no event did."""
        told = any(kind == "thread" for kind, _, _ in self.seen)
        if self.threads() > before and not told:
            self.seen.add(("thread", module, 0))
            self.tell({"module": module, "effect": "thread", "detail": "a thread is left running", "line": 0})

    def compile_source(self, module: str) -> None:
        """Compiles the module's source again: a cached one would not warn any more."""
        for root in self.roots:
            stem = os.path.join(root, *module.split("."))
            for path in (os.path.join(stem, "__init__.py"), stem + ".py"):
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        source = file.read()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        warnings.simplefilter("error", SyntaxWarning)
                        compile(source, path, "exec", dont_inherit=True)
                    return

    def fail(self, module: str, kind: str, message: str, error: Optional[BaseException]) -> None:
        """Tells a failure, at the innermost line of project code."""
        path, line = "", 0
        if isinstance(error, SyntaxError) and error.filename:
            path, line = error.filename, error.lineno or 0
        elif error is not None:
            for frame in traceback.extract_tb(error.__traceback__):
                if self.is_ours(frame.filename):
                    path, line = frame.filename, frame.lineno or 0
        self.tell(
            {
                "module": module,
                "ok": False,
                "type": kind,
                "message": message[:500],
                "file": path,
                "line": line,
            }
        )


def said(error: BaseException) -> str:
    """What an error says; of an import that was given up, the module that was not there too."""
    text = str(error)
    inner = error.__cause__ or error.__context__
    if isinstance(error, ImportError) and isinstance(inner, ModuleNotFoundError) and str(inner) not in text:
        return "%s (%s)" % (text, inner)
    return text


def too_slow(signum: int, frame: Optional[FrameType]) -> None:
    """Ends an import that takes too long."""
    raise TooSlow


def main(arguments: List[str]) -> int:
    """Imports the modules named on standard input."""
    smoke = Smoke(int(arguments[0]), float(arguments[1]), arguments[2:])
    names = [line for line in sys.stdin.read().splitlines() if re.match(r"[^\W\d]", line)]
    # A module may read standard input while it is imported; it finds it empty.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(smoke.report_fd, False)
    sys.path[:0] = [root.rstrip(os.sep) or os.sep for root in smoke.roots]
    sys.argv[:] = [""]
    signal.signal(signal.SIGALRM, too_slow)
    sys.addaudithook(smoke.on_event)
    for name in names:
        smoke.smoke(name)
    sys.stdout.flush()
    # Not what an import left behind decides how this ends.
    os._exit(0)
