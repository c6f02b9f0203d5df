"""Finds the workspace a folder belongs to, and where its repository keeps what."""

from __future__ import annotations

import os
import shlex
import threading
from dataclasses import dataclass

from glideslope.adapters.git import Git, git_failed
from glideslope.errors import NoWorkspace
from glideslope.model.ids import Scope
from glideslope.ports.vcs import Workspace

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "glideslope.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Host paths of a repository as seen from one of its worktrees."""

    git_dir: str  # of this worktree: HEAD, index, merge state
    common_dir: str  # shared by all worktrees: refs, objects, config
    objects: str
    object_format: str  # sha1 or sha256


def locate(git: Git, folder: str, *, explicit: bool = False) -> Workspace:
    """Finds the workspace of a folder.

    Args:
        git: Used to ask for the top level.
        folder: Any existing folder.
        explicit: The folder was named by the caller: outside git it is the workspace itself.

    Raises:
        NoWorkspace: No such folder, a repository without a working tree, or neither a repository
            nor a project file upwards of it.
        EnvironmentBroken: git is missing or too old.
    """
    real = os.path.realpath(folder)
    if not os.path.isdir(real):
        raise NoWorkspace(f"{folder} is no folder: give an existing one with --repo", path=folder)
    if _has_git_above(real):
        found = _repository(git, real)
        if found is not None:
            return found
    top = real if explicit else _project_above(real)
    if top is None:
        raise NoWorkspace(
            f"{folder} is neither in a git repository nor in a project: run `git init`, add a pyproject.toml, "
            "or name the folder with --repo",
            path=folder,
        )
    return Workspace(scope=Scope(top), repository=top, is_git=False)


def _has_git_above(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(above, ".git")) for above in _upwards(folder)) or any(
        os.path.basename(above) == ".git" for above in _upwards(folder)
    )


def _upwards(folder: str) -> list[str]:
    found = [folder]
    while (above := os.path.dirname(found[-1])) != found[-1]:
        found.append(above)
    return found


def _project_above(folder: str) -> str | None:
    for above in _upwards(folder):
        if any(os.path.isfile(os.path.join(above, name)) for name in PROJECT_FILES):
            return above
    return None


def _repository(git: Git, folder: str) -> Workspace | None:
    done = git.run(folder, ["rev-parse", "--show-toplevel", "--git-common-dir"])
    if done:
        top, common = os.fsdecode(done.out).split("\n")[:2]
        top = os.path.realpath(top)
        if folder != top and not folder.startswith(top.rstrip("/") + "/"):
            raise NoWorkspace(
                f"the working tree of the repository around {folder} is {top}: go there", path=folder
            )
        return Workspace(
            scope=Scope(top), repository=os.path.realpath(os.path.join(folder, common)), is_git=True
        )
    if "dubious ownership" in done.err:
        raise NoWorkspace(
            f"git refuses {folder} because another user owns it: run "
            f"`git config --global --add safe.directory {shlex.quote(folder)}`",
            path=folder,
        )
    if "must be run in a work tree" in done.err or "cannot use bare repository" in done.err:
        raise NoWorkspace(
            f"{folder} lies inside a repository's own folder: go to its working tree", path=folder
        )
    if "not a git repository" in done.err:
        return None  # a stray `.git`, or a link file that leads nowhere
    raise git_failed(["rev-parse"], done)


class Layouts:
    """Knows the layout of each repository, and notices when one was made anew."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: dict[Scope, tuple[tuple[int, int, int], Layout]] = {}
        self._lock = threading.Lock()

    def of(self, workspace: Workspace) -> Layout:
        """The layout of a workspace that is a git repository.

        Raises:
            NoWorkspace: The repository is gone.
            EnvironmentBroken: git does not answer.
        """
        try:
            stat = os.lstat(os.path.join(workspace.scope, ".git"))
        except OSError:
            raise NoWorkspace(
                f"{workspace.scope} is no repository any more: look there", path=workspace.scope
            ) from None
        mark = (stat.st_dev, stat.st_ino, stat.st_size if not os.path.isdir(workspace.scope + "/.git") else 0)
        with self._lock:
            known = self._known.get(workspace.scope)
        if known is not None and known[0] == mark:
            return known[1]
        layout = self._ask(workspace)
        with self._lock:
            self._known[workspace.scope] = (mark, layout)
        return layout

    def _ask(self, workspace: Workspace) -> Layout:
        arguments = ["rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-object-format"]
        lines = os.fsdecode(self._git.read(workspace.scope, arguments)).split("\n")
        common = os.path.realpath(os.path.join(workspace.scope, lines[1]))
        return Layout(
            git_dir=os.path.realpath(lines[0]),
            common_dir=common,
            objects=os.path.realpath(os.path.join(common, "objects")),
            object_format=lines[2],
        )
