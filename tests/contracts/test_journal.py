"""What every journal must do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from glideslope.adapters.clock import SystemClock
from glideslope.adapters.journal import SCHEMA, SqliteJournal
from glideslope.errors import StateUnavailable, UnknownId
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    AgentRunPhaseChanged,
    AgentRunStarted,
    HostDied,
)
from glideslope.model.ids import BlobId, EnvironmentKey, RunId, Scope, SnapshotId, TaskId, TreeId
from glideslope.model.paths import RepoPath
from glideslope.model.proof import RungProof
from glideslope.model.result import Verdict
from glideslope.model.run import Run
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason, Entry, FileMode, Snapshot
from glideslope.model.task import TaskState
from glideslope.model.timeslice import Phase
from glideslope.ports.journal import Journal

HERE = Scope("/home/ann/shop")
THERE = Scope("/home/ann/\udcff-odd")  # a folder whose name is not UTF-8


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = SqliteJournal(str(tmp_path / "journal.sqlite3"), SystemClock())
    yield opened
    opened.close()


def a_run(
    name: str, *, scope: Scope = HERE, verdict: Verdict | None = None, snapshot: str | None = None
) -> Run:
    return Run(
        id=RunId(name),
        action="verify",
        epoch=None,
        scope=scope,
        policy=VerifyPolicy.STANDARD,
        sandbox_profile="agent_ephemeral",
        isolation=None,
        snapshot=SnapshotId(snapshot) if snapshot else None,
        tree_id=None,
        git_head=None,
        inputs_digest=None,
        environment_key=None,
        dirty_paths=(),
        base_snapshot=None,
        base_reason=BaseReason.NONE,
        changed_paths=(),
        verdict=verdict,
        stale=None,
        cancelled=None,
        required_rung=None,
        max_rung_reached=None,
        rungs=(),
        time=None,
        started_at="2026-01-01T00:00:00.000Z",
        ended_at=None,
    )


def open_run(journal: Journal, name: str, *, scope: Scope = HERE) -> Run:
    run = a_run(name, scope=scope)
    journal.append(AgentRunStarted(run_id=run.id, run=run), scope=scope)
    return run


def complete_run(journal: Journal, run: Run) -> Run:
    ended = replace(run, verdict=Verdict.GREEN)
    event = AgentRunCompleted(run_id=run.id, verdict=Verdict.GREEN, max_rung_reached=None, run=ended)
    journal.append(event, scope=run.scope)
    return ended


def task_changed(
    task: str, state: TaskState = TaskState.QUEUED, message: str = ""
) -> AgentEnvironmentTaskChanged:
    return AgentEnvironmentTaskChanged(
        task_id=TaskId(task), run_id=RunId("r1"), kind="k", rung=None, state=state, message=message
    )


def a_snapshot(name: str) -> Snapshot:
    entry = Entry(FileMode.REGULAR, BlobId("b" * 40), 3)
    return Snapshot(
        id=SnapshotId(name),
        tree_id=TreeId("t" * 40),
        entries={RepoPath("a.py"): entry, RepoPath("odd-\udcff"): entry},
        inputs={},
        inputs_digest="i",
        git=None,
        dirty_paths=(),
    )


def a_proof(number: int, *, project: str = ".", snapshot: str = "s1-1") -> RungProof:
    return RungProof(
        run=RunId(f"r{number}"),
        scope=HERE,
        repository="/home/ann/shop/.git",
        snapshot=SnapshotId(snapshot),
        rung=Rung.SCOPED,
        project=project,
        environment_key=EnvironmentKey("e"),
        settings_digest="d",
        selector="1",
        isolation="snapshot",
        git_head=None,
        covered="c",
    )


def test_events_are_numbered_from_one_without_gaps(journal: Journal) -> None:
    recorded = [journal.append(task_changed(f"t{n}"), scope=HERE) for n in range(5)]

    assert [each.seq for each in recorded] == [1, 2, 3, 4, 5]
    assert journal.last_seq() == 5


def test_what_was_appended_is_what_is_read(journal: Journal) -> None:
    events = (task_changed("t1"), HostDied(host_kind="tool", pid=7, stderr_tail="odd \udcff \x10"))
    recorded = [
        journal.append(event, scope=scope) for event, scope in zip(events, (THERE, None), strict=True)
    ]

    assert list(journal.read(after=0)) == recorded
    assert list(journal.read(after=1)) == recorded[1:]
    assert list(journal.read(after=0, limit=1)) == recorded[:1]
    assert list(journal.read(after=2)) == []


def test_threads_that_append_at_once_still_leave_no_gap(journal: Journal) -> None:
    numbers: list[int] = []

    def append() -> None:
        numbers.extend(journal.append(task_changed("t"), scope=HERE).seq for _ in range(50))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(numbers) == list(range(1, 201))
    assert [each.seq for each in journal.read(after=0)] == list(range(1, 201))


def test_a_run_reads_as_it_was_last_recorded(journal: Journal) -> None:
    run = open_run(journal, "run-a")
    assert journal.run(run.id) == run

    ended = complete_run(journal, run)
    assert journal.run(run.id) == ended


def test_a_prefix_of_one_id_serves_and_a_prefix_of_two_is_an_error(journal: Journal) -> None:
    first, second = open_run(journal, "3f9a01"), open_run(journal, "3f9b02")

    assert journal.run(RunId("3f9a")) == first
    assert journal.run(second.id) == second
    with pytest.raises(UnknownId, match="more than one"):
        journal.run(RunId("3f9"))


def test_an_id_that_begins_another_is_found_itself(journal: Journal) -> None:
    short, _longer = open_run(journal, "3f"), open_run(journal, "3f9a")

    assert journal.run(RunId("3f")) == short


@pytest.mark.parametrize("unknown", ["", "nope", "%", "_", "\udcff", "'; DROP TABLE runs; --"])
def test_an_id_that_names_nothing_is_none(journal: Journal, unknown: str) -> None:
    open_run(journal, "3f9a")

    assert journal.run(RunId(unknown)) is None


def test_runs_come_newest_first_and_in_pages(journal: Journal) -> None:
    runs = [open_run(journal, f"r{n}") for n in range(5)]
    elsewhere = open_run(journal, "elsewhere", scope=THERE)

    assert list(journal.runs(scope=HERE)) == runs[::-1]
    assert list(journal.runs(scope=THERE)) == [elsewhere]
    assert list(journal.runs()) == [elsewhere, *runs[::-1]]
    assert list(journal.runs(scope=HERE, limit=2)) == [runs[4], runs[3]]
    assert list(journal.runs(scope=HERE, limit=2, before=runs[3].id)) == [runs[2], runs[1]]
    with pytest.raises(UnknownId):
        journal.runs(before=RunId("nope"))


def test_a_run_is_open_until_it_completed(journal: Journal) -> None:
    first, second = open_run(journal, "r1"), open_run(journal, "r2")
    complete_run(journal, first)

    assert list(journal.open_runs()) == [second]


def test_a_task_is_open_until_it_has_an_ending(journal: Journal) -> None:
    journal.append(task_changed("t1"), scope=HERE)
    running = journal.append(task_changed("t1", TaskState.RUNNING), scope=HERE)
    for task in ("t2", "t3"):
        journal.append(task_changed(task), scope=HERE)
    journal.append(
        AgentEnvironmentTaskCompleted(
            task_id=TaskId("t2"),
            run_id=RunId("r1"),
            kind="k",
            rung=None,
            state=TaskState.COMPLETED,
            result_summary="",
            duration_ms=1,
        ),
        scope=HERE,
    )
    journal.append(
        AgentEnvironmentTaskDied(task_id=TaskId("t3"), run_id=None, kind="k", rung=None, host_kind="tool"),
        scope=HERE,
    )

    assert list(journal.open_tasks()) == [running]


def test_a_kept_snapshot_comes_back_whole(journal: Journal) -> None:
    kept = a_snapshot("s1-1")
    journal.keep_snapshot(kept)
    journal.keep_snapshot(kept)

    assert journal.snapshot(kept.id) == kept
    assert journal.snapshot(SnapshotId("s1-2")) is None


def test_proofs_come_newest_first_and_only_of_what_was_asked(journal: Journal) -> None:
    proofs = [a_proof(n) for n in range(3)]
    for proof in (*proofs, a_proof(9, project="other"), replace(a_proof(8), rung=Rung.FULL)):
        journal.prove(proof)

    asked = {"repository": proofs[0].repository, "rung": Rung.SCOPED, "project": "."}
    assert list(journal.proofs(**asked)) == proofs[::-1]  # type: ignore[arg-type]
    assert list(journal.proofs(**asked, limit=1)) == [proofs[2]]  # type: ignore[arg-type]


def test_trimming_keeps_the_newest_runs_of_each_scope_and_every_open_one(journal: Journal) -> None:
    old_open = open_run(journal, "open")
    done = [complete_run(journal, open_run(journal, f"r{n}")) for n in range(4)]
    elsewhere = complete_run(journal, open_run(journal, "elsewhere", scope=THERE))

    gone = journal.trim(keep_runs=2)

    assert list(journal.runs()) == [elsewhere, done[3], done[2], old_open]
    assert gone == 4
    left = [each.seq for each in journal.read(after=0)]
    assert left == sorted(left) == [1, 6, 7, 8, 9, 10, 11]


def test_trimming_never_gives_a_number_twice(journal: Journal) -> None:
    complete_run(journal, open_run(journal, "r1"))
    journal.trim(keep_runs=0)

    assert journal.append(task_changed("t1"), scope=HERE).seq == 3


def test_trimming_leaves_open_tasks_and_what_kept_runs_and_proofs_stand_on(journal: Journal) -> None:
    waiting = journal.append(task_changed("t1"), scope=HERE)
    for name in ("s1-run", "s1-proof", "s1-loose"):
        journal.keep_snapshot(a_snapshot(name))
    journal.prove(a_proof(1, snapshot="s1-proof"))
    kept = a_run("r1", snapshot="s1-run", verdict=Verdict.RED)
    journal.append(
        AgentRunCompleted(run_id=kept.id, verdict=Verdict.RED, max_rung_reached=None, run=kept), scope=HERE
    )

    journal.trim(keep_runs=1)

    assert list(journal.open_tasks()) == [waiting]
    held = [journal.snapshot(SnapshotId(name)) is not None for name in ("s1-run", "s1-proof", "s1-loose")]
    assert held == [True, True, False]


def test_events_of_no_run_go_when_they_are_older_than_every_kept_run(journal: Journal) -> None:
    died = HostDied(host_kind="tool", pid=1)
    journal.append(died, scope=HERE)
    run = open_run(journal, "r1")
    journal.append(AgentRunPhaseChanged(run_id=run.id, phase=Phase.ENVIRONMENT), scope=HERE)
    journal.append(died, scope=HERE)
    journal.append(died, scope=HERE)

    assert journal.trim(keep_runs=5) == 1
    assert [each.seq for each in journal.read(after=0)] == [2, 3, 4, 5]


def test_what_was_trimmed_is_given_back_to_the_disk(tmp_path: Path) -> None:
    def pages() -> int:
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as other:
            return int(other.execute("PRAGMA page_count").fetchone()[0])

    journal = reopened(tmp_path / "journal.sqlite3")
    for n in range(1000):
        journal.append(HostDied(host_kind="tool", pid=n, stderr_tail="x" * 1000), scope=None)
    before = pages()
    journal.trim(keep_runs=0)

    assert before > 200
    assert pages() < 30
    journal.close()


GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "journal").glob("*.sql"))


@pytest.mark.parametrize("dump", GOLDEN, ids=lambda dump: dump.stem)
def test_a_journal_of_every_schema_there_was_loads(tmp_path: Path, dump: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(path)) as other:
        other.executescript(dump.read_text(encoding="utf-8"))

    journal = reopened(path)
    assert journal.last_seq() == 7
    assert [type(each.event).__name__ for each in journal.read(after=0)] == [
        "AgentRunStarted",
        "AgentEnvironmentTaskChanged",
        "AgentRunStarted",
        "AgentEnvironmentTaskChanged",
        "AgentEnvironmentTaskDied",
        "HostDied",
        "AgentRunCompleted",
    ]
    assert [run.id for run in journal.runs(scope=HERE)] == ["run-b", "run-a"]
    assert [run.id for run in journal.open_runs()] == ["run-a"]
    assert [each.seq for each in journal.open_tasks()] == [2]
    assert journal.snapshot(SnapshotId("s1-1")) == a_snapshot("s1-1")
    assert list(journal.proofs(repository="/home/ann/shop/.git", rung=Rung.SCOPED, project=".")) == [
        a_proof(1)
    ]
    assert journal.append(task_changed("t9"), scope=HERE).seq == 8
    journal.close()


def test_there_is_a_golden_journal_of_the_schema_of_today() -> None:
    assert f"schema-{SCHEMA}" in {dump.stem for dump in GOLDEN}


# --- of the file -----------------------------------------------------------------------------


def reopened(path: Path) -> SqliteJournal:
    return SqliteJournal(str(path), SystemClock())


def test_everything_is_there_again_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = reopened(path)
    run = open_run(journal, "r1")
    journal.append(task_changed("t1"), scope=HERE)
    journal.close()

    again = reopened(path)
    assert (again.last_seq(), list(again.open_runs()), len(again.open_tasks())) == (2, [run], 1)
    assert again.append(task_changed("t2"), scope=HERE).seq == 3
    again.close()


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    reopened(tmp_path / "journal.sqlite3").close()

    assert (tmp_path / "journal.sqlite3").stat().st_mode & 0o077 == 0


def test_an_append_that_fails_leaves_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = reopened(path)
    journal.append(task_changed("t1"), scope=HERE)
    other = sqlite3.connect(path)
    other.execute("CREATE TRIGGER deny BEFORE INSERT ON open_tasks BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(StateUnavailable):
        journal.append(task_changed("t2"), scope=HERE)
    other.execute("DROP TRIGGER deny")
    other.close()

    assert journal.append(task_changed("t3"), scope=HERE).seq == 2
    assert [each.seq for each in journal.read(after=0)] == [1, 2]
    journal.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    reopened(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 999")
    other.close()

    with pytest.raises(StateUnavailable, match="newer version"):
        reopened(path)
    assert [each.name for each in tmp_path.iterdir() if "damaged" in each.name] == []


def test_a_file_that_is_no_database_is_moved_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    path.write_bytes(b"nonsense" * 1000)

    journal = reopened(path)
    journal.append(task_changed("t1"), scope=HERE)
    journal.close()

    assert (tmp_path / "journal.sqlite3.damaged-1").read_bytes() == b"nonsense" * 1000
    again = reopened(path)
    assert again.last_seq() == 1
    again.close()


def damage(path: Path, first_page: int, last_page: int | None = None) -> None:
    """Overwrites pages of 4096 bytes, counted from 1, both included."""
    end = path.stat().st_size if last_page is None else last_page * 4096
    with path.open("r+b") as file:
        file.seek((first_page - 1) * 4096)
        file.write(b"\xa5" * (end - file.tell()))


def test_damage_that_shows_when_opening_is_moved_aside_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = reopened(path)
    for n in range(100):
        journal.append(task_changed(f"t{n}"), scope=HERE)
    journal.close()
    damage(path, 2)

    fresh = reopened(path)
    assert fresh.append(task_changed("t"), scope=HERE).seq == 1
    fresh.close()


def test_damage_found_while_working_is_an_error_now_and_a_new_file_next_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = reopened(path)
    for _ in range(2000):
        journal.append(task_changed("t", message="x" * 100), scope=HERE)
    journal.close()
    damage(path, 40, 60)

    broken = reopened(path)
    with pytest.raises(StateUnavailable, match="damaged"):
        broken.read(after=0, limit=5000)
    broken.close()

    fresh = reopened(path)
    assert fresh.append(task_changed("t"), scope=HERE).seq == 1
    fresh.close()
    assert (tmp_path / "journal.sqlite3.damaged-1").exists()


def test_a_row_that_no_version_of_ours_wrote_does_not_cost_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    reopened(path).close()
    other = sqlite3.connect(path)
    other.execute(
        """INSERT INTO events VALUES (1, '', NULL, NULL, NULL, '{"v": 1, "type": "FromTheFuture"}')"""
    )
    other.commit()
    other.close()

    journal = reopened(path)
    with pytest.raises(StateUnavailable, match="newer version"):
        journal.read(after=0)
    journal.close()
    assert not list(tmp_path.glob("*damaged*"))
