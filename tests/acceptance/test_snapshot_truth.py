"""A verdict is about exactly one content: writes make it stale, returns make it current again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.desk import EXIT, TINY, Repo, answered_by, wait_until

pytestmark = pytest.mark.process

BUG = TINY["tiny.py"].replace("x * 2", "x * 3")
SLOW = """import time

import tiny


def test_slow():
    assert tiny.double(2) == 4
    time.sleep(600)
"""


@pytest.mark.parametrize("file", ["tiny.py", "notes.txt"])
def test_an_edit_during_a_run_is_stale_and_never_green(repo: Repo, file: str) -> None:
    repo.commit({"test_slow.py": SLOW})
    waiting = repo.start_verify()
    repo.wait_running("test_slow.py")
    repo.write({file: "# a line of an editor\n"})

    answer = answered_by(waiting).expect("stale")

    assert answer.data["stale"] == {"reason": "write_in_epoch", "paths": [file]}
    assert answer.data["current"] is False
    assert answer.rung("test.scoped")["state"] == "cancelled"


def test_an_edit_and_its_undoing_lead_back_to_the_same_id_and_what_was_proved_of_it(repo: Repo) -> None:
    repo.verify("minimal").expect("green")
    before = repo.snapshot_id()
    repo.write({"tiny.py": BUG})
    changed = repo.snapshot_id()
    repo.write({"tiny.py": TINY["tiny.py"]})

    answer = repo.verify("minimal").expect("green")

    assert changed != before == answer.data["verify_snapshot_id"]
    assert all(rung["cached"] for rung in answer.data["rungs"])
    assert answer.data["current"] is True


def test_the_old_verdict_applies_again_after_a_revert(repo: Repo) -> None:
    first = repo.verify("minimal").expect("green")
    repo.write({"tiny.py": BUG})
    assert repo.call("last", "--exit-code").exit_code == EXIT["stale"]
    repo.write({"tiny.py": TINY["tiny.py"]})

    last = repo.call("last", "--exit-code")

    assert (last.exit_code, last.verdict, last.data["current"]) == (0, "green", True)
    assert last.data["run_id"] == first.data["run_id"]


def test_a_watched_workspace_tells_of_stale_and_of_current_again(repo: Repo) -> None:
    run = repo.verify("minimal").expect("green").data["run_id"]

    def told(kind: str) -> bool:
        return any(event["type"] == kind and event["run_id"] == run for event in repo.desk.events())

    # Another program writes; nobody asks.
    subprocess.run([sys.executable, "-c", "open('tiny.py', 'a').write('\\n')"], cwd=repo.root, check=True)
    wait_until(lambda: told("AgentVerifyEpochStale"), "the epoch is stale")
    repo.write({"tiny.py": TINY["tiny.py"]})
    wait_until(lambda: told("AgentVerifyEpochCurrent"), "the epoch is current again")


def test_two_edits_of_one_file_are_two_ids_and_the_undone_one_is_the_first(repo: Repo) -> None:
    ids = []
    for number in (1, 2, 1):
        repo.write({"tiny.py": f"{TINY['tiny.py']}# {number}\n"})
        ids.append(repo.snapshot_id())

    assert ids[0] != ids[1]
    assert ids[0] == ids[2]


def test_configuration_data_and_untracked_files_are_all_part_of_the_id(repo: Repo) -> None:
    repo.commit({"data/table.csv": "1,2\n", ".gitignore": "*.log\n"})
    ids = [repo.snapshot_id()]
    for path, text in (
        ("pyproject.toml", '[project]\nname = "other"\nversion = "1"\n'),
        ("data/table.csv", "1,3\n"),
        ("untracked.txt", ""),
        ("untracked.txt", "more"),
    ):
        repo.write({path: text})
        ids.append(repo.snapshot_id())
    (repo.root / "tiny.py").chmod(0o755)
    ids.append(repo.snapshot_id())

    assert len(set(ids)) == len(ids)
    repo.write({"ignored.log": "noise"})
    assert repo.snapshot_id() == ids[-1]


def test_a_change_of_the_environment_makes_the_verdict_stale(repo: Repo, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = str(environment / "bin" / "python")
    library = next((environment / "lib").iterdir()) / "site-packages"
    repo.call("verify", "minimal", "--python", python).expect("green")
    (library / "other-1.0.dist-info").mkdir()

    answer = repo.call("last", "--exit-code")

    assert (answer.verdict, answer.exit_code, answer.data["current"]) == ("green", EXIT["stale"], False)


# What the change is


def test_a_committed_bug_is_red_though_the_tree_is_clean(repo: Repo) -> None:
    repo.verify().expect("green")
    repo.commit({"tiny.py": BUG})

    answer = repo.verify().expect("red")

    assert answer.data["dirty_paths"] == []
    assert answer.data["changed_paths"] == ["tiny.py"]
    assert answer.data["base_reason"] == "last_green"
    assert answer.failing("test.scoped") == {"test_tiny.py::test_double": "new"}
    assert repo.verify().expect("red").failing("test.scoped") == {"test_tiny.py::test_double": "new"}


def test_an_amended_commit_with_an_equal_tree_has_the_same_id_and_verdict(repo: Repo) -> None:
    first = repo.verify("minimal").expect("green")
    repo.git("commit", "--amend", "-q", "-m", "other words")
    assert repo.git("rev-parse", "HEAD") != first.data["git_head"]

    last = repo.call("last", "--exit-code")
    again = repo.verify("minimal").expect("green")

    assert (last.exit_code, last.data["current"]) == (0, True)
    assert again.data["verify_snapshot_id"] == first.data["verify_snapshot_id"]
    assert all(rung["cached"] for rung in again.data["rungs"])


def test_a_stash_goes_back_to_the_verdict_of_the_older_content(repo: Repo) -> None:
    green = repo.verify().expect("green")
    repo.write({"tiny.py": BUG})
    red = repo.verify().expect("red")
    repo.git("stash", "-q")

    clean = repo.verify().expect("green")
    repo.git("stash", "pop", "-q")
    dirty = repo.verify().expect("red")

    assert clean.data["verify_snapshot_id"] == green.data["verify_snapshot_id"]
    assert all(rung["cached"] for rung in clean.data["rungs"])
    assert dirty.data["verify_snapshot_id"] == red.data["verify_snapshot_id"]
    assert not dirty.rung("test.scoped")["cached"]  # a failure is never served from before


def test_a_branch_is_compared_with_its_own_ancestors_first(repo: Repo) -> None:
    main = repo.verify().expect("green")
    repo.git("switch", "-q", "-c", "topic")
    repo.commit({"other.py": "def other():\n    return 1\n", "test_other.py": OTHER})
    topic = repo.verify().expect("green")
    assert topic.data["base_snapshot_id"] == main.data["verify_snapshot_id"]
    repo.git("switch", "-q", "main")
    repo.commit({"tiny.py": TINY["tiny.py"].replace("x * 2", "x + x")})

    answer = repo.verify().expect("green")

    assert answer.data["base_reason"] == "last_green"
    assert answer.data["base_snapshot_id"] == main.data["verify_snapshot_id"]
    assert answer.data["changed_paths"] == ["tiny.py"]


OTHER = "from other import other\n\n\ndef test_other():\n    assert other() == 1\n"


def test_a_branch_that_was_never_verified_is_compared_with_the_merge_base(repo: Repo) -> None:
    repo.commit({"other.py": "def other():\n    return 1\n", "test_other.py": OTHER})
    repo.git("switch", "-q", "-c", "topic")
    repo.commit({"tiny.py": BUG})

    answer = repo.verify().expect("red")

    assert answer.data["base_reason"] == "merge_base"
    assert answer.data["changed_paths"] == ["tiny.py"]
    assert answer.rung("test.scoped")["tests"]["selected"] == 1
    assert answer.failing("test.scoped") == {"test_tiny.py::test_double": "new"}


def test_a_newer_verify_supersedes_the_older_one_and_an_equal_one_joins_it(repo: Repo) -> None:
    repo.commit({"test_slow.py": SLOW})
    older = repo.start_verify()
    run = repo.wait_running("test_slow.py")
    joined = repo.verify("--no-wait")
    assert (joined.exit_code, joined.data["verdict"], joined.data["run_id"]) == (0, None, run)
    (repo.root / "test_slow.py").unlink()

    newer = repo.verify().expect("green")

    stale = answered_by(older).expect("stale")
    assert newer.data["run_id"] != stale.data["run_id"] == run
    assert stale.data["stale"]["reason"] in ("superseded", "write_in_epoch")  # whichever was seen first
