"""Installs what a build asks for into one folder, with this interpreter's pip, and says how it went.

`boot.py backend_fill REPORT_FD PREFIX FOLDER REQUIREMENT...`; PREFIX is that of the interpreter's
environment, and the interpreter was started without it (`-S`). Only wheels are installed, so no program of a
package is run. Where packages come from is in the environment (`PIP_...`), never in the arguments;
what pip prints is passed on to standard error without the credentials found there. Reports lines of
JSON, the last of which tells the end:

    {"say": "Collecting hatchling"}
    {"ok": true}
    {"ok": false, "message": "..."}
"""

import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Set
from urllib.parse import unquote

from .interpreter_facts import site_folders

_SAID = ("Collecting ", "Downloading ", "Installing ")
_WRONG = "ERROR: "
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/@\s]+@")
_NO_PIP = 3
_RUN = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def pip_command(prefix: str) -> List[str]:
    """How pip is started: the installed one, else the one an interpreter brings for new environments.

    Without `site`: path files of an environment may lead into the project, and what is found there
    (`sitecustomize`, or a module that pip can do without) would run with the network open.

    Args:
        prefix: Of the environment whose pip is meant.

    Returns:
        The first arguments; empty where there is no pip.
    """
    found = (*site_folders(prefix), *site_folders(sys.base_prefix))
    places = [folder for folder in found if os.path.isdir(os.path.join(folder, "pip"))]
    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin:
        bundled = os.path.join(glob.escape(os.path.dirname(spec.origin)), "_bundled", "pip-*.whl")
        places += sorted(glob.glob(bundled), reverse=True)
    return [sys.executable, "-I", "-S", "-c", _RUN, places[0]] if places else []


def secrets_of(environment: Dict[str, str]) -> Set[str]:
    """What must not be printed: names and passwords in the addresses of an environment."""
    found: Set[str] = set()
    for text in environment.values():
        for word in text.split():
            address = word.rpartition("://")[2]
            named, at, _ = address.partition("/")[0].rpartition("@")
            if at:
                found.update(part for part in (named, unquote(named)) if part)
                password = named.partition(":")[2]
                found.update(part for part in (password, unquote(password)) if part)
    return found


def redact(line: str, secrets: Set[str]) -> str:
    """A line without secrets."""
    line = _ADDRESS.sub(r"\1****@", line)
    for secret in sorted(secrets, key=len, reverse=True):
        line = line.replace(secret, "****")
    return line


def fill(command: List[str], folder: str, requirements: List[str], tell: Any) -> Dict[str, Any]:
    """Runs pip to its end; returns the last record."""
    argv = [*command, "install", "--target", folder, "--only-binary=:all:", "--no-input"]
    argv += ["--disable-pip-version-check", "--no-cache-dir", "--progress-bar=off", "--", *requirements]
    secrets = secrets_of({name: text for name, text in os.environ.items() if _has_address(name)})
    last = ""
    with tempfile.TemporaryDirectory() as aside:  # a requirement must not be taken for a file of the project
        process = subprocess.Popen(
            argv, cwd=aside, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout is not None
        for data in process.stdout:
            line = redact(data.decode("utf-8", "replace").rstrip(), secrets)
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
            if line.startswith(_SAID):
                tell({"say": line[:200]})
            if line.startswith(_WRONG) or (line and not last.startswith(_WRONG)):
                last = "" if line == "ERROR: Exception:" else line  # then the end of the traceback tells
        code = process.wait()
    return {"ok": True} if code == 0 else {"ok": False, "message": last[:1000] or "pip failed"}


def _has_address(name: str) -> bool:
    return name.startswith("PIP_") or name.lower().endswith("_proxy")


def main(arguments: List[str]) -> int:
    """Fills the folder and reports."""
    report_fd, prefix, folder, requirements = int(arguments[0]), arguments[1], arguments[2], arguments[3:]
    os.set_inheritable(report_fd, False)
    with os.fdopen(report_fd, "w", encoding="utf-8", errors="surrogateescape") as report:

        def tell(record: Dict[str, Any]) -> None:
            report.write(json.dumps(record) + "\n")
            report.flush()

        command = pip_command(prefix)
        if not command:
            tell({"ok": False, "message": "the interpreter has no pip"})
            return _NO_PIP
        record = fill(command, folder, requirements, tell)
        tell(record)
    return 0 if record["ok"] else 1
