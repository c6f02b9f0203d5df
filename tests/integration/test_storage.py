"""What goes from a state folder, and what stays."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from glideslope.adapters.clock import SystemClock
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.state import StateFolder
from glideslope.adapters.storage import LOG_YOUNG_S, TREE_IDLE_S, StateStorage
from glideslope.adapters.vcs import LocalVcs
from glideslope.errors import InvalidInput
from glideslope.model.event import AgentRunCompleted, AgentRunStarted
from glideslope.model.ids import LogRef, RunId, Scope
from glideslope.model.result import Verdict
from glideslope.model.run import Run
from glideslope.testing.sample import green_run

pytestmark = pytest.mark.process


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder.open(str(tmp_path / "state"))


def storage(state: StateFolder, *, cap_bytes: int = 10**9) -> tuple[StateStorage, SqliteJournal, LocalVcs]:
    journal, vcs = SqliteJournal(state.journal, SystemClock()), LocalVcs(state.root)
    return StateStorage(state=state, vcs=vcs, journal=journal, cap_bytes=cap_bytes), journal, vcs


def record(journal: SqliteJournal, run: Run) -> None:
    journal.append(AgentRunStarted(run_id=run.id, run=run), scope=run.scope)
    ended = AgentRunCompleted(run_id=run.id, verdict=Verdict.GREEN, max_rung_reached=None, run=run)
    journal.append(ended, scope=run.scope)


def aged(path: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_old_runs_and_the_logs_only_they_mention_go(state: StateFolder) -> None:
    store, journal, vcs = storage(state)
    for number in range(5):
        run = green_run(id=RunId(f"run{number}"))
        logged = replace(run.rungs[0], log_ref=LogRef(f"log{number}"))
        record(journal, replace(run, rungs=(logged,)))
    for number in range(5):
        path = os.path.join(state.logs, f"log{number}.log")
        Path(path).write_text("x")
        aged(path, LOG_YOUNG_S + 60)
    Path(state.logs, "young.log").write_text("x")
    journal.trim(keep_runs=2)
    stored = store.superfluous(keep_runs=2)
    assert sorted(one.name for one in stored) == ["log0.log", "log1.log", "log2.log"]
    assert store.remove(stored, keep_runs=2) == 3
    assert sorted(os.listdir(state.logs)) == ["log3.log", "log4.log", "young.log"]
    assert [run.id for run in journal.runs()] == ["run4", "run3"]
    journal.close()
    vcs.close()


def test_a_tree_that_is_held_stays_and_an_idle_one_goes(state: StateFolder, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "pyproject.toml").write_text("")
    store, journal, vcs = storage(state)
    workspace = vcs.locate(str(work))
    snapshot = vcs.snapshot(workspace, carry=(), carry_files=())
    lease = vcs.lease(workspace, snapshot.entries, snapshot)
    aged(os.path.dirname(lease.tree), TREE_IDLE_S + 60)
    assert not store.superfluous(keep_runs=2)
    vcs.release(lease)
    vcs.close()
    aged(os.path.dirname(lease.tree), TREE_IDLE_S + 60)
    stored = store.superfluous(keep_runs=2)
    assert [one.kind for one in stored] == ["tree"]
    store.remove(stored, keep_runs=2)
    assert not os.path.exists(lease.tree)
    journal.close()


def test_beyond_the_cap_content_goes_that_no_kept_snapshot_is_made_of(
    state: StateFolder, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "pyproject.toml").write_text("")
    (work / "big.txt").write_bytes(os.urandom(50_000))
    store, journal, vcs = storage(state, cap_bytes=1)
    workspace = vcs.locate(str(work))
    kept = vcs.snapshot(workspace, carry=(), carry_files=())
    journal.keep_snapshot(kept)
    (work / "big.txt").write_bytes(os.urandom(50_000))
    lost = vcs.snapshot(workspace, carry=(), carry_files=())
    for folder, _, files in os.walk(os.path.join(state.root, "objects")):
        for name in files:
            aged(os.path.join(folder, name), 3600)
    stored = store.superfluous(keep_runs=2)
    assert [(one.kind, one.size_bytes) for one in stored] == [("blobs", 50_000)]
    assert store.remove(stored, keep_runs=2) == 50_000
    known = {entry.blob for entry in kept.entries.values()}
    assert all(vcs.store.has(blob) for blob in known)
    assert not any(vcs.store.has(entry.blob) for entry in lost.entries.values() if entry.blob not in known)
    journal.close()
    vcs.close()


def test_a_state_folder_inside_the_workspace_is_refused(state: StateFolder, tmp_path: Path) -> None:
    store, journal, vcs = storage(state)
    with pytest.raises(InvalidInput, match="GLIDESLOPE_STATE_DIR"):
        store.require_room(Scope(str(tmp_path)))
    journal.close()
    vcs.close()
