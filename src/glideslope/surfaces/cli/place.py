"""From paths as typed to paths of the workspace, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable

from glideslope.errors import PathEscapes
from glideslope.model.paths import repo_path
from glideslope.surfaces.cli.app import App


def workspace_root(app: App) -> str:
    """Real path of the workspace's top.

    Raises:
        NoWorkspace: There is none around the folder.
    """
    from glideslope.adapters.git import Git
    from glideslope.adapters.workspace import locate

    return locate(Git(), app.at, explicit=app.repo is not None).scope


def to_repo_paths(app: App, typed: Iterable[str]) -> tuple[str, ...]:
    """Paths as typed, relative to the workspace root; sorted, each once.

    The root itself stands for everything: then nothing is returned.

    Raises:
        PathEscapes: One lies outside.
        NoWorkspace: There is no workspace.
    """
    paths = list(typed)
    if not paths:
        return ()
    root = workspace_root(app)
    found = {_below(root, app.folder, path) for path in paths}
    return () if "" in found else tuple(sorted(found))


def to_node_ids(app: App, typed: Iterable[str]) -> tuple[str, ...]:
    """Node ids whose file is given relative to the current folder, relative to the root instead.

    A file that is not there is taken as relative to the root already.

    Raises:
        PathEscapes: One lies outside.
        NoWorkspace: There is no workspace.
    """
    ids = list(typed)
    if not ids:
        return ()
    root = workspace_root(app)
    return tuple(_node_id(root, app.folder, node) for node in ids)


def to_shown(app: App, scope: str, path: str) -> str:
    """A path of the workspace as seen from the current folder."""
    return os.path.relpath(os.path.join(scope, path), app.folder)


def _node_id(root: str, folder: str, node: str) -> str:
    file, separator, rest = node.partition("::")
    if not os.path.lexists(os.path.join(folder, file)):
        return node
    return _below(root, folder, file) + separator + rest


def _below(root: str, folder: str, path: str) -> str:
    """The last component is not followed: a link is a file of the repository like any other."""
    given = os.path.normpath(os.path.join(folder, path))
    if given != root and given != os.path.realpath(given):
        given = os.path.join(os.path.realpath(os.path.dirname(given)), os.path.basename(given))
    below = os.path.relpath(given, root)
    if below == ".":
        return ""
    if below.startswith("../") or below == "..":
        raise PathEscapes(f"{path!r} lies outside the workspace {root}: give a path below it", path=path)
    return repo_path(below)
