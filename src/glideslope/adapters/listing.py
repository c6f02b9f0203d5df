"""Which paths belong to a snapshot, before anybody looks at their content.

Inside git that is what git itself would list (tracked, and untracked but not ignored), nested
repositories and submodules included; elsewhere every file. Leavings of tools are never part of it
unless they are tracked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from glideslope.adapters.git import Git, Output, Started
from glideslope.errors import SnapshotUnreadable
from glideslope.model.paths import RepoPath

JUNK_FOLDERS = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
JUNK_FILES = ("*.pyc",)
_UNREADABLE = re.compile(r"(?:could not open directory|cannot opendir|failed to (?:open|read)) '([^']+)'")
_MARKS = "?"  # git's tag of an untracked path


class Moved(Exception):
    """Something changed while it was read; never leaves the adapters: it ends as another try or as stale."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Listed:
    """One path that git or a walk named."""

    path: RepoPath
    tracked: bool
    kept_off: bool = False  # marked skip-worktree: a sparse checkout keeps it off the disk
    is_folder: bool = False  # named as a folder: a nested repository


@dataclass(slots=True)
class _Memory:
    out: bytes
    listed: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Excluded:
    """What is left out while it is untracked."""

    carry: tuple[str, ...]

    def covers(self, path: str) -> bool:
        """Whether an untracked path is a leaving of a tool or lies in a carried folder."""
        parts = path.split("/")
        if any(part in JUNK_FOLDERS or part == ".git" for part in parts):
            return True
        return any(fnmatchcase(parts[-1], junk) for junk in JUNK_FILES) or is_carried(path, self.carry)

    def options(self) -> list[str]:
        """The same rule as options of `git ls-files`."""
        return self.junk_options() + [f"--exclude={_exclude_pattern(name)}" for name in self.carry]

    def junk_options(self) -> list[str]:
        """The part of the rule that knows nothing of carried folders."""
        return [f"--exclude={pattern}" for pattern in (*(f"{name}/" for name in JUNK_FOLDERS), *JUNK_FILES)]

    def homes(self, listed: Iterable[Listed]) -> tuple[str, ...]:
        """Folders with a carried name in which something is tracked, sorted."""
        found: set[str] = set()
        for one in listed:
            if one.tracked and is_carried(one.path, self.carry):
                parts = one.path.split("/")
                tops = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
                found.update(top for top in tops if is_carried(top, self.carry))
        return tuple(sorted(home for home in found if not is_carried(home.rpartition("/")[0], self.carry)))


def is_carried(path: str, carry: Iterable[str]) -> bool:
    """Whether a path is, or lies in, a carried folder.

    Args:
        path: Relative to the workspace.
        carry: Names, which count at any depth, or paths with a slash, which count from the root.
    """
    parts = path.split("/")
    for name in carry:
        name = name.strip("/")
        if "/" in name:
            if path == name or path.startswith(name + "/"):
                return True
        elif name in parts:
            return True
    return False


def _exclude_pattern(name: str) -> str:
    plain = re.sub(r"([\\*?\[\]!# ])", r"\\\1", name.strip("/"))
    return f"/{plain}" if "/" in plain else plain


def parse_listing(out: bytes) -> tuple[Listed, ...]:
    """Reads `git ls-files -t -z`: each record is a tag, a space and a path; stages are folded."""
    found: dict[str, Listed] = {}
    for record in out.decode("utf-8", "surrogateescape").split("\0"):
        tag, _, name = record.partition(" ")
        path = name.rstrip("/")
        if path:
            found[path] = Listed(
                RepoPath(path), tag not in _MARKS, kept_off=tag in "Ss", is_folder=name.endswith("/")
            )
    return tuple(found.values())


def walk(root: bytes, excluded: Excluded) -> tuple[Listed, ...]:
    """Every file below a folder that is no repository, links not followed.

    Raises:
        SnapshotUnreadable: A folder cannot be listed.
    """
    found: list[Listed] = []
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unreadable(folder.decode("utf-8", "replace") or ".", error) from None
        for entry in entries:
            raw = os.path.join(folder, entry.name)
            path = RepoPath(raw.decode("utf-8", "surrogateescape"))
            if excluded.covers(path):
                continue
            if not entry.is_dir(follow_symlinks=False):
                found.append(Listed(path, False))
            elif os.path.lexists(os.path.join(root, raw, b".git")):
                found.append(Listed(path, False, is_folder=True))
            else:
                waiting.append(raw)
    return tuple(found)


def unreadable(path: str, error: OSError) -> SnapshotUnreadable:
    """The error for something that belongs to the snapshot and cannot be read."""
    return SnapshotUnreadable(
        f"{path} cannot be read ({error.strerror or error}): make it readable, or have git ignore it",
        path=path,
    )


