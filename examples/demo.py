"""Verifies a copy of the example shop while it is edited, the way an agent would edit it.

Copies `examples/shop` to a temporary folder, makes it a git repository of its own, and runs
the command line after each of a few edits. Every verdict is compared with the one expected;
the exit code is 0 only if all are as they should be. State, socket and settings are private
to the demo, and its daemon is stopped at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]  # the data of `last --json`

SHOP = Path(__file__).parent / "shop"
STATIC = frozenset({"diagnose.files", "compile.project"})
SCOPED = frozenset({"test.scoped"})
PRICING = "src/shop/pricing.py"
BROKEN_TEST = "tests/test_pricing.py::test_tax_is_on_the_discounted_price"


class Unexpected(Exception):
    """The demo saw something other than what it is there to show."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One edit, and what verifying it must say."""

    title: str  # a short name, a colon, what happens
    path: str | None  # None: nothing is edited
    find: str = ""
    put: str = ""
    exit_code: int = 0
    red_at: frozenset[str] = frozenset()  # rungs, one of which must have failed
    check: Callable[[Run, Path], None] | None = None


def failing_test_is_named(run: Run, project: Path) -> None:
    """The broken test is named by its node id, with a line inside it."""
    (rung,) = [rung for rung in run["rungs"] if rung["verify_rung"] == "test.scoped"]
    lines = {test["nodeid"]: test["line"] for test in rung["tests"]["failing"]}
    if BROKEN_TEST not in lines:
        raise Unexpected(f"{BROKEN_TEST} is not among the failing tests {sorted(lines)}")
    path, name = BROKEN_TEST.split("::")
    source = (project / path).read_text(encoding="utf-8").splitlines()
    first = source.index(f"def {name}(catalogue):") + 1
    if not first <= lines[BROKEN_TEST] <= first + 4:
        raise Unexpected(f"line {lines[BROKEN_TEST]} is not in {name}, which begins at line {first}")


def no_test_ran(run: Run, project: Path) -> None:
    """A change that is only a comment needs no test."""
    states = {rung["verify_rung"]: rung["state"] for rung in run["rungs"]}
    if states.get("test.scoped", "skipped") != "skipped":
        raise Unexpected(f"test.scoped is {states['test.scoped']} after an edit of a comment")


ROUNDING = "return (cents * percent + 50) // 100"
THRESHOLD = "if quantity >= discount.from_quantity:"
STEPS = (
    Step(title="clean checkout: verified for the first time", path=None),
    Step(
        title="comment: code that behaves as before",
        path=PRICING,
        find=ROUNDING,
        put=f"# Half up, as the invoices have it.\n    {ROUNDING}",
        check=no_test_ran,
    ),
    Step(
        title="type error: a function that promises an int returns a str",
        path=PRICING,
        find=ROUNDING,
        put='return f"{(cents * percent + 50) // 100}"',
        exit_code=1,
        red_at=STATIC,
    ),
    Step(
        title="type error fixed: the content is that of two verifies ago",
        path=PRICING,
        find='return f"{(cents * percent + 50) // 100}"',
        put=ROUNDING,
    ),
    Step(
        title="bug: the discount begins one piece too late, which only a test can tell",
        path=PRICING,
        find=THRESHOLD,
        put=THRESHOLD.replace(">=", ">"),
        exit_code=1,
        red_at=SCOPED,
        check=failing_test_is_named,
    ),
    Step(
        title="bug fixed: the content is a known one again",
        path=PRICING,
        find=THRESHOLD.replace(">=", ">"),
        put=THRESHOLD,
    ),
)


