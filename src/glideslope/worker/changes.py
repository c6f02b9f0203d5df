"""What a task left behind below the project: read from the overlay's upper layer, or by comparing.

Layers are reached through descriptors, as `self/fd/N` relative to the outer /proc: the sandbox's
own /proc covers that one by path, and the caller is not in it.
"""

import os
import stat
from typing import Any, Dict, Iterator, List, Tuple

from .view import View

_OPAQUE = "user.overlay.opaque"
_COMPARED_BYTES = 1 << 20


def list_changes(view: View, limit: int) -> Dict[str, Any]:
    """Lists the paths a task created, modified or deleted, relative to the project root.

    A file whose bytes and mode equal the snapshot's is no change, whatever its times say.

    Args:
        view: The view the task ran in; all its processes have ended. The working directory moves.
        limit: How many paths to name.

    Returns:
        `created`, `modified` and `deleted` (sorted, together at most `limit`), and `count`.
    """
    os.fchdir(view.outer_proc)
    walk = _upper_changes if view.tier == "snapshot" else _copy_changes
    made = set(view.made)
    found = sorted((path, kind) for kind, path in walk(view, "") if path not in made)
    listed: Dict[str, Any] = {"created": [], "modified": [], "deleted": [], "count": len(found)}
    for path, kind in found[:limit]:
        listed[kind].append(path)
    return listed


def _in_layers(view: View, path: str) -> str:
    """The path at which the uppermost layer that has it shows a file; empty where none has."""
    for layer in view.layers:
        candidate = "self/fd/%d/%s" % (layer, path)
        if os.path.lexists(candidate):
            return candidate
    return ""


def _layer_names(view: View, path: str) -> List[str]:
    names = set()
    for layer in view.layers:
        folder = "self/fd/%d/%s" % (layer, path)
        if os.path.isdir(folder) and not (path and os.path.islink(folder.rstrip("/"))):
            names.update(os.listdir(folder))
    return sorted(names)


def _scan(view: View, path: str) -> List["os.DirEntry[str]"]:
    with os.scandir("self/fd/%d/%s" % (view.written, path)) as entries:
        return list(entries)


def _upper_changes(view: View, folder: str) -> Iterator[Tuple[str, str]]:
    entries = _scan(view, folder)
    if folder and _is_opaque(view, folder):
        present = {entry.name for entry in entries}
        for name in _layer_names(view, folder):
            if name not in present:
                yield "deleted", folder + name
    for entry in entries:
        path = folder + entry.name
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            if _in_layers(view, path):
                yield "deleted", path
        else:
            yield from _one(view, path, entry, _upper_changes)


def _is_opaque(view: View, folder: str) -> bool:
    path = "self/fd/%d/%s" % (view.written, folder)
    try:
        return os.getxattr(path, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _copy_changes(view: View, folder: str) -> Iterator[Tuple[str, str]]:
    entries = _scan(view, folder)
    present = {entry.name for entry in entries}
    for name in _layer_names(view, folder):
        if name not in present:
            yield "deleted", folder + name
    for entry in entries:
        yield from _one(view, folder + entry.name, entry, _copy_changes)


def _one(view: View, path: str, entry: "os.DirEntry[str]", walk: Any) -> Iterator[Tuple[str, str]]:
    before = _in_layers(view, path)
    if entry.is_dir(follow_symlinks=False):
        if not before and not _scan(view, path):
            yield "created", path
        elif before and not os.path.isdir(before):
            yield "modified", path
        yield from walk(view, path + "/")
    elif not before:
        yield "created", path
    elif not _same(before, "self/fd/%d/%s" % (view.written, path), view.tier == "copy"):
        yield "modified", path


def _same(before: str, after: str, trust_times: bool) -> bool:
    # In a whole copy most files were never touched and still have their times.
    old, new = os.lstat(before), os.lstat(after)
    if old.st_mode != new.st_mode or old.st_size != new.st_size:
        return False
    if stat.S_ISLNK(old.st_mode):
        return os.readlink(before) == os.readlink(after)
    if not stat.S_ISREG(old.st_mode):
        return True
    if trust_times and old.st_mtime_ns == new.st_mtime_ns:
        return True
    with open(before, "rb") as left, open(after, "rb") as right:
        while True:
            block = left.read(_COMPARED_BYTES)
            if block != right.read(_COMPARED_BYTES):
                return False
            if not block:
                return True
