"""Calls a build backend that is already installed, in this process, and says what it made.

`boot.py pep517_build REPORT_FD HOOK BACKEND [BACKEND_PATH...]` in the project's folder; HOOK is
`metadata` or `wheel`. Reports one JSON line:

    {"ok": true, "files": ["pkg/__init__.py", ...]}     the files of the wheel, empty for metadata
    {"ok": false, "type": "...", "message": "..."}
"""

import importlib
import json
import os
import sys
import tempfile
import zipfile
from typing import Any, Dict, List


def backend_of(name: str, folders: List[str]) -> Any:
    """The backend object of a `build-backend` string."""
    sys.path[:0] = [os.path.abspath(folder) for folder in folders]
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def build(hook: str, backend: Any, folder: str) -> List[str]:
    """Runs one hook; returns the names of the files in the wheel, sorted."""
    if hook == "metadata":
        prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
        if prepare is not None:
            prepare(folder, {})
        return []
    made = backend.build_wheel(folder, {})
    with zipfile.ZipFile(os.path.join(folder, made)) as wheel:
        return sorted(name for name in wheel.namelist() if not name.endswith("/"))


def main(arguments: List[str]) -> int:
    """Runs the hook and reports."""
    report_fd, hook, name = int(arguments[0]), arguments[1], arguments[2]
    os.set_inheritable(report_fd, False)
    record: Dict[str, Any]
    try:
        with tempfile.TemporaryDirectory() as folder:
            record = {"ok": True, "files": build(hook, backend_of(name, arguments[3:]), folder)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a backend may raise whatever it likes
        record = {"ok": False, "type": type(error).__name__, "message": str(error)[:1000]}
    with os.fdopen(report_fd, "w", encoding="utf-8", errors="surrogateescape") as report:
        report.write(json.dumps(record) + "\n")
    return 0
