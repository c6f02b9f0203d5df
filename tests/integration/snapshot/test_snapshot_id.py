"""The id of a snapshot says what the content is, and nothing else."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from glideslope.errors import InvalidInput
from glideslope.model.snapshot import Snapshot

pytestmark = pytest.mark.process


def test_an_edit_changes_the_id_and_reverting_it_brings_the_old_one_back(bench, repository) -> None:
    at_rest = bench.snapshot(repository.root)
    repository.write("pkg/a.py", "a = 2\n")
    edited = bench.snapshot(repository.root)
    repository.write("pkg/a.py", "a = 1\n")
    assert edited.id != at_rest.id
    assert bench.snapshot(repository.root).id == at_rest.id
    assert edited.dirty_paths == ("pkg/a.py",)
    assert at_rest.dirty_paths == ()


def test_the_tree_id_of_a_clean_repository_is_the_one_git_gives(bench, repository) -> None:
    repository.write("deep/er/run.sh", "#!/bin/sh\n").chmod(0o755)
    repository.write("deep/er.txt", "sorts between a folder and its slash")
    repository.write("deep-er", "so does this")
    (repository.root / "link").symlink_to("nowhere")
    repository.commit()
    snapshot = bench.snapshot(repository.root)
    assert snapshot.tree_id == repository.git("rev-parse", "HEAD^{tree}").strip()
    assert snapshot.dirty_paths == ()


def test_twenty_edits_of_equal_size_within_the_second_give_twenty_ids(bench, repository) -> None:
    path = repository.write("pkg/a.py", "a = 00\n")
    found = []
    for number in range(20):
        path.write_text(f"a = {number:02}\n")
        found.append(bench.snapshot(repository.root).id)
    assert len(set(found)) == 20


def test_twenty_edits_that_keep_size_and_modification_time_give_twenty_ids(bench, repository) -> None:
    path = repository.write("pkg/a.py", "a = 00\n")
    before = path.stat()
    found = []
    for number in range(20):
        path.write_text(f"a = {number:02}\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        found.append(bench.snapshot(repository.root).id)
    assert len(set(found)) == 20


def test_an_older_file_with_an_older_time_put_in_place_is_seen(bench, repository) -> None:
    path = repository.root / "pkg/a.py"
    older = repository.write("../a.py", "a = 9\n")
    os.utime(older, (1_000_000_000, 1_000_000_000))
    before = bench.snapshot(repository.root).id
    os.replace(older, path)
    assert bench.snapshot(repository.root).id != before


def test_a_touch_changes_nothing(bench, repository) -> None:
    before = bench.snapshot(repository.root)
    os.utime(repository.root / "pkg/a.py")
    assert bench.snapshot(repository.root).id == before.id


def test_committing_staging_and_branching_keep_the_id(bench, repository) -> None:
    repository.write("pkg/new.py", "new = 1\n")
    before = bench.snapshot(repository.root)
    repository.git("add", "pkg/new.py")
    staged = bench.snapshot(repository.root)
    repository.commit()
    committed = bench.snapshot(repository.root)
    repository.git("checkout", "-q", "-b", "other")
    assert before.id == staged.id == committed.id == bench.snapshot(repository.root).id
    assert before.dirty_paths == staged.dirty_paths == ("pkg/new.py",)
    assert committed.dirty_paths == ()
    assert committed.git.head != before.git.head


def test_a_stash_brings_the_clean_id_back_and_a_pop_the_dirty_one(bench, repository) -> None:
    clean = bench.snapshot(repository.root).id
    repository.write("pkg/a.py", "a = 3\n")
    dirty = bench.snapshot(repository.root).id
    repository.git("stash", "-q")
    assert bench.snapshot(repository.root).id == clean
    repository.git("stash", "pop", "-q")
    assert bench.snapshot(repository.root).id == dirty


@pytest.mark.parametrize("restart", [False, True])
def test_modes_links_deletions_and_untracked_files_count(bench, repository, restart: bool) -> None:
    found = [bench.snapshot(repository.root).id]

    def look() -> None:
        if restart:
            bench.restart()
        found.append(bench.snapshot(repository.root).id)

    (repository.root / "pkg/a.py").chmod(0o755)
    look()
    repository.write("data.bin", b"\0\r\n\xff")
    look()
    (repository.root / "README").unlink()
    look()
    (repository.root / "README").symlink_to("data.bin")
    look()
    (repository.root / "README").unlink()
    (repository.root / "README").symlink_to("missing")
    look()
    (repository.root / "README").unlink()
    repository.write("README/now/a/folder", "x")
    look()
    assert len(set(found)) == len(found)


def test_line_ends_and_filters_do_not_hide_a_change_of_bytes(bench, repository) -> None:
    repository.write(".gitattributes", "* text=auto\n")
    repository.git("config", "core.autocrlf", "input")
    repository.commit()
    before = bench.snapshot(repository.root).id
    repository.write("pkg/a.py", "a = 1\r\n")
    assert bench.snapshot(repository.root).id != before


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_marks_in_the_index_do_not_hide_an_edit(bench, repository, mark: str) -> None:
    repository.git("update-index", mark, "pkg/a.py")
    before = bench.snapshot(repository.root)
    repository.write("pkg/a.py", "a = 7\n")
    after = bench.snapshot(repository.root)
    assert after.id != before.id
    assert after.dirty_paths == ("pkg/a.py",)


def test_leavings_of_tools_count_only_when_they_are_tracked(bench, repository) -> None:
    before = bench.snapshot(repository.root)
    leavings = (
        "pkg/__pycache__/a.pyc",
        "x.pyc",
        ".pytest_cache/v",
        ".mypy_cache/m",
        ".ruff_cache/r",
        ".hypothesis/h",
    )
    for path in (*leavings, ".venv/bin/python", "web/node_modules/left/pad.js"):
        repository.write(path, "1")
    assert bench.snapshot(repository.root).id == before.id
    repository.git("add", "-f", "x.pyc", ".venv/bin/python")
    after = bench.snapshot(repository.root)
    assert set(after.entries) - set(before.entries) == {"x.pyc", ".venv/bin/python"}


def test_declared_ignored_files_are_inputs_and_part_of_the_id(bench, repository) -> None:
    before = bench.snapshot(repository.root)
    repository.write("pkg/native.so", b"\x7fELF")
    repository.write(".env", "A=1\n")
    repository.write(".venv/lib/other.so", "not ours")
    repository.write("build/out.txt", "ignored, not declared")
    first = bench.snapshot(repository.root)
    repository.write(".env", "A=2\n")
    second = bench.snapshot(repository.root)
    assert set(first.inputs) == {"pkg/native.so", ".env"}
    assert len({before.id, first.id, second.id}) == 3
    assert before.tree_id == first.tree_id == second.tree_id
    assert bench.vcs.read(second.inputs[".env"].blob) == b"A=2\n"
    repository.git("add", "-f", "pkg/native.so")
    tracked = bench.snapshot(repository.root)
    assert "pkg/native.so" in tracked.entries
    assert set(tracked.inputs) == {".env"}


def test_declared_inputs_above_the_limit_are_an_error_that_names_the_largest(bench, repository) -> None:
    path = repository.write("pkg/huge.so", "")
    with path.open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    with pytest.raises(InvalidInput, match=r"pkg/huge\.so"):
        bench.snapshot(repository.root)


def test_a_large_untracked_file_is_digested_and_not_stored(bench, repository) -> None:
    path = repository.write("data/huge.bin", "")
    with path.open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    before = bench.snapshot(repository.root)
    assert not before.entries["data/huge.bin"].stored
    assert not bench.vcs.store.has(before.entries["data/huge.bin"].blob)
    lease = bench.lease(repository.root, before)
    assert lease.large == (("data/huge.bin", str(path)),)
    assert (Path(lease.tree) / "data/huge.bin").read_bytes() == b""
    workspace = bench.vcs.locate(str(repository.root))
    assert bench.vcs.large_unchanged(workspace, before) == ()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    assert bench.vcs.large_unchanged(workspace, before) == ("data/huge.bin",)
    assert bench.snapshot(repository.root).id != before.id


def test_a_folder_outside_git_has_an_id_like_any_other(bench, tmp_path: Path, make_repository) -> None:
    folder = tmp_path / "plain"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/a.py").write_text("a = 1\n")
    (folder / "pyproject.toml").write_text("")
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").write_text("")
    (folder / "pkg/native.so").write_text("x")
    found = bench.snapshot(folder)
    assert set(found.entries) == {"pkg/a.py", "pkg/native.so", "pyproject.toml"}
    assert found.git is None
    assert found.dirty_paths == ()
    (folder / "pkg/a.py").write_text("a = 2\n")
    assert bench.snapshot(folder).id != found.id
    (folder / "pkg/a.py").write_text("a = 1\n")
    assert bench.snapshot(folder).id == found.id
    same = make_repository("same")
    for path in found.entries:
        same.write(path, (folder / path).read_bytes())
    assert bench.snapshot(same.root).id == found.id


def test_what_was_learnt_is_used_by_the_next_process_and_damage_to_it_is_harmless(
    bench, repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench.snapshot(repository.root)
    _wait_until_settled(repository.root / "pkg/a.py")
    bench.restart()
    assert bench.snapshot(repository.root).id == before.id
    bench.restart()
    (memory,) = (bench.state / "snapshots").iterdir()
    read = []
    plain_open = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **more: (read.append(path), plain_open(path, *rest, **more))[1]
    )
    assert bench.snapshot(repository.root).id == before.id
    assert not [path for path in read if isinstance(path, bytes) and path.endswith(b".py")]
    for damage in (b"", b"glideslope-stat-1\n", memory.read_bytes()[:-40], memory.read_bytes()[::-1]):
        memory.write_bytes(damage)
        bench.vcs = type(bench.vcs)(str(bench.state))
        assert bench.snapshot(repository.root).id == before.id


def _wait_until_settled(path: Path) -> None:
    while time.time_ns() < path.stat().st_ctime_ns + 100_000_000:
        os.sched_yield()


def test_two_threads_that_look_while_a_third_writes_only_see_contents_that_existed(bench, repository) -> None:
    path = repository.root / "pkg/a.py"
    versions = [f"a = {number}\n" for number in range(10, 40)]
    allowed = {"a = 1\n", *versions}
    seen: list[Snapshot] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.append(bench.snapshot(repository.root))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for version in versions:
        temporary = repository.write("../temporary", version)
        os.replace(temporary, path)
    while not seen:
        os.sched_yield()
    done.set()
    for thread in threads:
        thread.join()
    assert {bench.text(snapshot, "pkg/a.py") for snapshot in seen} <= allowed
    assert bench.text(bench.snapshot(repository.root), "pkg/a.py") == versions[-1]
    by_id = {snapshot.id: bench.text(snapshot, "pkg/a.py") for snapshot in seen}
    assert all(by_id[snapshot.id] == bench.text(snapshot, "pkg/a.py") for snapshot in seen)


def test_modules_that_builds_usually_generate_are_carried_without_being_named(bench, repository) -> None:
    generated = {"inv/version.py", "inv/api_pb2.py", "inv/api_pb2_grpc.py", "inv/_version.py"}
    for path in generated:
        repository.write(path, "V = 1\n")
    repository.write("inv/other.py", "V = 1\n")
    repository.write(".gitignore", "inv/*\n")
    assert set(bench.snapshot(repository.root).inputs) == generated
