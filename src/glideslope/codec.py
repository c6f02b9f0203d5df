"""Values to plain data and back, by a closed table of tags and a schema version.

A document is a dict of strings, numbers, booleans, None, lists and dicts with string keys: any
serialiser takes it. It carries `v`, the schema it was written under, and `type`, its tag. Old
documents stay readable: a field that is missing takes its default, a field that is unknown is
ignored, and a change that this cannot bridge raises `SCHEMA` and adds an entry to `_UPGRADES`.

Text that is not Unicode proper (names of files that are not UTF-8, carried as surrogate escapes)
is escaped reversibly, so that every document can be encoded as UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast, get_args

import msgspec

from glideslope.errors import InternalError, Undecodable
from glideslope.model.event import Event, Recorded
from glideslope.model.ids import BlobId, Scope
from glideslope.model.paths import RepoPath
from glideslope.model.proof import RungProof
from glideslope.model.result import RungResult
from glideslope.model.run import Run
from glideslope.model.rung import LadderPlan
from glideslope.model.settings import Settings
from glideslope.model.snapshot import Entries, Entry, FileMode, Snapshot
from glideslope.model.task import TaskResult, TaskSpec

SCHEMA = 1

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
Document: TypeAlias = dict[str, Plain]
Upgrade: TypeAlias = Callable[[Document], Document]
T = TypeVar("T")

_VALUES: tuple[type, ...] = (
    Run,
    RungResult,
    RungProof,
    Snapshot,
    Recorded,
    TaskSpec,
    TaskResult,
    LadderPlan,
    Settings,
)
_EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
_TAGS: Mapping[type, str] = {kind: kind.__name__ for kind in (*_VALUES, *_EVENTS.values())}

# From the schema a document was written under to the next; applied one after another.
_UPGRADES: Mapping[int, Upgrade] = {}


def encode(value: object) -> Document:
    """Turns a value of the table into a document.

    Raises:
        InternalError: The table does not know the class.
    """
    tag = _TAGS.get(type(value))
    if tag is None:
        raise InternalError(f"{type(value).__name__} has no tag: add it to the codec's table")
    match value:
        case Snapshot():
            fields = {
                **_fields(replace(value, entries={}, inputs={})),
                "entries": _compact(value.entries),
                "inputs": _compact(value.inputs),
            }
        case Recorded():
            fields = {**_fields(value), "event": encode(value.event)}
        case _:
            fields = _fields(value)
    return {"v": SCHEMA, "type": tag, **fields}


def decode(kind: type[T], document: object) -> T:
    """Rebuilds a value of a known class.

    Args:
        kind: The class that is expected; one of the table.
        document: What `encode` returned, now or under an older schema.

    Raises:
        Undecodable: Not a document of that kind, or one of a newer schema.
    """
    fields = _opened(document)
    if fields.get("type") != kind.__name__ or kind not in _TAGS:
        raise Undecodable(f"found {fields.get('type')!r} where {kind.__name__} was expected: it is damaged")
    built: object
    if kind is Snapshot:
        built = _snapshot(fields)
    elif kind is Recorded:
        built = _recorded(fields)
    else:
        built = from_plain(kind, fields)
    return cast(T, built)


def decode_event(document: object) -> Event:
    """Rebuilds an event of any kind.

    Raises:
        Undecodable: Not an event, one this program does not know, or of a newer schema.
    """
    tag = _opened(document).get("type")
    kind = _EVENTS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise Undecodable(f"{tag!r} is no event this version knows: update glideslope")
    return decode(kind, document)


def to_plain(value: object) -> Plain:
    """Turns any frozen value into plain data without tag or version."""
    return _escaped(msgspec.to_builtins(value, enc_hook=_mapping))


def from_plain(kind: type[T], plain: object) -> T:
    """Rebuilds a value from plain data by the types its class declares.

    Raises:
        Undecodable: The data does not fit; the message names the field.
    """
    try:
        return msgspec.convert(_over_text(plain, _unescape), kind)
    except msgspec.ValidationError as reason:
        raise Undecodable(f"{kind.__name__} cannot be read: {reason}") from reason


def _fields(value: object) -> Document:
    return cast(Document, to_plain(value))


def _opened(document: object) -> Document:
    """Checks the envelope and brings a document up to the schema of today."""
    if not isinstance(document, dict) or type(document.get("v")) is not int:
        raise Undecodable("not a document of glideslope: it is damaged, or something else wrote it")
    if not 1 <= document["v"] <= SCHEMA:
        raise Undecodable(f"written under schema {document['v']}, this reads {SCHEMA}: update glideslope")
    return upgraded(cast(Document, document), _UPGRADES, SCHEMA)


def upgraded(document: Document, upgrades: Mapping[int, Upgrade], schema: int) -> Document:
    """Applies the upgrades between the schema of a document and the one wanted.

    Args:
        document: Carries its schema as `v`.
        upgrades: From each schema to the next; a schema without an entry needs no change.
        schema: The schema wanted.

    Returns:
        A document of that schema.
    """
    written = document["v"]
    assert isinstance(written, int), "the envelope was checked"
    for version in range(written, schema):
        document = {**upgrades.get(version, dict)(document), "v": version + 1}
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """`Recorded` without its event, which has a tag of its own."""

    seq: int
    at: str
    scope: Scope | None = None


def _recorded(fields: Document) -> Recorded:
    event = decode_event(fields.get("event"))
    envelope = from_plain(_Envelope, fields)
    return Recorded(seq=envelope.seq, at=envelope.at, scope=envelope.scope, event=event)


# A snapshot holds thousands of entries: each is a row of values in the order of the fields of
# `Entry`, and only its path can need an escape.

_Rows: TypeAlias = dict[str, tuple[FileMode, BlobId, int, bool]]


def _compact(entries: Entries) -> Plain:
    return {
        _escape(path): [entry.mode.value, entry.blob, entry.size_bytes, entry.stored]
        for path, entry in sorted(entries.items())
    }


def _expanded(rows: Plain) -> Entries:
    try:
        found = msgspec.convert(rows, _Rows)
    except msgspec.ValidationError as reason:
        raise Undecodable(f"the entries of a snapshot cannot be read: {reason}") from reason
    return {RepoPath(_unescape(path)): Entry(*row) for path, row in found.items()}


def _snapshot(fields: Document) -> Snapshot:
    head = from_plain(Snapshot, {**fields, "entries": {}, "inputs": {}})
    return replace(head, entries=_expanded(fields.get("entries")), inputs=_expanded(fields.get("inputs")))


# Surrogates, and the escape character itself, become the escape character and four digits.

_ESCAPE = "\x10"
_TO_ESCAPE = re.compile(f"[{_ESCAPE}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")


def _escape(text: str) -> str:
    if text.isascii() and _ESCAPE not in text:
        return text
    return _TO_ESCAPE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if _ESCAPE in text else text


def _escaped(plain: object) -> Plain:
    return _over_text(plain, _escape)


def _over_text(plain: object, change: Callable[[str], str]) -> Plain:
    """Applies a change to every string, names of fields included; tuples become lists."""
    match plain:
        case str():
            return change(plain)
        case list() | tuple():
            return [_over_text(item, change) for item in plain]
        case dict():
            return {change(str(key)): _over_text(item, change) for key, item in plain.items()}
        case None | bool() | int() | float():
            return plain
        case _:
            raise InternalError(f"{type(plain).__name__} is no plain data: give the value a plain field")


def _mapping(value: object) -> object:
    """What msgspec does not know by itself: read-only mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    raise InternalError(f"{type(value).__name__} is no plain data: give the value a plain field")
