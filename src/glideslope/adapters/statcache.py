"""What the files of a workspace were when they were last digested, remembered between runs.

The strict racy rule: a remembered digest counts only when every stamp of the file is older, by
more than the file system's clock can hide, than the moment reading began. Anything younger could
have been written again within the same tick, so it is read again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import operator
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Entry, FileMode

_MAGIC = b"glideslope-stat-1\n"
_RECORD = struct.Struct("<QQQqqIBB20sQ")
_MODES = (FileMode.REGULAR, FileMode.EXECUTABLE, FileMode.SYMLINK)
_PARTS = operator.attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_mode")
_TICK_NS = 50_000_000  # kernel clocks that stamp files tick every 1-10 ms
_COARSE_TICK_NS = 2_100_000_000  # file systems that only keep (even) seconds


class Look(NamedTuple):
    """What `lstat` said."""

    dev: int
    ino: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    mode: int


@dataclass(frozen=True, slots=True)
class Known:
    """A digest and the looks of the file it was made of."""

    look: Look
    entry: Entry
    settled: bool  # False: too young when it was read, never to be trusted


def look_at(path: bytes) -> Look | None:
    """Looks at a path without following a link; None when nothing is there.

    Raises:
        OSError: A folder above it cannot be entered.
    """
    try:
        stat = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # a folder above it became a link in a circle
            return None
        raise
    return look_of(stat)


def look_of(stat: os.stat_result) -> Look:
    """The part of a stat result that changes whenever content may have changed."""
    return Look(*_PARTS(stat))


def look_at_many(paths: Iterable[bytes]) -> list[tuple[int, ...]]:
    """Looks at paths that all exist, as fast as this language can: bare tuples, equal to their looks.

    Raises:
        OSError: One of them cannot be looked at.
    """
    return list(map(_PARTS, map(os.lstat, paths)))


def is_settled(look: Look, *, read_from_ns: int) -> bool:
    """Whether a later write must show in the looks.

    Args:
        look: Looks of the file as it was read.
        read_from_ns: Wall clock before the reading began.
    """
    coarse = look.ctime_ns % 1_000_000_000 == 0
    tick_ns = _COARSE_TICK_NS if coarse else _TICK_NS
    return max(look.mtime_ns, look.ctime_ns) < read_from_ns - tick_ns


def dump(known: Mapping[RepoPath, Known]) -> bytes:
    """Packs what is known; unsettled entries are left out."""
    rows = [(path, item) for path, item in known.items() if item.settled]
    paths = b"\0".join([path.encode("utf-8", "surrogateescape") for path, _ in rows])
    records = b"".join([_pack(item) for _, item in rows])
    body = _MAGIC + struct.pack("<QQ", len(rows), len(paths)) + paths + records
    return body + hashlib.sha256(body).digest()


def load(data: bytes) -> dict[RepoPath, Known]:
    """Unpacks `dump`; anything damaged or of another version is an empty memory, never an error."""
    body, seal = data[:-32], data[-32:]
    if not body.startswith(_MAGIC) or hashlib.sha256(body).digest() != seal:
        return {}
    count, length = struct.unpack_from("<QQ", body, len(_MAGIC))
    start = len(_MAGIC) + 16
    names = body[start : start + length].decode("utf-8", "surrogateescape").split("\0") if count else []
    records = _RECORD.iter_unpack(body[start + length :])
    return {RepoPath(name): _unpack(record) for name, record in zip(names, records, strict=True)}


def read_file(path: str) -> dict[RepoPath, Known]:
    """Loads a memory from a file; empty when there is none."""
    try:
        with open(path, "rb") as file:
            return load(file.read())
    except OSError:
        return {}


def write_file(path: str, known: Mapping[RepoPath, Known]) -> None:
    """Writes a memory, whole or not at all.

    Raises:
        OSError: The folder is full or read-only.
    """
    temporary = f"{path}.{os.getpid()}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(dump(known))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _pack(item: Known) -> bytes:
    look, entry = item.look, item.entry
    kind = _MODES.index(entry.mode)
    return _RECORD.pack(*look, kind, entry.stored, bytes.fromhex(entry.blob), entry.size_bytes)


def _unpack(record: tuple[int, int, int, int, int, int, int, int, bytes, int]) -> Known:
    *look, kind, stored, blob, size_bytes = record
    entry = Entry(_MODES[kind], BlobId(blob.hex()), size_bytes, bool(stored))
    return Known(Look(*look), entry, True)
