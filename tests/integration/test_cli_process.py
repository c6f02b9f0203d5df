"""The command line and the API as real processes, with a real daemon and a small real project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import glideslope
from glideslope.errors import EngineBusy
from glideslope.testing.rig import git

pytestmark = pytest.mark.process

CODE = "def double(x):\n    return x * 2\n"
TEST = """import unittest
from code_under_test import double

class TestDouble(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), 4)
"""
SLOW = """import time, unittest
class TestSlow(unittest.TestCase):
    def test_slow(self):
        print("begun", flush=True)
        time.sleep(600)
"""


@dataclass
class Machine:
    """A project, and a home of its own for everything else."""

    project: Path
    environ: dict[str, str]

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "glideslope", *arguments]

    def run(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=stdin,
            timeout=120,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    project = tmp_path / "pro ject"
    project.mkdir()
    (project / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    (project / "code_under_test.py").write_text(CODE)
    (project / "test_double.py").write_text(TEST)
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GLIDESLOPE")},
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "GLIDESLOPE_STATE_DIR": str(tmp_path / "state"),
    }
    made = Machine(project=project, environ=environ)
    yield made
    done = made.run("daemon", "stop")
    assert done.returncode == 0, done.stderr


def test_a_project_is_verified_read_about_and_verified_again(machine: Machine) -> None:
    first = machine.run("verify", "--python", sys.executable, "--json")
    assert first.returncode == 0, first.stdout + first.stderr
    run = json.loads(first.stdout)["data"]
    assert (run["verdict"], run["required_rung"]) == ("green", "test.scoped")
    (machine.project / "code_under_test.py").write_text(CODE.replace("* 2", "* 3"))
    red = machine.run("verify", "--python", sys.executable)
    assert red.returncode == 1, red.stdout + red.stderr
    assert "test_double" in red.stdout
    last = machine.json("last")["data"]
    assert last["rungs"][-1]["tests"]["failing"][0]["class"] == "new"
    log = last["rungs"][-1]["tests"]["failing"][0]["log_ref"] or last["rungs"][-1]["log_ref"]
    assert machine.run("log", log).returncode == 0
    assert [found["verdict"] for found in machine.json("runs")["data"]["runs"]] == ["red", "green"]
    assert machine.json("run", run["run_id"][:6])["data"]["run_id"] == run["run_id"]
    assert machine.run("last", "--exit-code").returncode == 1
    assert machine.run("run", run["run_id"], "--exit-code").returncode == 4
    status = machine.json("status")["data"]
    assert (status["last_verdict"], status["current"]) == ("red", True)
    events = [json.loads(line) for line in machine.run("events").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {check["state"] for check in machine.json("doctor")["data"]["checks"]} <= {
        "ok",
        "degraded",
        "missing",
    }
    assert machine.json("prune")["data"]["applied"] is False
    daemon = machine.json("daemon", "status")["data"]
    assert daemon["running"] is True
    assert machine.run("daemon", "stop").stdout == f"stopped {daemon['pid']}\n"
    assert machine.run("daemon", "stop").stdout == "no daemon runs\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_waiting_verify_cancels_its_run(machine: Machine, number: int) -> None:
    (machine.project / "test_slow.py").write_text(SLOW)
    argv = machine.argv("verify", "strict", "--python", sys.executable, "--ndjson")
    with subprocess.Popen(
        argv, cwd=machine.project, env=machine.environ, stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        seen: list[dict[str, Any]] = []
        for line in waiting.stdout:
            seen.append(json.loads(line))
            if seen[-1].get("rung") == "test.scoped" and seen[-1]["type"] == "AgentVerifyRungChanged":
                waiting.send_signal(number)
                break
        *_, envelope = [json.loads(line) for line in waiting.stdout]
        assert waiting.wait(60) == 6
    assert envelope["data"]["verdict"] == "cancelled"
    assert envelope["data"]["reason"] == "requested"
    assert machine.json("status")["data"]["active"] == []


def test_a_reader_that_leaves_early_is_met_with_silence(machine: Machine) -> None:
    machine.run("verify", "minimal", "--python", sys.executable)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            machine.argv("events"),
            cwd=machine.project,
            env=machine.environ,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_outside_of_any_workspace_it_is_a_request_error(machine: Machine, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    machine.project = empty
    done = machine.run("verify", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "no_workspace"


def test_completion_is_answered_by_the_real_program(machine: Machine) -> None:
    machine.environ |= {
        "_GLIDESLOPE_COMPLETE": "bash_complete",
        "COMP_WORDS": "glideslope veri",
        "COMP_CWORD": "1",
    }
    done = machine.run()
    assert done.stdout.split() == ["plain,verify"]
    for name in ("_GLIDESLOPE_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        del machine.environ[name]


@pytest.mark.parametrize("engine", ["daemon", "inprocess"])
async def test_the_api_verifies_with_either_engine(
    machine: Machine, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, machine.environ[name])
    state = machine.environ["GLIDESLOPE_STATE_DIR"]
    async with glideslope.open(machine.project, engine=engine, state_dir=state) as env:
        handle = await env.verify(policy="standard", python=sys.executable)
        seen = [event async for event in handle.events()]
        run = await handle.wait()
        assert run.verdict is glideslope.Verdict.GREEN, run
        assert seen[-1]["type"] == "AgentRunCompleted"
        assert await env.is_green()
        assert (await env.status()).last_run_id == run.run_id
        assert (await env.last()).run_id == run.run_id
        journaled = [event["seq"] async for event in env.events(after=0, follow=False)]
        assert journaled == list(range(1, len(journaled) + 1))
        (machine.project / "code_under_test.py").write_text(CODE + "\nX = 1\n")
        assert not await env.is_green()
        if engine == "inprocess":
            with pytest.raises(EngineBusy):
                async with glideslope.open(machine.project, engine="inprocess", state_dir=state):
                    pass


async def test_a_tied_run_ends_with_its_workspace(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, machine.environ[name])
    (machine.project / "test_slow.py").write_text(SLOW)
    state = machine.environ["GLIDESLOPE_STATE_DIR"]
    async with glideslope.open(machine.project, state_dir=state) as env:
        handle = await env.verify("strict", python=sys.executable, tie=True)
    async with glideslope.open(machine.project, state_dir=state) as env:
        run = await env.wait(handle.id)
    assert run.verdict is glideslope.Verdict.CANCELLED
