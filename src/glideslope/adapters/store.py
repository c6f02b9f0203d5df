"""Content-addressed files in the state folder: what snapshots and bases consist of.

An object is the raw bytes of a file, named by its git blob id. Writes go to a temporary name and
are renamed, so a name never shows half an object; reads check the id, so damage is never served.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass

from glideslope.errors import GlideslopeError, StateUnavailable, UnknownId
from glideslope.model.ids import BlobId

_CHUNK_BYTES = 1 << 20
_YOUNG_S = 600.0  # an object this fresh may belong to a snapshot still being taken


def blob_id(data: bytes) -> BlobId:
    """The git blob id of raw bytes, whatever hash the repository itself uses."""
    return BlobId(hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())


def state_unavailable(error: OSError) -> StateUnavailable:
    """The error for a state folder that does not take our writes."""
    return StateUnavailable(
        f"the state folder cannot be written ({error.strerror or error}): free space with `glideslope prune`, "
        "or set GLIDESLOPE_STATE_DIR to a folder that can be written",
        next="glideslope prune",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """What a prune would remove; nothing has been removed yet."""

    objects: tuple[BlobId, ...]  # least recently stored first
    frees_bytes: int
    total_bytes: int


class Store:
    """Blobs below `<state>/objects`, safe for several threads and processes."""

    def __init__(self, state: str) -> None:
        self._root = os.path.join(state, "objects")
        self._stamp = os.path.join(self._root, "generation")
        self._known: set[BlobId] | None = None
        self._sizes: dict[BlobId, int] = {}
        self._generation: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._serial = itertools.count()

    def _path(self, blob: BlobId) -> str:
        return os.path.join(self._root, blob[:2], blob[2:])

    def generation(self) -> tuple[int, int] | None:
        """Changes whenever objects may have gone; additions do not count."""
        try:
            stat = os.stat(self._stamp)
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def known(self) -> Set[BlobId]:
        """Ids that are stored, as far as their names tell; read-only for callers.

        Raises:
            StateUnavailable: The folder cannot be made or read.
        """
        generation = self.generation()
        with self._lock:
            if self._known is None or generation is None or generation != self._generation:
                if generation is None:
                    self._touch()
                    generation = self.generation()
                self._known, self._generation = set(self._scan()), generation
            return self._known

    def has(self, blob: BlobId) -> bool:
        """Whether an object of that name is there."""
        return blob in self.known()

    def size_of(self, blob: BlobId) -> int | None:
        """Bytes of an object; None when it is not stored."""
        with self._lock:
            size = self._sizes.get(blob)
        if size is None:
            try:
                size = os.stat(self._path(blob)).st_size
            except OSError:
                return None
            with self._lock:
                self._sizes[blob] = size
        return size

    def read(self, blob: BlobId) -> bytes:
        """The bytes of an object.

        Raises:
            UnknownId: Not stored, or damaged; a damaged object is taken away so that it is stored anew.
            StateUnavailable: The file cannot be read.
        """
        try:
            with open(self._path(blob), "rb", buffering=0) as file:
                data = file.read()
        except FileNotFoundError:
            self._forget(blob)
            raise _unknown(blob) from None
        except OSError as error:
            raise state_unavailable(error) from None
        if blob_id(data) != blob:
            with contextlib.suppress(OSError):
                os.unlink(self._path(blob))
            self._forget(blob)
            raise _unknown(blob)
        return data

    def put(self, data: bytes) -> BlobId:
        """Stores bytes, once.

        Raises:
            StateUnavailable: The folder is full or read-only.
        """
        blob = blob_id(data)
        if self.has(blob):
            return blob
        path = self._path(blob)
        try:
            with self._new_file(path) as temporary:
                _write(temporary, data)
        except OSError as error:
            raise state_unavailable(error) from None
        self._remember(blob)
        return blob

    def put_stream(self, descriptor: int, size_bytes: int, *, keep: bool = True) -> tuple[BlobId, int]:
        """Digests what a descriptor yields, storing it on the way.

        Args:
            descriptor: Read from its current position.
            size_bytes: The size to expect; part of the id.
            keep: False digests only.

        Returns:
            The id and how many bytes there really were; the id is true only if that is `size_bytes`,
            and nothing is stored otherwise.

        Raises:
            StateUnavailable: The folder is full or read-only.
        """
        digest = hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
        if not keep:
            return _drain(descriptor, digest, None)
        self.known()  # makes the folders of an empty store
        try:
            name = self._temporary()
            target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise state_unavailable(error) from None
        try:
            blob, seen = _drain(descriptor, digest, target)
            if seen == size_bytes:
                self._place(name, self._path(blob))
                self._remember(blob)
        except OSError as error:
            raise state_unavailable(error) from None
        finally:
            os.close(target)
            with contextlib.suppress(OSError):
                os.unlink(name)
        return blob, seen

    def size_bytes(self) -> int:
        """What all objects take, in bytes of content."""
        return sum(size for _, size, _ in self._list())

    def plan_prune(self, *, cap_bytes: int, keep: Set[BlobId], now_s: float | None = None) -> PrunePlan:
        """Lists what would have to go for the store to fit.

        Args:
            cap_bytes: Size to come down to.
            keep: Objects that stay whatever the cap says.
            now_s: Wall clock; objects of the last ten minutes stay too.
        """
        now_s = time.time() if now_s is None else now_s
        found = sorted(self._list(), key=lambda item: item[2])
        total = sum(size for _, size, _ in found)
        gone: list[BlobId] = []
        frees = 0
        for blob, size, stored_at in found:
            if total - frees <= cap_bytes:
                break
            if blob not in keep and stored_at < now_s - _YOUNG_S:
                gone.append(blob)
                frees += size
        return PrunePlan(objects=tuple(gone), frees_bytes=frees, total_bytes=total)

    def prune(self, plan: PrunePlan) -> None:
        """Removes what a plan lists; what is gone already is no error.

        Raises:
            StateUnavailable: The folder is read-only.
        """
        try:
            for blob in plan.objects:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path(blob))
            self._sweep()
            self._touch()
        except OSError as error:
            raise state_unavailable(error) from None

    def _sweep(self) -> None:
        """Takes away temporary files that a killed process left."""
        for entry in list(os.scandir(os.path.join(self._root, "tmp"))):
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - _YOUNG_S:
                    os.unlink(entry.path)

    def _scan(self) -> Iterator[BlobId]:
        try:
            for folder in list(os.scandir(self._root)):
                if len(folder.name) == 2:
                    yield from (BlobId(folder.name + name) for name in os.listdir(folder.path))
        except OSError as error:
            raise state_unavailable(error) from None

    def _list(self) -> Iterator[tuple[BlobId, int, float]]:
        for blob in self._scan():
            with contextlib.suppress(FileNotFoundError):
                stat = os.stat(self._path(blob))
                yield blob, stat.st_size, stat.st_mtime

    def _touch(self) -> None:
        try:
            os.makedirs(os.path.join(self._root, "tmp"), mode=0o700, exist_ok=True)
            name = self._temporary()
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.replace(name, self._stamp)
        except OSError as error:
            raise state_unavailable(error) from None

    def _temporary(self) -> str:
        return os.path.join(self._root, "tmp", f"{os.getpid()}-{next(self._serial)}")

    @contextlib.contextmanager
    def _new_file(self, path: str) -> Iterator[int]:
        name = self._temporary()
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                yield descriptor
            finally:
                os.close(descriptor)
            self._place(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _place(self, name: str, path: str) -> None:
        try:
            os.rename(name, path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.rename(name, path)

    def _remember(self, blob: BlobId) -> None:
        with self._lock:
            if self._known is not None:
                self._known.add(blob)

    def _forget(self, blob: BlobId) -> None:
        with self._lock:
            if self._known is not None:
                self._known.discard(blob)
        with contextlib.suppress(GlideslopeError):
            self._touch()


def _unknown(blob: BlobId) -> UnknownId:
    return UnknownId(f"content {blob[:12]} is not stored (any more): verify again", id=blob)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _drain(descriptor: int, digest: hashlib._Hash, target: int | None) -> tuple[BlobId, int]:
    seen = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        digest.update(chunk)
        seen += len(chunk)
        if target is not None:
            _write(target, chunk)
    return BlobId(digest.hexdigest()), seen
