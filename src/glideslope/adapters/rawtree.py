"""The git tree id of raw content, kept up to date as single paths change.

Only the folders above a changed path are digested again. Nothing is written anywhere: the id is
what git would call the tree if every file were stored exactly as it lies on the disk.
"""

from __future__ import annotations

import hashlib

from glideslope.model.ids import TreeId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Entry

_Node = dict[bytes, "Folder | tuple[bytes, bytes]"]


class Folder:
    """One folder: its children by name, and its id while that is known."""

    __slots__ = ("children", "digest")

    def __init__(self) -> None:
        self.children: _Node = {}
        self.digest: bytes | None = None


class RawTree:
    """A mutable set of paths and blobs whose git tree id can be asked for at any time."""

    def __init__(self) -> None:
        self._root = Folder()

    def put(self, path: RepoPath, entry: Entry) -> None:
        """Adds or replaces a file; a file or folder in the way is replaced too."""
        *folders, name = _parts(path)
        node = self._root
        node.digest = None
        for part in folders:
            child = node.children.get(part)
            if not isinstance(child, Folder):
                child = node.children[part] = Folder()
            child.digest = None
            node = child
        node.children[name] = (entry.mode.value.encode(), bytes.fromhex(entry.blob))

    def discard(self, path: RepoPath) -> None:
        """Takes a file out, and folders that become empty; a path that is not a file here is ignored."""
        *folders, name = _parts(path)
        trail = [self._root]
        for part in folders:
            child = trail[-1].children.get(part)
            if not isinstance(child, Folder):
                return
            trail.append(child)
        if isinstance(trail[-1].children.get(name), tuple):
            del trail[-1].children[name]
            for folder in trail:
                folder.digest = None
            for above, part in zip(reversed(trail[:-1]), reversed(folders), strict=True):
                child = above.children[part]
                if isinstance(child, Folder) and not child.children:
                    del above.children[part]

    def id(self) -> TreeId:
        """The id of the whole."""
        return TreeId(_digest(self._root).hex())


def _parts(path: RepoPath) -> list[bytes]:
    return path.encode("utf-8", "surrogateescape").split(b"/")


def _digest(folder: Folder) -> bytes:
    if folder.digest is None:
        # Git sorts folders as if their names ended in a slash.
        rows = [
            (name + b"/", b"40000 " + name + b"\0" + _digest(child))
            if isinstance(child, Folder)
            else (name, child[0] + b" " + name + b"\0" + child[1])
            for name, child in folder.children.items()
        ]
        rows.sort()
        body = b"".join([row for _, row in rows])
        folder.digest = hashlib.sha1(b"tree %d\0" % len(body) + body, usedforsecurity=False).digest()
    return folder.digest
