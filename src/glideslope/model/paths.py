"""`RepoPath`: the only kind of path known above the adapters."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NewType

from glideslope.errors import PathEscapes

RepoPath = NewType("RepoPath", str)
"""Relative to the workspace root, posix, normalised, never empty, no `..`, no `.git` component.
Bytes that are not UTF-8 are carried as surrogate escapes."""


def repo_path(text: str) -> RepoPath:
    """Makes a `RepoPath` of a relative path.

    Args:
        text: Relative path with forward slashes; `./` and doubled slashes are folded.

    Returns:
        The normalised path.

    Raises:
        PathEscapes: Empty, absolute, with `..`, a NUL or a `.git` component.
    """
    if not text or text.startswith("/") or "\0" in text:
        raise PathEscapes(f"{text!r} is not a path inside the workspace: give a relative path", path=text)
    parts = PurePosixPath(text).parts
    if not parts or ".." in parts or ".git" in parts:
        raise PathEscapes(f"{text!r} leaves the workspace: give a path below its root", path=text)
    return RepoPath("/".join(parts))


def is_beneath(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it; the folder `""` or `"."` holds everything."""
    return folder in ("", ".") or path == folder or path.startswith(folder + "/")


def parent(path: str) -> str:
    """The folder of a path, `""` at the top."""
    return path.rpartition("/")[0]


def name(path: str) -> str:
    """The last component of a path."""
    return path.rpartition("/")[2]