class Lister:
    """Lists a workspace again and again, cheaply when nothing changed."""

    def __init__(self, git: Git, root: bytes, *, is_git: bool, excluded: Excluded) -> None:
        self._git = git
        self._root = root
        self._is_git = is_git
        self._excluded = excluded
        self._memory: dict[str, _Memory] = {}  # by folder of the repository; "" is the workspace
        self._walked: dict[str, tuple[Listed, ...]] = {}
        self._homes: dict[bytes, tuple[str, ...]] = {}  # of the last listing

    def start(self) -> dict[str, Started]:
        """Starts what was needed last time, so that other work can go on meanwhile."""
        if not self._is_git:
            return {}
        folders = [folder for folder in self._memory if not folder or self._is_repository(folder)]
        return {folder: self._start(folder) for folder in folders[:8] or [""]}

    def list(self, folder: str, started: Started | None = None) -> tuple[Listed, ...]:
        """The paths of one repository of the workspace, relative to its folder.

        Args:
            folder: `""` for the workspace itself, else the path of a nested repository.
            started: What `start` gave for that folder.

        Returns:
            The very same tuple as before if nothing changed.

        Raises:
            SnapshotUnreadable: git cannot list something, or a folder cannot be entered.
        """
        if not folder and not self._is_git:
            return self._walk(folder)
        if started is None and folder and not self._is_repository(folder):
            raise Moved(folder)
        done = (started or self._start(folder)).wait()
        if not done and folder and "dubious ownership" not in done.err:
            # A `.git` that is no repository (a leftover, a broken link file): an ordinary folder.
            return self._walk(folder)
        if not done or _UNREADABLE.search(done.err):
            raise _cannot_list(folder, done)
        out = done.out + self._beside_tracked(folder, done.out)
        memory = self._memory.get(folder)
        if memory is None or memory.out != out:
            memory = self._memory[folder] = _Memory(out, parse_listing(out))
        return memory.listed

    def _beside_tracked(self, folder: str, out: bytes) -> bytes:
        """Untracked files in folders that bear a carried name but hold files of the repository.

        Such a folder is no environment, and it is not bound over the snapshot; what lies in it counts.
        """
        if out not in self._homes:
            self._homes = {out: self._excluded.homes(parse_listing(out))}
        homes = self._homes[out]
        if not homes:
            return b""
        arguments = ["ls-files", "-t", "-z", "--others", "--exclude-standard", *self._excluded.junk_options()]
        done = self._git.run(self._host(folder), [*arguments, "--", *(f":(literal){home}" for home in homes)])
        if not done:
            raise _cannot_list(folder, done)
        return done.out

    def forget_all_but(self, folders: Iterable[str]) -> None:
        """Drops what is remembered of nested repositories that are gone."""
        kept = set(folders)
        self._memory = {folder: memory for folder, memory in self._memory.items() if folder in kept}
        self._walked = {folder: listed for folder, listed in self._walked.items() if folder in kept}

    def _walk(self, folder: str) -> tuple[Listed, ...]:
        self._memory.pop(folder, None)
        now, before = walk(self._host(folder), self._excluded), self._walked.get(folder)
        if before is None or before != now:
            self._walked[folder] = before = now
        return before

    def _is_repository(self, folder: str) -> bool:
        return os.path.lexists(os.path.join(self._host(folder), b".git"))

    def _host(self, path: str) -> bytes:
        return os.path.join(self._root, path.encode("utf-8", "surrogateescape")) if path else self._root

    def _start(self, folder: str) -> Started:
        host = self._host(folder)
        # A broken nested repository must not be taken for a part of the one around it.
        ceiling = {"GIT_CEILING_DIRECTORIES": os.fsdecode(os.path.dirname(host))} if folder else {}
        arguments = [
            "ls-files",
            "-t",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            *self._excluded.options(),
        ]
        return self._git.start(host, arguments, environment=ceiling)


def _cannot_list(folder: str, done: Output) -> SnapshotUnreadable:
    where = folder or "the repository"
    if "dubious ownership" in done.err:
        return SnapshotUnreadable(
            f"git refuses {where} because another user owns it: run `git config --global --add safe.directory` "
            "with its path",
            path=folder or ".",
        )
    match = _UNREADABLE.search(done.err)
    path = "/".join(part for part in (folder, match[1].rstrip("/") if match else "") if part) or "."
    says = done.err.splitlines()[-1] if done.err else f"git ls-files ended with {done.code}"
    return SnapshotUnreadable(
        f"{path} cannot be listed ({says}): make it readable, or have git ignore it", path=path
    )
