"""Calls a build backend that is already installed, in this process, and says what it made.

`boot.py pep517_build REPORT_FD [--in FOLDER] HOOK BACKEND [BACKEND_PATH...]` in the project's folder;
HOOK is `metadata` or `wheel`; FOLDER is a build environment, and then this interpreter was started
without its own packages (`-S`). Reports one JSON line:

    {"ok": true, "files": ["pkg/__init__.py", ...]}     the files of the wheel, empty for metadata
    {"ok": false, "missing": ["ninja", ...]}            what the backend asks for besides, not there
    {"ok": false, "type": "...", "message": "..."}
"""

import importlib
import importlib.metadata
import json
import os
import re
import site
import sys
import tempfile
import zipfile
from typing import Any, Dict, List

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)[^;]*\Z")  # one with a marker may not be meant for here


def enter(folder: str) -> None:
    """Puts a build environment on the path of this process and of those it starts."""
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder
    os.environ["PYTHONNOUSERSITE"] = "1"
    os.environ["PATH"] = os.path.join(folder, "bin") + os.pathsep + os.environ.get("PATH", os.defpath)
    site.setquit()  # words that a setup.py may use, and that -S leaves out
    site.setcopyright()
    site.sethelper()


def backend_of(name: str, folders: List[str]) -> Any:
    """The backend object of a `build-backend` string."""
    sys.path[:0] = [os.path.abspath(folder) for folder in folders]
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def missing(backend: Any) -> List[str]:
    """Distributions the backend asks for, once it has seen the project, that are not there."""
    ask = getattr(backend, "get_requires_for_build_wheel", None)
    found = []
    for requirement in ask({}) if ask is not None else ():
        named = _NAME.match(str(requirement))
        try:
            if named:
                importlib.metadata.version(named[1])
        except importlib.metadata.PackageNotFoundError:
            found.append(str(requirement))
    return found


def build(hook: str, backend: Any, folder: str) -> Dict[str, Any]:
    """Runs one hook; returns the record to report."""
    lacking = missing(backend)
    if lacking:
        return {"ok": False, "missing": lacking}
    if hook == "metadata":
        prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
        if prepare is not None:
            prepare(folder, {})
        return {"ok": True, "files": []}
    made = backend.build_wheel(folder, {})
    with zipfile.ZipFile(os.path.join(folder, made)) as wheel:
        files = sorted(name for name in wheel.namelist() if not name.endswith("/"))
    return {"ok": True, "files": files}


def main(arguments: List[str]) -> int:
    """Runs the hook and reports."""
    report_fd = int(arguments.pop(0))
    if arguments[0] == "--in":
        enter(arguments[1])
        del arguments[:2]
    hook, name, folders = arguments[0], arguments[1], arguments[2:]
    os.set_inheritable(report_fd, False)
    record: Dict[str, Any]
    try:
        with tempfile.TemporaryDirectory() as folder:
            record = build(hook, backend_of(name, folders), folder)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a backend may raise whatever it likes
        record = {"ok": False, "type": type(error).__name__, "message": str(error)[:1000]}
    with os.fdopen(report_fd, "w", encoding="utf-8", errors="surrogateescape") as report:
        report.write(json.dumps(record) + "\n")
    return 0
