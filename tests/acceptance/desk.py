"""Glideslope as its users have it: the real command line, one daemon, small repositories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 240.0
GONE_S = 20.0
EXIT = {"green": 0, "red": 1, "refused": 3, "stale": 4, "died": 5, "cancelled": 6, "inconclusive": 7}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one command with `--json` said: always one envelope and nothing beside it."""

    exit_code: int
    envelope: dict[str, Any]
    stderr: str

    @property
    def data(self) -> Any:
        assert self.envelope["error"] is None, self.envelope["error"]
        return self.envelope["data"]

    @property
    def error(self) -> dict[str, Any]:
        assert self.envelope["data"] is None
        found: dict[str, Any] = self.envelope["error"]
        return found

    @property
    def verdict(self) -> str:
        return str(self.data["verdict"])

    def rung(self, name: str) -> dict[str, Any]:
        return next(rung for rung in self.data["rungs"] if rung["verify_rung"] == name)

    def states(self) -> dict[str, str]:
        return {rung["verify_rung"]: rung["state"] for rung in self.data["rungs"]}

    def failing(self, rung: str) -> dict[str, str]:
        """Node id -> class of the failing tests of a rung."""
        tests = self.rung(rung)["tests"] or {"failing": []}
        return {test["nodeid"]: test["class"] for test in tests["failing"]}

    def blocking(self, rung: str) -> list[dict[str, Any]]:
        return [found for found in self.rung(rung)["diagnostics"] if found["blocking"]]

    def expect(self, verdict: str) -> Answer:
        """Asserts verdict and exit code, and shows the whole run where they differ."""
        assert (self.verdict, self.exit_code) == (verdict, EXIT[verdict]), json.dumps(self.data, indent=1)
        return self


