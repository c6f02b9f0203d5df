"""Documents: their envelope, what is refused, and samples of old ones that must always load."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast, get_args

import pytest

from glideslope import codec
from glideslope.errors import InternalError, Undecodable
from glideslope.model.event import Event, HostDied, Recorded
from glideslope.model.ids import BlobId, RunId, SnapshotId, TaskId, TreeId
from glideslope.model.paths import RepoPath
from glideslope.model.run import Run
from glideslope.model.snapshot import Entry, FileMode, Snapshot
from glideslope.model.task import Lane, TaskKey, TaskSpec

GOLDEN = Path(__file__).parent.parent / "golden" / "codec"
SAMPLES = sorted(GOLDEN.glob("v*/*.json"))
DIED = HostDied(host_kind="launcher", pid=7, signal=9, stderr_tail="")


def load(path: Path) -> codec.Document:
    return cast(codec.Document, json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_document_ever_written_still_loads_and_loses_nothing(path: Path) -> None:
    written = load(path)
    kinds = {kind.__name__: kind for kind in codec._TAGS}
    value = codec.decode(kinds[str(written["type"])], written)
    again = codec.encode(value)
    assert again["v"] == codec.SCHEMA
    if written["v"] == codec.SCHEMA:
        assert _without_new_fields(again, written) == written


def _without_new_fields(now: codec.Plain, then: codec.Plain) -> codec.Plain:
    """Fields that came later are in no old document; all that was there must be there still."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {key: _without_new_fields(now[key], then[key]) for key in then if key in now}
    if isinstance(now, list) and isinstance(then, list):
        assert len(now) == len(then)
        return [_without_new_fields(a, b) for a, b in zip(now, then, strict=True)]
    return now


def test_there_is_a_sample_of_every_kind_of_document() -> None:
    assert {path.stem for path in SAMPLES if path.parent.name == f"v{codec.SCHEMA}"} == {
        kind.__name__ for kind in codec._TAGS
    }
    assert {kind.__name__ for kind in get_args(Event)} <= {kind.__name__ for kind in codec._TAGS}


def test_a_document_names_its_schema_and_its_kind() -> None:
    assert codec.encode(DIED) == {
        "v": 1,
        "type": "HostDied",
        "host_kind": "launcher",
        "pid": 7,
        "signal": 9,
        "stderr_tail": "",
    }


def test_a_field_that_is_missing_takes_its_default_and_one_that_is_unknown_is_ignored() -> None:
    document = codec.encode(DIED)
    del document["stderr_tail"]
    assert codec.decode(HostDied, {**document, "mood": "gloomy"}) == DIED


def test_a_read_only_mapping_is_written_like_any_other() -> None:
    entry = Entry(FileMode.SYMLINK, BlobId("b" * 40), 3, stored=False)
    entries = {RepoPath("b\udcff.py"): entry, RepoPath("a.py"): entry}
    snapshot = Snapshot(
        id=SnapshotId("s1-0"),
        tree_id=TreeId("t"),
        entries=MappingProxyType(entries),
        inputs=MappingProxyType({}),
        inputs_digest="",
        git=None,
        dirty_paths=(),
    )
    document = codec.encode(snapshot)
    assert document["entries"] == {
        "a.py": ["120000", "b" * 40, 3, False],
        "b\x10dcff.py": ["120000", "b" * 40, 3, False],
    }
    assert codec.decode(Snapshot, document).entries == entries
    holder = _Holder(names=MappingProxyType({"a": 1}))
    assert codec.from_plain(dict[str, dict[str, int]], codec.to_plain(holder)) == {"names": {"a": 1}}


@dataclass(frozen=True)
class _Holder:
    names: MappingProxyType[str, int]


def test_numbers_of_a_lane_survive() -> None:
    key = TaskKey(kind="k", target="t", sandbox_id="x", snapshot=SnapshotId("s"))
    spec = TaskSpec(id=TaskId("t"), key=key, lane=Lane.BACKGROUND, run=RunId("r"), rung=None)
    assert codec.encode(spec)["lane"] == 2
    assert codec.decode(TaskSpec, codec.encode(spec)).lane is Lane.BACKGROUND


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (None, "damaged"),
        ([], "damaged"),
        ({}, "damaged"),
        ({"v": "1", "type": "HostDied"}, "damaged"),
        ({"v": True, "type": "HostDied"}, "damaged"),
        ({"v": 0, "type": "HostDied"}, "update glideslope"),
        ({"v": codec.SCHEMA + 1, "type": "HostDied"}, "update glideslope"),
        ({"v": 1, "type": "Run"}, "HostDied was expected"),
        ({"v": 1, "type": "HostDied", "pid": 7}, "host_kind"),
        ({"v": 1, "type": "HostDied", "host_kind": "k", "pid": "seven"}, "pid"),
    ],
)
def test_what_is_no_such_document_is_refused_with_a_reason(document: object, says: str) -> None:
    with pytest.raises(Undecodable, match=says):
        codec.decode(HostDied, document)


@pytest.mark.parametrize(
    "document", [{"v": 1, "type": "Run"}, {"v": 1, "type": "NotYetKnown"}, {"v": 1}, {"v": 1, "type": 3}]
)
def test_what_is_no_event_is_refused_where_an_event_is_expected(document: object) -> None:
    with pytest.raises(Undecodable, match="no event"):
        codec.decode_event(document)
    with pytest.raises(Undecodable, match="no event"):
        codec.decode(Recorded, {"v": 1, "type": "Recorded", "seq": 1, "at": "", "event": document})


def test_rows_that_are_no_rows_are_refused() -> None:
    sample = load(GOLDEN / "v1" / "Snapshot.json")
    with pytest.raises(Undecodable, match="entries of a snapshot"):
        codec.decode(Snapshot, {**sample, "entries": {"a.py": ["100644"]}})


def test_only_values_of_the_table_are_written() -> None:
    with pytest.raises(InternalError, match="no tag"):
        codec.encode(Entry(FileMode.REGULAR, BlobId("b"), 1))
    with pytest.raises(Undecodable, match="was expected"):
        codec.decode(Entry, {"v": 1, "type": "Entry"})


@pytest.mark.parametrize("read", [codec.to_plain, lambda value: codec.from_plain(Run, value)])
def test_what_is_no_plain_data_is_our_own_fault(read: Callable[[object], object]) -> None:
    with pytest.raises(InternalError, match="no plain data"):
        read(object())


def test_upgrades_are_applied_one_after_another_from_the_schema_a_document_was_written_under() -> None:
    upgrades: dict[int, codec.Upgrade] = {
        1: lambda document: {**document, "name": document["title"]},
        3: lambda document: {**document, "name": f"{document['name']}!"},
    }
    assert codec.upgraded({"v": 1, "title": "a"}, upgrades, 4) == {"v": 4, "title": "a", "name": "a!"}
    assert codec.upgraded({"v": 3, "name": "b"}, upgrades, 4) == {"v": 4, "name": "b!"}
    assert codec.upgraded({"v": 4, "name": "c"}, upgrades, 4) == {"v": 4, "name": "c"}
