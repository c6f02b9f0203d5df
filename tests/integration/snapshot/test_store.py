"""The store never serves half an object, and gives room back only as planned."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from glideslope.adapters.store import Store, blob_id
from glideslope.errors import StateUnavailable, UnknownId
from glideslope.model.ids import BlobId


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(str(tmp_path / "state"))


def place(tmp_path: Path, blob: BlobId) -> Path:
    """The file of an object."""
    return tmp_path / "state/objects" / blob[:2] / blob[2:]


def test_what_is_put_is_read_back_and_private(store: Store, tmp_path: Path) -> None:
    for data in (b"", b"a\r\n\0\xff", b"x" * 3_000_000):
        blob = store.put(data)
        assert store.read(blob) == data
        assert store.size_of(blob) == len(data)
        assert place(tmp_path, blob).stat().st_mode & 0o777 == 0o600
    assert store.size_bytes() == 3_000_005


@pytest.mark.parametrize("damage", [b"", b"conten", b"Content", b"content and more"])
def test_a_damaged_object_is_never_served_and_is_stored_anew(
    store: Store, tmp_path: Path, damage: bytes
) -> None:
    blob = store.put(b"content")
    place(tmp_path, blob).write_bytes(damage)
    with pytest.raises(UnknownId):
        store.read(blob)
    assert not store.has(blob)
    assert store.put(b"content") == blob
    assert store.read(blob) == b"content"


def test_an_object_that_went_behind_our_back_is_noticed_at_the_next_snapshot(
    bench, repository, tmp_path: Path
) -> None:
    first = bench.snapshot(repository.root)
    blob = first.entries["pkg/a.py"].blob
    place(tmp_path, blob).unlink()
    with pytest.raises(UnknownId):
        bench.vcs.read(blob)
    assert bench.snapshot(repository.root).id == first.id
    assert bench.vcs.read(blob) == b"a = 1\n"


def test_a_store_that_was_deleted_whole_is_filled_again(bench, repository) -> None:
    first = bench.snapshot(repository.root)
    (bench.state / "objects").rename(bench.state / "away")
    assert bench.snapshot(repository.root).id == first.id
    assert all(bench.vcs.store.has(entry.blob) for entry in first.entries.values())


def test_a_lease_heals_what_is_damaged_from_the_working_tree_or_from_git(
    bench, repository, tmp_path: Path
) -> None:
    snapshot = bench.snapshot(repository.root)
    for path in ("pkg/a.py", "pkg/b.py"):
        place(tmp_path, snapshot.entries[path].blob).write_bytes(b"damage")
    repository.write("pkg/b.py", "b = 2\n")  # now only git has the old one
    lease = bench.lease(repository.root, snapshot)
    assert Path(lease.tree, "pkg/a.py").read_text() == "a = 1\n"
    assert Path(lease.tree, "pkg/b.py").read_text() == "b = 1\n"


def test_a_prune_lists_first_spares_what_is_kept_or_young_and_frees_the_rest(
    store: Store, tmp_path: Path
) -> None:
    blobs = [store.put(bytes([letter]) * 100) for letter in b"abcdef"]
    for age, blob in enumerate(blobs):
        os.utime(place(tmp_path, blob), (1000 + age, 1000 + age))
    os.utime(place(tmp_path, blobs[2]), (9_999, 9_999))
    plan = store.plan_prune(cap_bytes=250, keep={blobs[0]}, now_s=10_000)
    assert plan.objects == (blobs[1], blobs[3], blobs[4], blobs[5])
    assert (plan.frees_bytes, plan.total_bytes) == (400, 600)
    assert all(store.has(blob) for blob in blobs)
    other = Store(str(tmp_path / "state"))
    assert other.has(blobs[1])
    store.prune(plan)
    store.prune(plan)
    assert [blob in other.known() for blob in blobs] == [True, False, True, False, False, False]
    assert store.plan_prune(cap_bytes=250, keep=set(), now_s=10_000).objects == ()


def test_a_stream_of_another_length_than_told_is_not_stored(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    for told, kept in ((7, True), (6, False), (8, False)):
        with path.open("rb", buffering=0) as file:
            blob, seen = store.put_stream(file.fileno(), told)
        assert seen == 7
        assert store.has(blob) is kept
    assert store.has(blob_id(b"content"))
    assert not list((tmp_path / "state/objects/tmp").iterdir())


def test_many_threads_may_store_the_same_content(store: Store) -> None:
    contents = [b"%d" % number for number in range(40)]
    threads = [threading.Thread(target=lambda: [store.put(data) for data in contents]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.read(blob_id(data)) == data for data in contents)


def test_a_folder_that_takes_no_files_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateUnavailable, match="glideslope prune"):
        Store(str(tmp_path / "state")).put(b"x")
