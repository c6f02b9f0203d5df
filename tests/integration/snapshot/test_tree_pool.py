"""A leased tree is exactly its snapshot, for as long as it is leased."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from glideslope.adapters.store import Store, blob_id
from glideslope.adapters.trees import TreePool
from glideslope.errors import SubstrateUnavailable
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Entry, FileMode

NAMES = ("a", "b.py", "c", "ünï.py")
MODES = (FileMode.REGULAR, FileMode.EXECUTABLE, FileMode.SYMLINK)


class Pool:
    """A pool with its store, and content made of plain values."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(str(folder / "state"))
        self.folder = folder / "trees"
        self.pool = TreePool(str(self.folder), store=self.store)

    def content(self, files: dict[str, tuple[FileMode, bytes]]) -> dict[RepoPath, Entry]:
        """Stores content and returns the entries of it."""
        return {
            RepoPath(path): Entry(mode, self.store.put(data), len(data))
            for path, (mode, data) in files.items()
        }

    def lease(self, files: dict[str, tuple[FileMode, bytes]]):
        """Leases a tree that holds these files."""
        return self.pool.lease(self.content(files), lambda path, entry: None)

    def restart(self) -> None:
        """What the next process would see."""
        self.pool.close()
        self.pool = TreePool(str(self.folder), store=self.store)


@pytest.fixture
def pool(tmp_path: Path):
    """A pool of trees."""
    made = Pool(tmp_path)
    yield made
    made.pool.close()


def draw(chance: random.Random) -> dict[str, tuple[FileMode, bytes]]:
    """Draws a small tree in which names are files here and folders there."""
    files: dict[str, tuple[FileMode, bytes]] = {}
    for _ in range(chance.randrange(1, 9)):
        path = "/".join(chance.choice(NAMES) for _ in range(chance.randrange(1, 4)))
        above = {path[:at] for at, letter in enumerate(path) if letter == "/"}
        if not above & files.keys() and not any(other.startswith(path + "/") for other in files):
            files[path] = (chance.choice(MODES), chance.choice((b"one", b"two", b"../../outside", b"/tmp")))
    return files


def as_found(files: dict[str, tuple[FileMode, bytes]]) -> dict[str, tuple[str, bytes]]:
    """The same in the words of `content_of`."""
    return {path: (mode.value, data) for path, (mode, data) in files.items()}


