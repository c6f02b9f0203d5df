"""SIGKILL at random moments of a run's life: one verdict, one ending per task, nothing left.

The moments are drawn over the measured life of a run, so that snapshot, queue, spawn, report and
journal are each hit. `GLIDESLOPE_TEST_KILLS` sets how many kills per victim (default 2, the long
form 20).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glideslope.testing.census import Seen, marked_processes, mount_table

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parents[2] / "examples" / "shop"
KILLS = int(os.environ.get("GLIDESLOPE_TEST_KILLS", "2"))
VERDICTS = {"green": 0, "died": 5, "cancelled": 6, "stale": 4, "red": 1, "inconclusive": 7}
GONE_S = 15.0


@dataclass
class Desk:
    """A project, a state folder, and the command line on both."""

    repo: Path
    state: Path
    token: str

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GLIDESLOPE")}
        return {
            **kept,
            "GLIDESLOPE_STATE_DIR": str(self.state),
            "GLIDESLOPE_TEST_TOKEN": self.token,
            "XDG_RUNTIME_DIR": str(self.state.parent / "run"),
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "glideslope", *arguments, "--repo", str(self.repo), "--json"]

    def start_verify(self) -> subprocess.Popen[bytes]:
        argv = self.command("verify", "standard", "--no-cache", "--python", sys.executable)
        return subprocess.Popen(argv, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, *arguments: str) -> dict[str, object]:
        done = subprocess.run(
            self.command(*arguments), env=self.environ, capture_output=True, check=False, timeout=120
        )
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    def events(self) -> list[dict[str, object]]:
        argv = [sys.executable, "-m", "glideslope", "events", "--from", "0"]
        done = subprocess.run(argv, env=self.environ, capture_output=True, check=True, timeout=120)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def marks(self) -> list[bytes]:
        return [self.token.encode(), *(f"GLIDESLOPE_RUN_ID={run}".encode() for run in self.runs())]

    def runs(self) -> set[str]:
        return {str(event["run_id"]) for event in self.events() if event.get("run_id")}

    def owner_pid(self) -> int:
        return int(json.loads((self.state / "lock").read_text())["pid"])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    repo = tmp_path / "shop"
    shutil.copytree(EXAMPLE, repo)
    for argv in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, "-C", str(repo), *argv], check=True)
    (tmp_path / "run").mkdir(mode=0o700)
    made = Desk(repo=repo, state=tmp_path / "state", token=f"token-{random.getrandbits(64):x}")
    yield made
    made.call("daemon", "stop")
    wait_until(lambda: not marked_processes([made.token.encode()]), "the daemon is gone after stop")


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = GONE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


def measured_life_s(desk: Desk) -> float:
    """How long a run takes with the daemon up; also warms what a first run has to make."""
    for _ in range(2):
        began = time.monotonic()
        process = desk.start_verify()
        process.communicate(timeout=120)
        assert process.returncode == 0
    return time.monotonic() - began


def victims(desk: Desk, client: subprocess.Popen[bytes]) -> dict[str, Callable[[], list[int]]]:
    def tasks(wanted: Callable[[Seen], bool]) -> list[int]:
        return [seen.pid for seen in marked_processes([b"GLIDESLOPE_RUN_ID="]) if wanted(seen)]

    return {
        "client": lambda: [client.pid],
        "daemon": lambda: [desk.owner_pid()],
        "pytest": lambda: tasks(lambda seen: any("pytest_run" in part for part in seen.argv)),
        "tool": lambda: tasks(lambda seen: bool(seen.argv) and "pytest_run" not in " ".join(seen.argv)),
    }


@pytest.mark.parametrize("victim", ["client", "daemon", "pytest", "tool"])
def test_whoever_is_killed_every_run_ends_once_and_nothing_is_left(desk: Desk, victim: str) -> None:
    life_s, moments = measured_life_s(desk), random.Random(20261201 + len(victim))
    mounts, hits = mount_table(), 0
    for _ in range(KILLS):
        client = desk.start_verify()
        hits += kill_at(desk, client, victim, moments.uniform(0.0, life_s))
        client.communicate(timeout=120)
        if victim != "client":
            assert client.returncode in VERDICTS.values(), client.returncode
        settle(desk)
        check_endings(desk.events())
    assert hits, "no kill hit anything: the moments miss the life of the victim"
    assert mount_table() == mounts
    answer = desk.call("verify", "standard", "--no-cache", "--python", sys.executable)
    assert answer["ok"] and answer["data"]["verdict"] == "green"  # type: ignore[index]


def kill_at(desk: Desk, client: subprocess.Popen[bytes], victim: str, moment_s: float) -> int:
    """Kills the victim at a moment, or at the first later one at which there is one."""
    time.sleep(moment_s)
    find = victims(desk, client)[victim]
    while client.poll() is None:
        for pid in find()[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return 1
    return 0


def settle(desk: Desk) -> None:
    """Waits for the end of a run that goes on without its client, then for its processes."""
    wait_until(lambda: not desk.call("status")["data"]["active"], "no run is active", 60)  # type: ignore[index]
    wait_until(lambda: not marked_processes([b"GLIDESLOPE_RUN_ID="]), "no process of a run is left")
    served = (desk.owner_pid(),)
    wait_until(lambda: all(is_service(seen, served) for seen in marked_processes(desk.marks())), "strays")


def is_service(seen: Seen, served: tuple[int, ...]) -> bool:
    return seen.pid in served or "launcher" in seen.argv


def check_endings(events: list[dict[str, object]]) -> None:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    started = {event["run_id"] for event in events if event["type"] == "AgentRunStarted"}
    completed = Counter(event["run_id"] for event in events if event["type"] == "AgentRunCompleted")
    assert set(completed) == started and set(completed.values()) <= {1}
    ended = ("AgentEnvironmentTaskCompleted", "AgentEnvironmentTaskDied")
    queued = {
        event["task_id"]
        for event in events
        if event["type"] == "AgentEnvironmentTaskChanged" and event["state"] == "queued"
    }
    endings = Counter(event["task_id"] for event in events if event["type"] in ended)
    assert set(endings) == queued and set(endings.values()) <= {1}
