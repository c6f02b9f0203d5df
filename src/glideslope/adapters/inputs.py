"""Finds declared ignored inputs (`carry_files`): files that git ignores and a run still needs.

The search remembers every folder's listing and looks only at the folders themselves again, so
that a warm search costs one `lstat` a folder.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass

from glideslope.adapters.listing import JUNK_FOLDERS, is_carried
from glideslope.adapters.statcache import Look, is_settled, look_at, look_at_many
from glideslope.model.paths import RepoPath

LIMIT_BYTES = 64 * 1024 * 1024
_NEVER = frozenset(JUNK_FOLDERS) | {".git", ".hg", ".svn", ".tox", ".nox", ".eggs", ".direnv", ".terraform"}


def glob_pattern(glob: str) -> str:
    """Translates one glob to a regular expression for whole paths: `**/`, `*`, `?`, `[...]`."""
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        elif glob[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif glob[at] == "?":
            out, at = out + "[^/]", at + 1
        elif glob[at] == "[" and "]" in glob[at + 2 :]:
            end = glob.index("]", at + 2)
            inner = glob[at + 1 : end].replace("\\", "\\\\")
            out, at = out + "[" + ("^" + inner[1:] if inner[0] == "!" else inner) + "]", end + 1
        else:
            out, at = out + re.escape(glob[at]), at + 1
    return out


@dataclass(slots=True)
class _Folder:
    look: Look
    settled: bool
    folders: tuple[str, ...]
    matching: tuple[RepoPath, ...]


class InputFinder:
    """Finds paths that match, in folders that are neither carried nor leavings of tools."""

    def __init__(self, root: bytes, *, globs: Sequence[str], carry: Sequence[str]) -> None:
        self._root = root
        self._carry = tuple(carry)
        self._matches = (
            re.compile("|".join(f"(?:{glob_pattern(glob)})" for glob in globs), re.DOTALL).fullmatch
            if globs
            else None
        )
        self._memory: dict[str, _Folder] = {}
        self._hosts: list[bytes] = []  # of the remembered folders, in their order
        self._found: list[RepoPath] = []
        self.is_unchanged = False  # every folder looked as in the search before

    def find(self) -> list[RepoPath]:
        """Every path that matches now; tracked ones too. A folder that cannot be listed holds none."""
        if self._matches is None:
            return []
        self.is_unchanged = self._looks_the_same()
        if self.is_unchanged:
            return self._found
        found: list[RepoPath] = []
        fresh: dict[str, _Folder] = {}
        waiting = [""]
        while waiting:
            path = waiting.pop()
            folder = self._folder(path)
            if folder is not None:
                fresh[path] = folder
                found += folder.matching
                waiting += folder.folders
        self._memory, self._found = fresh, found
        self._hosts = [self._host(path) for path in fresh]
        return found

    def covers(self, folder: str) -> bool:
        """Whether a folder was among those the last search looked at."""
        return folder in self._memory

    def _looks_the_same(self) -> bool:
        known = self._memory.values()
        if not known or not all(folder.settled for folder in known):
            return False
        try:
            return look_at_many(self._hosts) == [folder.look for folder in known]
        except OSError:
            return False

    def _host(self, path: str) -> bytes:
        return os.path.join(self._root, path.encode("utf-8", "surrogateescape")) if path else self._root

    def _folder(self, path: str) -> _Folder | None:
        host = self._host(path)
        started_ns = time.time_ns()
        try:
            look = look_at(host)
            if look is None or not stat.S_ISDIR(look.mode):
                return None
            known = self._memory.get(path)
            if known is not None and known.settled and known.look == look:
                return known
            entries = list(os.scandir(host))
        except OSError:
            return None
        return self._read(path, look, entries, settled=is_settled(look, read_from_ns=started_ns))

    def _read(self, path: str, look: Look, entries: list[os.DirEntry[bytes]], *, settled: bool) -> _Folder:
        prefix = path + "/" if path else ""
        folders, matching = [], []
        for entry in entries:
            name = entry.name.decode("utf-8", "surrogateescape")
            whole = prefix + name
            if is_carried(whole, self._carry):
                continue
            if entry.is_dir(follow_symlinks=False):
                if name not in _NEVER:
                    folders.append(whole)
            elif self._matches is not None and self._matches(whole):
                matching.append(RepoPath(whole))
        return _Folder(look, settled, tuple(folders), tuple(matching))