@dataclass(kw_only=True)
class Desk:
    """The command line on a state folder of its own."""

    home: Path
    through: tuple[str, ...] = ()  # a program that starts each command

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("GLIDESLOPE", "GIT_", "PYTEST", "VIRTUAL_ENV"))
        }
        return {
            **kept,
            "GLIDESLOPE_STATE_DIR": str(self.state),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }

    def argv(self, *arguments: str) -> list[str]:
        return [*self.through, sys.executable, "-m", "glideslope", *arguments]

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            cwd=cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def call(self, *arguments: str, cwd: Path) -> Answer:
        """One command with `--json`; its standard output must be one envelope, whatever happened."""
        return answered(self.run(*arguments, "--json", cwd=cwd))

    def start(self, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
        """The same, not waited for; `answered_by` takes its answer."""
        return subprocess.Popen(
            self.argv(*arguments, "--json"),
            cwd=cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def events(self, *, after: int = 0) -> list[dict[str, Any]]:
        done = self.run("events", "--from", str(after), cwd=self.home)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def said(self, run_id: str, part: str) -> bool:
        """Whether a task of a run has told of its progress in words that hold `part`."""
        return any(
            event.get("run_id") == run_id
            and event["type"] == "AgentEnvironmentTaskChanged"
            and part in (event["message"] or "")
            for event in self.events()
        )


@contextmanager
def a_desk(home: Path, *, through: tuple[str, ...] = ()) -> Iterator[Desk]:
    """A desk in an empty folder; its daemon is stopped at the end."""
    for name in ("run", "config", "state"):
        (home / name).mkdir(mode=0o700)
    made = Desk(home=home, through=through)
    try:
        yield made
    finally:
        assert made.run("daemon", "stop", cwd=home).returncode == 0


def check_journal(events: list[dict[str, Any]]) -> None:
    """No gap in the sequence; every task and every run that began has exactly one ending.

    Raises:
        AssertionError: With what is missing or told twice.
    """
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds: dict[str, Counter[str]] = {name: Counter() for name in ("task", "task end", "run", "run end")}
    for event in events:
        match event["type"]:
            case "AgentEnvironmentTaskChanged" if event["state"] == "queued":
                kinds["task"][event["task_id"]] += 1
            case "AgentEnvironmentTaskCompleted" | "AgentEnvironmentTaskDied":
                kinds["task end"][event["task_id"]] += 1
            case "AgentRunStarted":
                kinds["run"][event["run_id"]] += 1
            case "AgentRunCompleted":
                kinds["run end"][event["run_id"]] += 1
    for name in ("task", "run"):
        assert kinds[name] == kinds[f"{name} end"]
        assert set(kinds[name].values()) <= {1}


def answered(done: subprocess.CompletedProcess[str]) -> Answer:
    """Reads an answer and holds it to what every answer must be."""
    try:
        envelope = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(
            f"not one JSON value: {done.stdout[:2000]!r}, standard error {done.stderr}"
        ) from None
    assert set(envelope) == {"schema", "ok", "action", "data", "error"}
    assert envelope["schema"] == "glideslope/1"
    assert envelope["ok"] is (envelope["error"] is None)
    assert (envelope["data"] is None) is not (envelope["error"] is None)
    assert done.returncode != 70, envelope
    return Answer(exit_code=done.returncode, envelope=envelope, stderr=done.stderr)


def answered_by(process: subprocess.Popen[str]) -> Answer:
    """The answer of a command that was started."""
    out, err = process.communicate(timeout=LIMIT_S)
    return answered(subprocess.CompletedProcess(process.args, process.returncode, out, err))


@dataclass(frozen=True, kw_only=True)
class Repo:
    """A folder under verification."""

    desk: Desk
    root: Path
    python: str | None = sys.executable

    def write(self, files: Mapping[str, str]) -> Repo:
        for path, text in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return self

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        environ = {**self.desk.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", *identity, "-C", str(self.root), *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str] | None = None, *, message: str = "change") -> Repo:
        self.write(files or {})
        if not (self.root / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self

    def call(self, *arguments: str) -> Answer:
        return self.desk.call(*arguments, cwd=self.root)

    def named(self, *arguments: str) -> tuple[str, ...]:
        """Arguments of a command that starts a run, its interpreter among them."""
        return (*arguments, "--python", self.python) if self.python else arguments

    def verify(self, *arguments: str) -> Answer:
        return self.call(*self.named("verify", *arguments))

    def start_verify(self, *arguments: str) -> subprocess.Popen[str]:
        return self.desk.start(*self.named("verify", *arguments), cwd=self.root)

    def snapshot_id(self) -> str:
        found = self.call("status").data["verify_snapshot_id"]
        assert isinstance(found, str), "a workspace has an id"
        return found

    def tasks(self, run_id: str) -> list[str]:
        """Kinds of the tasks a run put into the queue, as the journal has them."""
        return [
            event["kind"]
            for event in self.desk.events()
            if event.get("run_id") == run_id
            and event["type"] == "AgentEnvironmentTaskChanged"
            and event["state"] == "queued"
        ]

    def wait_running(self, file: str) -> str:
        """Waits until a run of this workspace says it is at a test of that file; gives the run's id."""
        found: list[str] = []

        def running() -> bool:
            active = self.call("status").data["active"]
            found.extend(run["run_id"] for run in active if self.desk.said(run["run_id"], f"now {file}"))
            return bool(found)

        wait_until(running, f"a test of {file} is running")
        return found[0]


def wait_until(condition: Callable[[], object], what: str, limit_s: float = GONE_S) -> None:
    """Polls until something holds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


# Plugins that may lie beside pytest and cost more than a small run itself.
QUIET = "-p no:hypothesispytest -p no:anyio"
PROJECT = f'''[project]
name = "tiny"
version = "1"

[tool.pytest.ini_options]
addopts = "{QUIET}"
'''
DOUBLE = "def double(x):\n    return x * 2\n"
TEST_DOUBLE = "from tiny import double\n\n\ndef test_double():\n    assert double(4) == 8\n"
TINY = {"pyproject.toml": PROJECT, "tiny.py": DOUBLE, "test_tiny.py": TEST_DOUBLE}