@pytest.mark.parametrize("seed", range(8))
def test_after_any_sequence_of_targets_a_tree_holds_exactly_the_last(pool, content_of, seed: int) -> None:
    chance = random.Random(seed)
    before: dict[str, tuple[FileMode, bytes]] = {}
    for _ in range(40):
        files = draw(chance)
        if chance.random() < 0.1:
            pool.restart()
            before = {}
        held = pool.lease(files)
        assert content_of(held.tree) == as_found(files)
        folders = {
            str(path.relative_to(held.tree))
            for path in Path(held.tree).rglob("*")
            if path.is_dir() and not path.is_symlink()
        }
        assert folders == {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
        if before:
            rewritten = {
                path for path, what in files.items() if path.endswith(".py") and before.get(path) != what
            }
            assert set(held.fresh_paths) == rewritten
        before = files
        pool.pool.release(held.id)


def test_only_what_differs_is_written_and_its_time_is_that_of_the_update(pool) -> None:
    files = {f"pkg/m{number}.py": (FileMode.REGULAR, b"%d" % number) for number in range(5)}
    first = pool.lease(files)
    looks = {path: os.lstat(os.path.join(first.tree, path)) for path in files}
    pool.pool.release(first.id)
    second = pool.lease({**files, "pkg/m3.py": (FileMode.REGULAR, b"changed")})
    assert second.tree == first.tree
    assert second.fresh_paths == ("pkg/m3.py",)
    for path in files:
        after = os.lstat(os.path.join(second.tree, path))
        assert (after.st_ino, after.st_mtime_ns) == (
            looks[path].st_ino,
            looks[path].st_mtime_ns,
        ) or path == "pkg/m3.py"
    assert os.lstat(os.path.join(second.tree, "pkg/m3.py")).st_mtime_ns > looks["pkg/m3.py"].st_mtime_ns


def test_a_tree_under_lease_never_changes_and_equal_content_shares_it(pool, content_of) -> None:
    one, two = {"a.py": (FileMode.REGULAR, b"1")}, {"a.py": (FileMode.REGULAR, b"2")}
    first, again, other = pool.lease(one), pool.lease(one), pool.lease(two)
    assert first.tree == again.tree != other.tree
    assert again.fresh_paths == ()
    pool.pool.release(first.id)
    pool.pool.release(first.id)  # twice is once
    third = pool.lease({"a.py": (FileMode.REGULAR, b"3")})
    assert third.tree not in (again.tree, other.tree)
    assert content_of(again.tree) == as_found(one)
    assert content_of(other.tree) == as_found(two)
    pool.pool.release(again.id)
    assert pool.lease({"a.py": (FileMode.REGULAR, b"4")}).tree == first.tree


def test_fifty_overlapping_leases_each_read_their_own_content(pool, content_of) -> None:
    chance = random.Random(1)
    held = []
    for number in range(50):
        files = {"a.py": (FileMode.REGULAR, b"%d" % number), f"only/{number}.py": (FileMode.REGULAR, b"x")}
        held.append((pool.lease(files), files))
        if len(held) > 6:
            lease, _ = held.pop(chance.randrange(len(held)))
            pool.pool.release(lease.id)
        for lease, expected in held:
            assert content_of(lease.tree) == as_found(expected)
    for lease, _ in held:
        pool.pool.release(lease.id)
    pool.restart()
    assert len(list(pool.folder.iterdir())) <= 10


def test_more_trees_than_can_be_are_an_error(pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glideslope.adapters.trees.MOST", 2)
    for number in range(2):
        pool.lease({"a": (FileMode.REGULAR, b"%d" % number)})
    with pytest.raises(SubstrateUnavailable, match="in use at once"):
        pool.lease({"a": (FileMode.REGULAR, b"another")})


def test_another_process_never_gets_a_tree_that_is_in_use(pool) -> None:
    files = {"a": (FileMode.REGULAR, b"1")}
    held = pool.lease(files)
    other = TreePool(str(pool.folder), store=pool.store)
    assert other.lease(pool.content(files), lambda path, entry: None).tree != held.tree
    other.close()


def breaking(name: str, calls: list[str], at: int):
    """A function of `os` that fails when it is the call of that number, counted over all of them."""
    plain = getattr(os, name)

    def call(*arguments, **more):
        calls.append(name)
        if len(calls) == at:
            raise OSError(5, "Input/output error")
        return plain(*arguments, **more)

    return call


@pytest.mark.parametrize("at", range(1, 23, 3))
def test_an_update_that_is_cut_short_leaves_nothing_behind(pool, content_of, monkeypatch, at: int) -> None:
    before = {
        "a/b": (FileMode.REGULAR, b"1"),
        "c.py": (FileMode.REGULAR, b"2"),
        "d": (FileMode.SYMLINK, b"c.py"),
    }
    after = {
        "a": (FileMode.REGULAR, b"1"),
        "c.py/x": (FileMode.EXECUTABLE, b"3"),
        "e": (FileMode.REGULAR, b"5"),
    }
    pool.pool.release(pool.lease(before).id)
    content = pool.content(after)
    calls: list[str] = []
    for name in ("unlink", "open", "symlink", "mkdir", "rmdir", "write", "fchmod", "replace"):
        monkeypatch.setattr(os, name, breaking(name, calls, at))
    with contextlib.suppress(SubstrateUnavailable):
        pool.pool.release(pool.pool.lease(content, lambda path, entry: None).id)
    assert len(calls) >= at
    monkeypatch.undo()
    for restart in (False, True):
        if restart:
            pool.restart()
        for files in (before, after):
            held = pool.lease(files)
            assert content_of(held.tree) == as_found(files)
            pool.pool.release(held.id)


@pytest.mark.parametrize("damage", ["changed", "added", "removed", "linked", "marker", "gone"])
def test_a_tree_that_is_not_what_its_marker_says_is_built_anew(pool, content_of, damage: str) -> None:
    files = {"pkg/a.py": (FileMode.REGULAR, b"1"), "pkg/b.py": (FileMode.REGULAR, b"2")}
    held = pool.lease(files)
    tree = Path(held.tree)
    pool.pool.close()
    if damage == "changed":
        (tree / "pkg/a.py").write_bytes(b"9")
    elif damage == "added":
        (tree / "pkg/conftest.py").write_bytes(b"")
    elif damage == "removed":
        (tree / "pkg/a.py").unlink()
    elif damage == "linked":
        shutil.move(tree / "pkg", tree.parent / "moved")
        (tree / "pkg").symlink_to("../moved")
    elif damage == "marker":
        (tree.parent / "marker").unlink()
    else:
        shutil.rmtree(tree)
    pool.restart()
    held = pool.lease(files)
    assert content_of(held.tree) == as_found(files)
    assert not (Path(held.tree) / "pkg").is_symlink()


def test_no_link_in_a_tree_leads_a_write_out_of_it(pool, content_of, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("safe")
    where = os.fsencode(outside)
    pool.pool.release(
        pool.lease({"pkg": (FileMode.SYMLINK, where), "b.py": (FileMode.SYMLINK, where + b"/a.py")}).id
    )
    files = {"pkg/a.py": (FileMode.REGULAR, b"evil"), "b.py": (FileMode.REGULAR, b"evil")}
    held = pool.lease(files)
    assert content_of(held.tree) == as_found(files)
    pool.pool.release(held.id)
    # A link that somebody put in place of a folder stops the update instead of being followed.
    shutil.rmtree(Path(held.tree) / "pkg")
    (Path(held.tree) / "pkg").symlink_to(outside)
    with pytest.raises(SubstrateUnavailable):
        pool.lease({**files, "pkg/a.py": (FileMode.REGULAR, b"worse")})
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.py": "safe"}
    files["pkg/a.py"] = (FileMode.REGULAR, b"worse")
    assert content_of(pool.lease(files).tree) == as_found(files)


def test_bytecode_stays_with_its_source_and_goes_with_it(pool) -> None:
    files = {
        path: (FileMode.REGULAR, path.encode())
        for path in ("pkg/a.py", "pkg/b.py", "pkg/a_b.py", "gone/c.py")
    }
    held = pool.lease(files)

    def compile_all() -> None:
        for path in files:
            cache = Path(held.tree, path).parent / "__pycache__"
            cache.mkdir(exist_ok=True)
            for suffix in (".cpython-311.pyc", ".cpython-311-pytest-9.2.0.pyc"):
                (cache / (Path(path).stem + suffix)).write_bytes(b"")

    compile_all()
    pool.pool.release(held.id)
    pool.restart()
    del files["gone/c.py"]
    files["pkg/a.py"] = (FileMode.REGULAR, b"changed")
    again = pool.lease(files)
    assert again.tree == held.tree
    assert again.fresh_paths == ("pkg/a.py",)
    assert {path.name.partition(".")[0] for path in Path(held.tree, "pkg/__pycache__").iterdir()} == {
        "b",
        "a_b",
    }
    assert not Path(held.tree, "gone").exists()


def test_content_the_store_lost_is_looked_for_elsewhere_and_its_absence_is_an_error(pool, content_of) -> None:
    files = {"a.py": (FileMode.REGULAR, b"lost"), "b.py": (FileMode.REGULAR, b"kept")}
    content = pool.content(files)
    lost = Path(pool.store._path(blob_id(b"lost")))
    lost.write_bytes(b"los")
    with pytest.raises(SubstrateUnavailable, match=r"a\.py"):
        pool.pool.lease(content, lambda path, entry: None)
    held = pool.pool.lease(content, lambda path, entry: b"lost")
    assert content_of(held.tree) == as_found(files)
    assert pool.store.read(blob_id(b"lost")) == b"lost"


def test_a_file_that_is_not_stored_becomes_an_empty_place_to_bind_it_to(pool) -> None:
    entry = Entry(FileMode.REGULAR, blob_id(b"x" * 10), 10, False)
    held = pool.pool.lease({RepoPath("data/huge"): entry}, lambda path, entry: None)
    assert Path(held.tree, "data/huge").read_bytes() == b""
    pool.pool.release(held.id)
    stored = replace(entry, stored=True, blob=pool.store.put(b"x" * 10))
    assert (
        Path(pool.pool.lease({RepoPath("data/huge"): stored}, lambda path, entry: None).tree, "data/huge")
        .stat()
        .st_size
        == 10
    )


def test_a_task_of_another_user_can_read_the_tree_whatever_the_umask_is(pool) -> None:
    before = os.umask(0o077)
    try:
        held = pool.lease({"pkg/run": (FileMode.EXECUTABLE, b""), "pkg/a": (FileMode.REGULAR, b"")})
    finally:
        os.umask(before)
    modes = {
        path: oct(Path(held.tree, path).stat().st_mode & 0o777) for path in (".", "pkg", "pkg/run", "pkg/a")
    }
    assert modes == {".": "0o755", "pkg": "0o755", "pkg/run": "0o755", "pkg/a": "0o644"}
