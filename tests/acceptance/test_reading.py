"""What the commands that only read say, and that the journal leaves nothing out."""

from __future__ import annotations

import json

import pytest
from tests.acceptance.desk import TINY, Repo, check_journal

pytestmark = pytest.mark.process

BUG = TINY["tiny.py"].replace("x * 2", "x * 3")


def test_every_reading_command_answers_with_an_envelope_and_is_served(repo: Repo) -> None:
    green = repo.verify().expect("green")
    repo.write({"tiny.py": BUG})
    red = repo.verify().expect("red")
    run, log = red.data["run_id"], red.rung("test.scoped")["log_ref"]
    calls = {
        "status": ("status",),
        "last": ("last",),
        "run": ("run", run),
        "runs": ("runs",),
        "log": ("log", log),
        "doctor": ("doctor", "--python", str(repo.python)),
        "prune": ("prune",),
        "config": ("config", "show"),
        "daemon": ("daemon", "status"),
    }

    answers = {name: repo.call(*call) for name, call in calls.items()}

    assert {name: answer.exit_code for name, answer in answers.items()} == dict.fromkeys(calls, 0)
    status = answers["status"].data
    assert (status["active"], status["queue"], status["cap"]) == ([], [], 2)
    assert (status["workspace"], status["last_run_id"], status["current"]) == (str(repo.root), run, True)
    assert status["verify_snapshot_id"] == red.data["verify_snapshot_id"]
    assert answers["last"].data == answers["run"].data
    assert {**answers["last"].data, "time_ms": None} == {**red.data, "time_ms": None}
    listed = answers["runs"].data["runs"]
    assert [one["run_id"] for one in listed] == [run, green.data["run_id"]]
    assert all("diagnostics" not in rung for one in listed for rung in one["rungs"])
    assert "test_double" in answers["log"].data["text"]
    checks = {check["id"]: check["state"] for check in answers["doctor"].data["checks"]}
    assert set(checks.values()) <= {"ok", "degraded", "missing"}
    assert "ok" in checks.values()
    assert answers["daemon"].data["running"] is True


def test_last_and_run_exit_by_verdict_only_when_asked(repo: Repo) -> None:
    repo.verify("minimal").expect("green")
    repo.write({"tiny.py": "def double(x:\n"})
    red = repo.verify("minimal").expect("red")

    assert repo.call("last").exit_code == 0
    assert repo.call("last", "--exit-code").exit_code == 1
    assert repo.call("run", red.data["run_id"][:6], "--exit-code").exit_code == 1


def test_the_journal_has_no_gap_and_ends_every_task_and_run_once(repo: Repo) -> None:
    run = repo.verify().expect("green").data["run_id"]
    events = repo.desk.events()

    check_journal(events)
    own = [event["type"] for event in events if event.get("run_id") == run]
    assert own[0] == "AgentRunStarted"
    assert own.count("AgentRunCompleted") == 1
    middle = events[len(events) // 2]["seq"]
    later = repo.desk.events(after=middle)
    assert [event["seq"] for event in later] == [
        event["seq"] for event in events if event["seq"] >= later[0]["seq"]
    ]
    assert later[0]["seq"] in (middle, middle + 1)


def test_events_while_waiting_are_lines_of_json_and_the_envelope_is_the_last(repo: Repo) -> None:
    done = repo.desk.run(*repo.named("verify", "minimal"), "--ndjson", cwd=repo.root)

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert lines[-1]["schema"] == "glideslope/1"
    assert lines[-1]["data"]["verdict"] == "green"
    types = [line["type"] for line in lines[:-1]]
    assert types[0] == "AgentRunStarted"
    assert types[-1] == "AgentRunCompleted"
    seqs = [line["seq"] for line in lines[:-1]]
    assert seqs == sorted(set(seqs))


def test_the_time_of_the_tasks_is_the_time_in_the_environment(repo: Repo) -> None:
    answer = repo.verify().expect("green")

    walls = [
        event["duration_ms"]
        for event in repo.desk.events()
        if event.get("run_id") == answer.data["run_id"] and event["type"] == "AgentEnvironmentTaskCompleted"
    ]
    time = answer.data["time_ms"]
    assert len(walls) >= 3
    assert abs(time["environment"] - sum(walls)) <= len(walls)
    assert time["reasoning"] is None


def test_a_log_is_paged_and_searched(repo: Repo) -> None:
    repo.commit({"test_print.py": "def test_print():\n    print('needle')\n    assert False\n"})
    ref = repo.verify().expect("red").rung("test.scoped")["log_ref"]

    whole = repo.call("log", ref).data
    page = repo.call("log", ref, "--from", "10").data
    found = repo.call("log", ref, "--grep", "needle").data

    assert whole["ref"] == ref
    assert whole["total_bytes"] >= len("needle")
    assert page["from"] == 10
    assert page["text"] == whole["text"][10:]
    assert "needle" in found["text"]
    assert len(found["text"]) < len(whole["text"])


def test_a_person_reads_the_block_and_nothing_else_on_standard_output(repo: Repo) -> None:
    done = repo.desk.run(*repo.named("verify"), cwd=repo.root)

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("Verify · standard · epoch ")
    assert lines[-1] == "Status: green (standard) · required test.scoped · reached test.scoped"
    quiet = repo.desk.run(*repo.named("verify", "--quiet"), cwd=repo.root)
    assert quiet.stdout.splitlines() == lines[-1:]


def test_diagnose_answers_as_compilers_do(repo: Repo) -> None:
    repo.write({"tiny.py": "def double(x:\n    return x\n"})

    done = repo.desk.run(*repo.named("diagnose"), cwd=repo.root)

    assert done.returncode == 1
    assert done.stdout.startswith("tiny.py:1:")


def test_chosen_tests_are_run_alone_and_failed_ones_again(repo: Repo) -> None:
    repo.commit({"test_two.py": "def test_good():\n    pass\n\n\ndef test_bad():\n    assert 0\n"})

    good = repo.call(*repo.named("test", "test_two.py::test_good")).expect("green")
    both = repo.call(*repo.named("test", "test_two.py")).expect("red")
    again = repo.call(*repo.named("test", "--rerun-failed")).expect("red")

    assert good.rung("test.scoped")["tests"]["passed"] == 1
    assert list(both.failing("test.scoped")) == ["test_two.py::test_bad"]
    counts = again.rung("test.scoped")["tests"]
    assert (counts["passed"], counts["failed"]) == (0, 1)


def test_prune_lists_first_and_removes_only_when_told(repo: Repo) -> None:
    run = repo.verify("minimal").expect("green").data["run_id"]

    listed = repo.call("prune", "--keep-runs", "200")
    applied = repo.call("prune", "--keep-runs", "200", "--apply")

    assert (listed.exit_code, applied.exit_code) == (0, 0)
    assert repo.call("run", run).data["verdict"] == "green"
    repo.verify("minimal", "--no-cache").expect("green")
