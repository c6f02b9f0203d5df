"""Plain `python -m pytest` as a user runs it, and what it says: counts and failing node ids."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.long.project import Project, cache, clean_environment

LIMIT_S = 900.0
WORDS = {"failed": "failed", "passed": "passed", "skipped": "skipped", "error": "errors", "errors": "errors"}
WORDS |= {"xfailed": "xfailed", "xpassed": "xpassed"}
LAST_LINE = re.compile(r"^=* ?((?:\d+ [a-z ]+, )*\d+ [a-z ]+) in [\d.]+s\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """How one run of plain pytest ended. `exit_code` None: it was still running at the limit."""

    exit_code: int | None
    counts: Mapping[str, int] = field(default_factory=dict)  # passed failed skipped errors xfailed xpassed
    failing: tuple[str, ...] = ()  # node ids that failed or erred, sorted
    wall_s: float = 0.0

    @property
    def green(self) -> bool:
        return self.exit_code == 0


def run_pytest(project: Project, *, limit_s: float = LIMIT_S) -> Plain:
    """Runs the whole suite in the project's folder.

    pytest's own list of last failures, put elsewhere, names what failed. It forgets a test that
    failed after one of its subtests passed: where it is too short, the JUnit file fills it up.
    """
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder, "junit.xml")
        options = ("-o", f"cache_dir={folder}", "-o", "junit_family=xunit1", f"--junit-xml={junit}")
        argv = (str(project.python), "-m", "pytest", *options)
        began = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            tool = subprocess.Popen(
                argv, cwd=project.folder, stdout=output, stderr=output, env=clean_environment()
            )
            try:
                code = tool.wait(limit_s)
            except subprocess.TimeoutExpired:
                tool.kill()
                tool.wait()
                return Plain(exit_code=None, wall_s=round(time.monotonic() - began, 1))
            wall_s = round(time.monotonic() - began, 1)
            output.seek(0)
            counts = summary(output.read())
        last = Path(folder, "v", "cache", "lastfailed")
        failing = set(json.loads(last.read_text())) if last.exists() else set()
        if len(failing) < counts["failed"] + counts["errors"]:
            failing |= set(_failed_in(junit))
    return Plain(exit_code=code, counts=counts, failing=tuple(sorted(failing)), wall_s=wall_s)


def _failed_in(junit: Path) -> Iterator[str]:
    """Node ids of what a JUnit file calls failed or in error, put together from file, class and name."""
    for case in ElementTree.parse(junit).iter("testcase"):
        file = case.get("file")
        if file is not None and (case.find("failure") is not None or case.find("error") is not None):
            module = file.removesuffix(".py").replace("/", ".")
            inside = case.get("classname", "").removeprefix(module).strip(".")
            yield "::".join((file, *(inside.split(".") if inside else ()), case.get("name", "")))


def summary(text: str) -> dict[str, int]:
    """The counts of pytest's last line; a word that is not there counts 0.

    Raises:
        ValueError: there is no such line.
    """
    counts = dict.fromkeys(sorted(set(WORDS.values())), 0)
    for line in reversed(text.splitlines()):
        found = LAST_LINE.match(re.sub(r"\x1b\[[\d;]*m", "", line))
        if found is not None:
            for part in found[1].split(", "):
                number, _, word = part.partition(" ")
                if word in WORDS:
                    counts[WORDS[word]] = int(number)
            return counts
    raise ValueError(f"pytest printed no summary; its output ends\n{text[-2000:]}")


def cached(project: Project, what: str, *, turn: int = 0, limit_s: float = LIMIT_S) -> Plain:
    """The run of the suite on content `what` names, from the cache folder where it was done before."""
    name = hashlib.sha256(f"{project.key} {what} {turn}".encode()).hexdigest()[:24]
    stored = cache() / "plain" / project.name / f"{name}.json"
    if stored.exists():
        row = json.loads(stored.read_text())
        return Plain(**{**row, "failing": tuple(row["failing"])})
    ended = run_pytest(project, limit_s=limit_s)
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(json.dumps(asdict(ended)))
    return ended
