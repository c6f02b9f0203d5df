"""The parts of a snapshot that need no disk: tree ids, remembered digests, listings, globs, refs."""

from __future__ import annotations

import random
import re

import pytest

from glideslope.adapters.git import parse_version
from glideslope.adapters.gitlayer import packed_refs
from glideslope.adapters.inputs import glob_pattern
from glideslope.adapters.listing import Excluded, is_carried, parse_listing
from glideslope.adapters.rawtree import RawTree
from glideslope.adapters.snapshot import digest_inputs, snapshot_id
from glideslope.adapters.statcache import Known, Look, dump, is_settled, load
from glideslope.adapters.store import blob_id
from glideslope.model.ids import TreeId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Entry, FileMode

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MODES = (FileMode.REGULAR, FileMode.EXECUTABLE, FileMode.SYMLINK)
SECOND_NS = 1_000_000_000


def entry(content: bytes = b"x", mode: FileMode = FileMode.REGULAR) -> Entry:
    return Entry(mode, blob_id(content), len(content))


def test_a_blob_id_is_the_one_git_gives() -> None:
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_tree_without_files_is_gits_empty_tree_also_after_everything_went() -> None:
    tree = RawTree()
    assert tree.id() == EMPTY_TREE
    tree.put(RepoPath("a/b/c"), entry())
    assert tree.id() != EMPTY_TREE
    tree.discard(RepoPath("a/b/c"))
    tree.discard(RepoPath("a/b/c"))
    tree.discard(RepoPath("never/was"))
    assert tree.id() == EMPTY_TREE


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_kept_up_to_date_equals_one_made_at_once(seed: int) -> None:
    chance = random.Random(seed)
    kept, files = RawTree(), dict[str, Entry]()
    for _ in range(60):
        path = "/".join(chance.choice(("a", "a.b", "a-b", "b")) for _ in range(chance.randrange(1, 4)))
        above = {path[:at] for at, letter in enumerate(path) if letter == "/"}
        for gone in [other for other in files if other in above or other.startswith(path + "/")]:
            kept.discard(RepoPath(gone))
            del files[gone]
        if chance.random() < 0.3:
            kept.discard(RepoPath(path))
            files.pop(path, None)
        else:
            files[path] = entry(chance.choice((b"1", b"2")), chance.choice(MODES))
            kept.put(RepoPath(path), files[path])
        once = RawTree()
        for other in chance.sample(sorted(files), len(files)):
            once.put(RepoPath(other), files[other])
        assert kept.id() == once.id()


def test_every_part_of_a_snapshot_changes_its_id() -> None:
    inputs = {RepoPath(".env"): entry(b"A=1")}
    one, other = TreeId("1" * 40), TreeId("2" * 40)
    digests = {
        digest_inputs({}),
        digest_inputs(inputs),
        digest_inputs({RepoPath(".env"): entry(b"A=2")}),
        digest_inputs({RepoPath(".env"): entry(b"A=1", FileMode.EXECUTABLE)}),
        digest_inputs({RepoPath("env"): entry(b"A=1")}),
    }
    assert len(digests) == 5
    ids = {snapshot_id(tree, digest) for tree in (one, other) for digest in digests}
    assert len(ids) == 10
    assert all(re.fullmatch(r"s1-[0-9a-f]{16}", found) for found in ids)


def test_the_order_of_inputs_does_not_matter() -> None:
    items = [(RepoPath(name), entry(name.encode())) for name in "abc"]
    assert digest_inputs(dict(items)) == digest_inputs(dict(reversed(items)))


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns", "read_from_ns", "settled"),
    [
        (SECOND_NS + 1, SECOND_NS + 1, 2 * SECOND_NS, True),
        (SECOND_NS + 1, SECOND_NS + 1, SECOND_NS + 1, False),  # written as it was read
        (SECOND_NS + 1, SECOND_NS + 1, SECOND_NS + 40_000_000, False),  # within a tick of the kernel's clock
        (1, 2 * SECOND_NS + 1, 2 * SECOND_NS + 2, False),  # an old time was put on it just now
        (9 * SECOND_NS, SECOND_NS + 1, 3 * SECOND_NS, False),  # a time in the future says nothing
        (SECOND_NS, SECOND_NS, 3 * SECOND_NS, False),  # whole seconds: a file system that keeps no more
        (SECOND_NS, SECOND_NS, 4 * SECOND_NS, True),
    ],
)
def test_a_file_is_trusted_only_when_a_later_write_must_show(
    mtime_ns: int, ctime_ns: int, read_from_ns: int, settled: bool
) -> None:
    look = Look(1, 2, 3, mtime_ns, ctime_ns, 0o100644)
    assert is_settled(look, read_from_ns=read_from_ns) is settled