def environment(private: Path) -> dict[str, str]:
    """The demo's own environment: private state and settings, this interpreter for the project."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GLIDESLOPE"))
    }
    return variables | {
        "GLIDESLOPE_STATE_DIR": str(private / "state"),
        "XDG_CONFIG_HOME": str(private / "config"),
        "GLIDESLOPE__AGENT__ENVIRONMENT__PYTHON": sys.executable,
    }


def make_repository(project: Path, variables: Mapping[str, str]) -> None:
    """Copies the shop and commits it, as a project that somebody works on."""
    shutil.copytree(SHOP, project, ignore=shutil.ignore_patterns("__pycache__", ".*_cache", ".venv"))
    identity = ("-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false")
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        ("commit", "--quiet", "--message=The shop"),
    ):
        subprocess.run(["git", *identity, *command], cwd=project, env=variables, check=True)


def glideslope(project: Path, variables: Mapping[str, str], *arguments: str) -> Run:
    """Runs a command with `--json`; returns the data of its envelope."""
    command = [sys.executable, "-m", "glideslope", *arguments, "--json"]
    done = subprocess.run(command, cwd=project, env=variables, stdout=subprocess.PIPE, text=True)
    envelope = json.loads(done.stdout)
    if not envelope["ok"]:
        raise Unexpected(f"`glideslope {' '.join(arguments)}`: {envelope['error']}")
    data: Run = envelope["data"]
    return data


def edit(project: Path, step: Step) -> None:
    """Makes the step's edit, which must find its place exactly once."""
    if step.path is None:
        return
    file = project / step.path
    text = file.read_text(encoding="utf-8")
    if text.count(step.find) != 1:
        raise Unexpected(f"{step.find!r} is not once in {step.path}")
    file.write_text(text.replace(step.find, step.put), encoding="utf-8")


def take(step: Step, project: Path, variables: Mapping[str, str]) -> Run:
    """Makes one edit, verifies it for a person to see, and compares the outcome.

    Raises:
        Unexpected: The verdict, the rung or the details are not those of the step.
    """
    edit(project, step)
    print(f"\n=== {step.title}\n", flush=True)
    shown = subprocess.run(
        [sys.executable, "-m", "glideslope", "verify", "standard"], cwd=project, env=variables
    )
    run = glideslope(project, variables, "last")
    if shown.returncode != step.exit_code:
        raise Unexpected(f"exit code {shown.returncode}, expected {step.exit_code}; last run: {run}")
    failed = {rung["verify_rung"] for rung in run["rungs"] if rung["state"] == "fail"}
    if bool(failed) != bool(step.red_at) or not failed <= step.red_at:
        raise Unexpected(f"failed rungs {sorted(failed) or 'none'}, expected {sorted(step.red_at) or 'none'}")
    if not run["current"]:
        raise Unexpected("nothing was edited since, yet the run is not current")
    if step.check is not None:
        step.check(run, project)
    return run


def print_time_split(runs: list[tuple[Step, Run]]) -> None:
    """Where the time went, one line a run; milliseconds."""
    rungs = ("diagnose.files", "compile.project", "build.affected", "test.scoped")
    print("\n=== where the time went (ms)\n")
    print(f"{'':20}{'verdict':8}{'wall':>7}{'tasks':>7}", *(f"{rung:>16}" for rung in rungs), sep="")
    for step, run in runs:
        spent = {rung["verify_rung"]: rung["duration_ms"] for rung in run["rungs"]}
        cells = (f"{'-' if spent.get(rung) is None else spent[rung]:>16}" for rung in rungs)
        wall, tasks = run["time_ms"]["wall"], run["time_ms"]["environment"]
        name = step.title.partition(":")[0]
        print(f"{name:20}{run['verdict']:8}{wall:>7}{tasks:>7}", *cells, sep="")


def play(private: Path) -> None:
    """Takes every step in turn.

    Raises:
        Unexpected: At the first step that does not end as it must.
    """
    project, variables = private / "shop", environment(private)
    make_repository(project, variables)
    try:
        runs = [(step, take(step, project, variables)) for step in STEPS]
    finally:
        stop = [sys.executable, "-m", "glideslope", "daemon", "stop"]
        stopped = subprocess.run(stop, cwd=project, env=variables, stdout=subprocess.DEVNULL).returncode
    print_time_split(runs)
    if stopped != 0:
        raise Unexpected(f"`glideslope daemon stop` ended {stopped}")


def main() -> int:
    """Plays the demo.

    Returns:
        0 if every verdict was the expected one, 1 otherwise.
    """
    private = Path(tempfile.mkdtemp(prefix="glideslope-demo-"))
    try:
        play(private)
    except Unexpected as surprise:
        print(f"\nthe demo did not go as it must: {surprise}\nits folder is kept: {private}", file=sys.stderr)
        return 1
    shutil.rmtree(private)
    print(f"\nAll {len(STEPS)} verdicts as expected.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
