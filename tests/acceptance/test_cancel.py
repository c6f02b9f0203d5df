"""Cancel is done when the processes are gone."""

from __future__ import annotations

import signal

import pytest
from tests.acceptance.desk import Repo, answered_by, wait_until

from glideslope.testing.census import marked_processes, mount_table

pytestmark = pytest.mark.process

STUBBORN = """import os
import signal
import time


def stubborn():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


def test_stubborn():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            stubborn()
        stubborn()
    stubborn()
"""


def of_run(run_id: str) -> int:
    return len(marked_processes([f"GLIDESLOPE_RUN_ID={run_id}".encode()]))


def test_cancel_returns_when_even_stubborn_processes_are_gone(repo: Repo) -> None:
    mounts = mount_table()
    waiting = repo.commit({"test_stubborn.py": STUBBORN}).start_verify()
    run = repo.wait_running("test_stubborn.py")
    wait_until(lambda: of_run(run) >= 3, "all three processes are there")

    answer = repo.call("cancel", run)

    assert of_run(run) == 0
    assert answer.exit_code == 0
    assert answer.data == {"cancelled": [run], "survivors": 0}
    cancelled = answered_by(waiting).expect("cancelled")
    assert cancelled.data["reason"] == "requested"
    assert cancelled.rung("test.scoped")["state"] == "cancelled"
    assert mount_table() == mounts
    (repo.root / "test_stubborn.py").unlink()
    repo.verify("minimal").expect("green")


def test_an_interrupted_verify_cancels_its_run(repo: Repo) -> None:
    waiting = repo.commit({"test_stubborn.py": STUBBORN}).start_verify()
    run = repo.wait_running("test_stubborn.py")
    waiting.send_signal(signal.SIGINT)

    answered_by(waiting).expect("cancelled")

    assert of_run(run) == 0


def test_a_run_over_its_time_is_cancelled_with_that_reason(repo: Repo) -> None:
    answer = repo.commit({"test_stubborn.py": STUBBORN}).verify("--timeout", "3").expect("cancelled")

    assert answer.data["reason"] == "timeout"
    assert of_run(answer.data["run_id"]) == 0


def test_nothing_to_cancel_is_served_all_the_same(repo: Repo) -> None:
    answer = repo.call("cancel")

    assert (answer.exit_code, answer.data) == (0, {"cancelled": [], "survivors": 0})