def _known(settled: bool = True) -> dict[RepoPath, Known]:
    look = Look(2**63, 2**40, 5, -7, 1_700_000_000_123_456_789, 0o100755)
    names = ("a.py", "pkg/ünï.py", "\udcff\udcfe", "new\nline")
    return {
        RepoPath(name): Known(
            look, Entry(MODES[at % 3], blob_id(name.encode("utf-8", "surrogateescape")), at, at != 1), settled
        )
        for at, name in enumerate(names)
    }


def test_what_is_known_survives_a_round_trip_and_what_is_unsettled_does_not() -> None:
    assert load(dump(_known())) == _known()
    assert load(dump(_known(settled=False))) == {}
    assert load(dump({})) == {}


def test_any_damage_to_what_is_known_empties_it() -> None:
    whole = dump(_known())
    for at in range(len(whole)):
        assert load(whole[:at]) == {}
        assert load(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) == {}
    assert load(whole + b"x") == {}


def test_a_listing_gives_tracked_untracked_kept_off_and_nested_paths_once_each() -> None:
    out = b"H a.py\0M both.py\0M both.py\0S off.py\0s off too\0h marked.py\0? new \xff.py\0? nested/\0"
    found = {item.path: item for item in parse_listing(out)}
    assert list(found) == ["a.py", "both.py", "off.py", "off too", "marked.py", "new \udcff.py", "nested"]
    assert [path for path, item in found.items() if not item.tracked] == ["new \udcff.py", "nested"]
    assert [path for path, item in found.items() if item.kept_off] == ["off.py", "off too"]
    assert [path for path, item in found.items() if item.is_folder] == ["nested"]
    assert parse_listing(b"") == ()


@pytest.mark.parametrize(
    ("path", "carried"),
    [
        (".venv", True),
        (".venv/bin/python", True),
        ("sub/.venv/x", True),
        (".venvs/x", False),
        ("x.venv", False),
        ("web/node_modules/x", True),
        ("other/web/node_modules", False),
        ("web/node_modules2", False),
    ],
)
def test_a_carried_name_counts_at_any_depth_and_a_carried_path_from_the_root(
    path: str, carried: bool
) -> None:
    assert is_carried(path, (".venv/", "web/node_modules")) is carried


def test_leavings_of_tools_are_covered_wherever_they_lie() -> None:
    excluded = Excluded((".venv",))
    covered = ("a/__pycache__/x", "x.pyc", "a/x.pyc", ".mypy_cache", "a/.git/config", ".venv/x")
    assert all(excluded.covers(path) for path in covered)
    assert not any(excluded.covers(path) for path in ("a.py", "pycache/x", "x.pycc", ".gitignore", "git/x"))


def test_names_of_carried_folders_are_no_patterns_to_git() -> None:
    options = Excluded(("we[i]rd*", "a/b c")).options()
    assert r"--exclude=we\[i\]rd\*" in options
    assert r"--exclude=/a/b\ c" in options


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("**/*.so", ("a.so", "x/y/a.so", "x/.so"), ("a.so.1", "a.so/b")),
        (".env", (".env",), ("x/.env", "xenv")),
        ("gen/**", ("gen/a", "gen/a/b"), ("gen", "x/gen/a")),
        ("a/*/c", ("a/b/c",), ("a/b/b/c", "a/c")),
        ("[ab]?.py", ("a1.py", "b\n.py"), ("c1.py", "a/.py")),
        ("[!a].py", ("b.py",), ("a.py",)),
        ("a[b", ("a[b",), ("ab",)),
    ],
)
def test_globs_match_as_written(glob: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    pattern = re.compile(glob_pattern(glob), re.DOTALL)
    assert [path for path in matching if not pattern.fullmatch(path)] == []
    assert [path for path in others if pattern.fullmatch(path)] == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("git version 2.39.5", (2, 39)),
        ("git version 2.39.5 (Apple Git-154)", (2, 39)),
        ("git version 3.0.0.rc1", (3, 0)),
        ("hg 6.1", None),
        ("", None),
    ],
)
def test_versions_of_git_are_read(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


def test_packed_refs_are_sorted_with_peeled_tags_and_without_head() -> None:
    listing = b"11 HEAD\n22 refs/tags/v1\n33 refs/tags/v1^{}\n11 refs/heads/main\n11 refs/remotes/o/HEAD\n"
    assert packed_refs(listing, {"refs/remotes/o/HEAD"}) == (
        b"# pack-refs with: peeled fully-peeled sorted \n11 refs/heads/main\n22 refs/tags/v1\n^33\n"
    )
