"""States a repository gets into: each gives a right id or a clear error."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glideslope.adapters import snapshot as snapshot_module
from glideslope.adapters.git import Git
from glideslope.adapters.vcs import LocalVcs
from glideslope.errors import (
    EnvironmentBroken,
    NoWorkspace,
    SnapshotStale,
    SnapshotUnreadable,
    StateUnavailable,
)

pytestmark = pytest.mark.process
NOBODY = 65534


def test_an_unborn_branch_has_entries_and_no_head(bench, make_repository) -> None:
    empty = make_repository("empty")
    nothing = bench.snapshot(empty.root)
    assert dict(nothing.entries) == {}
    assert nothing.tree_id == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    empty.write("a.py", "a = 1\n")
    found = bench.snapshot(empty.root)
    assert set(found.entries) == {"a.py"}
    assert (found.git.head, found.git.branch) == (None, "main")
    assert found.dirty_paths == ("a.py",)


def test_a_detached_head_has_no_branch(bench, repository) -> None:
    before = bench.snapshot(repository.root)
    repository.git("checkout", "-q", "--detach")
    found = bench.snapshot(repository.root)
    assert found.id == before.id
    assert found.git.branch is None
    assert found.git.head == repository.git("rev-parse", "HEAD").strip()


def test_an_interrupted_merge_is_named_and_holds_what_lies_on_the_disk(bench, repository) -> None:
    repository.git("checkout", "-q", "-b", "other")
    repository.write("pkg/a.py", "a = 'other'\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("pkg/a.py", "a = 'main'\n")
    repository.commit()
    repository.git("merge", "other", ok=False)
    found = bench.snapshot(repository.root)
    assert found.git.operation == "merge"
    assert "<<<<<<<" in bench.text(found, "pkg/a.py")
    assert found.dirty_paths == ("pkg/a.py",)
    repository.git("merge", "--abort")
    repository.git("rebase", "other", ok=False)
    assert bench.snapshot(repository.root).git.operation == "rebase"


def test_nested_repositories_and_submodules_are_part_of_the_snapshot(
    bench, repository, make_repository
) -> None:
    library = make_repository("library")
    library.write("lib.py", "lib = 1\n")
    library.write(".gitignore", "ignored.txt\n")
    library.commit()
    repository.git("submodule", "add", "-q", str(library.root), "vendor/library")
    repository.commit()
    at_rest = bench.snapshot(repository.root)
    assert "vendor/library/lib.py" in at_rest.entries
    assert at_rest.dirty_paths == ()
    repository.write("vendor/library/ignored.txt", "x")
    assert bench.snapshot(repository.root).id == at_rest.id
    repository.write("vendor/library/lib.py", "lib = 2\n")
    edited = bench.snapshot(repository.root)
    assert edited.dirty_paths == ("vendor/library/lib.py",)
    for name in ("nested", "young"):
        repository.write(f"{name}/in.py", "x = 1\n")
        repository.write(f"{name}/deep/in.py", "x = 1\n")
        subprocess.run(["git", "init", "-q", str(repository.root / name)], check=True)
    subprocess.run(["git", "-C", str(repository.root / "nested"), "add", "."], check=True)
    subprocess.run(["git", "-C", str(repository.root / "nested"), "commit", "-qm", "x"], check=True)
    found = bench.snapshot(repository.root)
    assert {"nested/in.py", "nested/deep/in.py", "young/in.py", "young/deep/in.py"} <= set(found.entries)
    repository.write("young/in.py", "x = 2\n")
    assert bench.snapshot(repository.root).id != found.id
    shutil.rmtree(repository.root / "young")
    shutil.rmtree(repository.root / "nested/.git")
    after = bench.snapshot(repository.root)
    assert "nested/in.py" in after.entries
    assert not [path for path in after.entries if path.startswith("young")]


def test_a_submodule_that_is_not_checked_out_holds_nothing(
    bench, repository, make_repository, tmp_path
) -> None:
    library = make_repository("library")
    library.write("lib.py", "lib = 1\n")
    library.commit()
    repository.git("submodule", "add", "-q", str(library.root), "vendor/library")
    repository.commit()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(repository.root), str(clone)], check=True)
    found = bench.snapshot(clone)
    assert not [path for path in found.entries if path.startswith("vendor/")]
    assert found.dirty_paths == ()
    subprocess.run(["git", "submodule", "-q", "update", "--init"], cwd=clone, check=True)
    assert "vendor/library/lib.py" in bench.snapshot(clone).entries


def test_a_broken_nested_repository_is_an_ordinary_folder(bench, repository) -> None:
    repository.write("copied/.git", "gitdir: /nowhere/at/all\n")
    repository.write("copied/in.py", "x = 1\n")
    repository.write("hollow/in.py", "x = 1\n")
    (repository.root / "hollow/.git").mkdir()
    found = bench.snapshot(repository.root)
    assert {"copied/in.py", "hollow/in.py"} <= set(found.entries)
    assert bench.snapshot(repository.root).id == found.id


def test_a_linked_worktree_is_a_workspace_of_its_own_in_the_same_repository(
    bench, repository, tmp_path
) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    main, side = bench.vcs.locate(str(repository.root)), bench.vcs.locate(str(tmp_path / "side" / "pkg"))
    assert main.repository == side.repository
    assert main.scope != side.scope
    found = bench.snapshot(tmp_path / "side")
    assert found.id == bench.snapshot(repository.root).id
    assert found.git.branch == "side"
    (tmp_path / "side/pkg/a.py").write_text("a = 2\n")
    assert bench.snapshot(tmp_path / "side").id != found.id
    assert bench.snapshot(repository.root).id == found.id


def test_a_sparse_checkout_is_what_lies_on_the_disk_and_no_deletion(bench, repository) -> None:
    repository.write("outside/big.py", "big = 1\n")
    repository.commit()
    repository.git("sparse-checkout", "set", "--cone", "pkg")
    found = bench.snapshot(repository.root)
    assert set(found.entries) == {".gitignore", "README", "pkg/a.py", "pkg/b.py"}
    assert found.dirty_paths == ()
    base = bench.vcs.base_of_revision(bench.vcs.locate(str(repository.root)), "HEAD")
    assert dict(base.entries) == dict(found.entries)
    repository.write("outside/new.py", "new = 1\n")
    repository.write("outside/big.py", "big = 2\n")
    again = bench.snapshot(repository.root)
    assert again.dirty_paths == ("outside/big.py", "outside/new.py")


def test_git_variables_in_the_environment_change_nothing(
    bench, repository, make_repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = bench.snapshot(repository.root)
    other = make_repository("other")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    bench.restart()
    found = bench.snapshot(repository.root)
    assert (found.id, found.git) == (before.id, before.git)


def test_names_of_any_bytes_are_kept(bench, repository) -> None:
    names = [
        b"\xff\xfe.py",
        "ünï cödé.py".encode(),
        b"new\nline.py",
        b" lead and trail ",
        b"quo\"te'.py",
        b"[x]*?.py",
    ]
    for name in names:
        (Path(os.fsdecode(os.fsencode(repository.root) + b"/" + name))).write_bytes(name)
    found = bench.snapshot(repository.root)
    for name in names:
        entry = found.entries[name.decode("utf-8", "surrogateescape")]
        assert bench.vcs.read(entry.blob) == name
    repository.commit()
    assert bench.snapshot(repository.root).tree_id == repository.git("rev-parse", "HEAD^{tree}").strip()
    assert bench.snapshot(repository.root).dirty_paths == ()
    lease = bench.lease(repository.root, found)
    assert set(names) <= set(os.listdir(os.fsencode(lease.tree)))


def test_sockets_pipes_and_dangling_links_do_no_harm(bench, repository) -> None:
    (repository.root / "pkg/b.py").unlink()
    os.mkfifo(repository.root / "pkg/b.py")
    os.mkfifo(repository.root / "pipe")
    os.symlink("nowhere", repository.root / "dangling")
    os.symlink("circle", repository.root / "circle")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(repository.root)  # the address of a socket is short
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        found = bench.snapshot(repository.root)
    assert set(found.entries) == {".gitignore", "README", "pkg/a.py", "dangling", "circle"}
    assert bench.text(found, "dangling") == "nowhere"


def test_a_link_in_place_of_a_tracked_folder_leads_nowhere(bench, repository, tmp_path: Path) -> None:
    shutil.move(repository.root / "pkg", tmp_path / "moved")
    (repository.root / "pkg").symlink_to(tmp_path / "moved")
    found = bench.snapshot(repository.root)
    assert set(found.entries) == {".gitignore", "README", "pkg"}
    assert found.dirty_paths == ("pkg", "pkg/a.py", "pkg/b.py")


def test_a_folder_moved_behind_an_ignored_link_is_noticed_though_every_file_looks_the_same(
    bench, repository
) -> None:
    repository.write(".gitignore", "pkg\nelsewhere\n")
    repository.git("add", "-f", ".")
    repository.git("commit", "-qm", "tracked and ignored")
    before = bench.snapshot(repository.root)
    os.rename(repository.root / "pkg", repository.root / "elsewhere")
    (repository.root / "pkg").symlink_to("elsewhere")
    found = bench.snapshot(repository.root)
    assert "pkg/a.py" in before.entries
    assert "pkg/a.py" not in found.entries


@contextmanager
def as_nobody(*folders: Path) -> Iterator[None]:
    """Runs the block without the rights of root, which could read everything."""
    if os.geteuid() != 0:
        yield
        return
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    above = [parent for folder in folders for parent in folder.parents if parent.stat().st_mode & 0o001 == 0]
    modes = {parent: parent.stat().st_mode for parent in above}
    for parent in above:
        parent.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in modes.items():
            parent.chmod(mode)


@pytest.mark.parametrize("what", ["file", "tracked", "folder", "input"])
def test_something_unreadable_is_an_error_that_names_it(bench, repository, home: Path, what: str) -> None:
    path = {"file": "secret.txt", "tracked": "pkg/a.py", "folder": "closed", "input": ".env"}[what]
    if what == "folder":
        repository.write("closed/in.txt", "x")
    else:
        repository.write(path, "x")
    (repository.root / path).chmod(0)
    bench.state.mkdir()
    with as_nobody(repository.root, home, bench.state):
        with pytest.raises(SnapshotUnreadable, match=path):
            bench.snapshot(repository.root)
        (repository.root / path).chmod(0o755)
        bench.snapshot(repository.root)


def test_a_repository_of_another_user_is_refused_with_the_way_out(bench, repository) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    for path in (repository.root, repository.root / ".git"):
        os.chown(path, NOBODY, NOBODY)
    with pytest.raises(NoWorkspace, match=r"safe\.directory"):
        bench.vcs.locate(str(repository.root))
    repository.git("config", "--global", "--add", "safe.directory", str(repository.root))
    assert bench.snapshot(repository.root).entries


def test_a_corrupt_index_is_an_error_that_says_so(bench, repository) -> None:
    (repository.root / ".git/index").write_bytes(b"DIRC garbage")
    with pytest.raises(SnapshotUnreadable, match="index"):
        bench.snapshot(repository.root)


def test_a_git_that_is_missing_or_too_old_is_named(repository, tmp_path: Path) -> None:
    old = tmp_path / "old-git"
    old.write_text("#!/bin/sh\necho git version 2.37.9\n")
    old.chmod(0o755)
    for program, says in (
        (str(old), r"2\.37\.9 is too old.*2\.38"),
        (str(tmp_path / "none"), r"install git 2\.38"),
    ):
        vcs = LocalVcs(str(tmp_path / "state"), git=Git(program))
        with pytest.raises(EnvironmentBroken, match=says):
            vcs.locate(str(repository.root))


def test_a_git_that_does_not_answer_is_ended_with_all_it_started(tmp_path: Path) -> None:
    slow = tmp_path / "slow-git"
    slow.write_text(
        f'#!/bin/sh\n[ "$*" != "${{*%--version}}" ] && echo git version 2.40.0 && exit\n'
        f"sleep 600 &\necho $! > '{tmp_path}/child'\nwait\n"
    )
    slow.chmod(0o755)
    git = Git(str(slow))
    started = git.start("/", ["ls-files"], timeout_s=0.5)
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().endswith("\n"):
        os.sched_yield()
    with pytest.raises(EnvironmentBroken, match=r"within 0\.5 s"):
        started.wait()
    status = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        os.sched_yield()


def test_a_repository_that_vanished_or_was_made_anew_is_noticed(bench, repository) -> None:
    before = bench.snapshot(repository.root)
    workspace = bench.vcs.locate(str(repository.root))
    shutil.move(repository.root / ".git", repository.root.parent / "git-away")
    with pytest.raises(NoWorkspace):
        bench.vcs.snapshot(workspace, carry=(), carry_files=())
    repository.git("init", "-q")
    found = bench.snapshot(repository.root)
    assert found.id == before.id
    assert found.git.head is None


@pytest.fixture
def on_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], None]], None]:
    """Lets a test act at the moment a file is about to be read."""

    def install(act: Callable[[str], None]) -> None:
        plain = snapshot_module.SnapshotReader._read_file

        def read(self, path, host, *, may_skip):  # type: ignore[no-untyped-def]
            act(path)
            return plain(self, path, host, may_skip=may_skip)

        monkeypatch.setattr(snapshot_module.SnapshotReader, "_read_file", read)

    return install


def test_a_file_that_vanishes_after_it_was_listed_is_looked_for_again(bench, repository, on_read) -> None:
    path = repository.write("fleeting.txt", "x")
    on_read(lambda read: path.unlink(missing_ok=True) if read == "fleeting.txt" else None)
    assert "fleeting.txt" not in bench.snapshot(repository.root).entries


def test_a_file_that_becomes_a_folder_after_it_was_listed_is_looked_at_again(
    bench, repository, on_read
) -> None:
    path = repository.root / "pkg/a.py"

    def swap(read: str) -> None:
        if read == "pkg/a.py" and path.is_file():
            path.unlink()
            repository.write("pkg/a.py/inside.txt", "x")

    on_read(swap)
    found = bench.snapshot(repository.root)
    assert set(found.entries) >= {"pkg/a.py/inside.txt", "pkg/b.py"}
    assert "pkg/a.py" not in found.entries


def test_a_folder_that_becomes_a_link_while_a_file_in_it_is_read_is_looked_at_again(
    bench, repository, on_read, tmp_path: Path
) -> None:
    shutil.copytree(repository.root / "pkg", tmp_path / "foreign")
    (tmp_path / "foreign/a.py").write_text("foreign")

    def swap(read: str) -> None:
        if read == "pkg/a.py" and not (repository.root / "pkg").is_symlink():
            shutil.rmtree(repository.root / "pkg")
            (repository.root / "pkg").symlink_to(tmp_path / "foreign")

    on_read(swap)
    found = bench.snapshot(repository.root)
    assert set(found.entries) == {".gitignore", "README", "pkg"}


def test_a_file_edited_while_it_is_read_is_read_again(bench, repository, on_read) -> None:
    edits = iter(["a = 'one'\n", "a = 'two'\n"])

    def edit(read: str) -> None:
        if read == "pkg/b.py" and (text := next(edits, None)):
            repository.write("pkg/a.py", text)

    on_read(edit)
    assert bench.text(bench.snapshot(repository.root), "pkg/a.py") == "a = 'two'\n"


def test_a_file_that_never_holds_still_ends_in_stale_and_is_named(bench, repository, on_read) -> None:
    def edit(read: str) -> None:
        with (repository.root / "log.txt").open("a") as file:
            file.write("more\n")

    repository.write("log.txt", "")
    repository.write("after.txt", "")
    on_read(edit)
    with pytest.raises(SnapshotStale, match=r"log\.txt|after\.txt"):
        bench.snapshot(repository.root)


def test_a_state_folder_that_takes_no_writes_is_an_error_with_the_way_out(bench, repository) -> None:
    bench.state.write_text("a file stands in the way")
    with pytest.raises(StateUnavailable, match="glideslope prune"):
        bench.snapshot(repository.root)


def test_a_full_disk_is_an_error_with_the_way_out_and_the_next_snapshot_is_complete(
    bench, repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = os.write, []

    def write(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StateUnavailable, match="No space left"):
        bench.snapshot(repository.root)
    found = bench.snapshot(repository.root)
    assert all(bench.vcs.read(entry.blob) is not None for entry in found.entries.values())
    assert not list((bench.state / "objects/tmp").iterdir())


def test_a_carried_name_counts_for_nothing_where_the_repository_has_files(bench, repository) -> None:
    repository.write("pkg/.venv/__init__.py", "")
    repository.commit()
    before = bench.snapshot(repository.root)
    assert "pkg/.venv/__init__.py" in before.entries
    repository.write("pkg/.venv/new.py", "new = 1\n")
    repository.write(".venv/lib/module.py", "installed = 1\n")
    after = bench.snapshot(repository.root)
    assert set(after.entries) - set(before.entries) == {"pkg/.venv/new.py"}
    assert after.id != before.id
