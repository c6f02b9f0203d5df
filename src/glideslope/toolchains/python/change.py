"""Which source files a change touches, where they came from, and who is next to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, is_beneath, name
from glideslope.model.project import nearest_project
from glideslope.model.snapshot import Change, ChangeKind, FileMode
from glideslope.ports.toolchain import Context, Tree
from glideslope.toolchains.python.graph import SUFFIXES, ImportGraph

MOST_IMPORTERS = 30
"""How many direct importers are looked at beside the changed files."""

_MOST_RENAME_CANDIDATES = 50
_SIMILAR = 0.5  # share of lines two files must have in common to be one file that moved


def considered(context: Context) -> tuple[Change, ...]:
    """The changes of the context's project, restricted to its `only_paths`."""
    return tuple(
        change
        for change in context.changes
        if nearest_project(context.projects, change.path) == context.project
        and (not context.only_paths or any(is_beneath(change.path, path) for path in context.only_paths))
    )


def touched_sources(context: Context) -> tuple[RepoPath, ...]:
    """Source files to look at: those named in `only_paths`, else the changed ones; sorted."""
    if context.only_paths:
        named = (path for path in context.now.entries if _is_source(context.now, path))
        return tuple(
            sorted(
                path
                for path in named
                if nearest_project(context.projects, path) == context.project
                and any(is_beneath(path, chosen) for chosen in context.only_paths)
            )
        )
    changed = (change.path for change in considered(context) if change.after is not None)
    return tuple(sorted(path for path in changed if _is_source(context.now, path)))


def named_in_vain(context: Context) -> tuple[str, ...]:
    """Those of `only_paths`, of the context's project, that neither the tree nor the change has; sorted."""
    changed = frozenset(change.path for change in context.changes)
    return tuple(
        sorted(
            named
            for named in context.only_paths
            if nearest_project(context.projects, named) == context.project
            and not any(is_beneath(path, named) for path in (*context.now.entries, *changed))
        )
    )


def vanished_sources(changes: Iterable[Change]) -> tuple[RepoPath, ...]:
    """Source files that are no longer where the base had them; sorted."""
    gone: set[RepoPath] = set()
    for change in changes:
        if change.kind is ChangeKind.DELETED:
            gone.add(change.path)
        elif change.kind is ChangeKind.RENAMED and change.origin is not None:
            gone.add(change.origin)
    return tuple(sorted(path for path in gone if path.endswith(SUFFIXES)))


def direct_importers(
    context: Context, graph: ImportGraph, touched: Iterable[RepoPath]
) -> tuple[RepoPath, ...]:
    """Files that import a touched or vanished one, at most `MOST_IMPORTERS`; sorted.

    Importers of vanished modules come first when there are more.
    """
    if context.only_paths:
        return ()
    given = frozenset(touched)
    urgent = graph.importers(vanished_sources(considered(context))) - given
    others = graph.importers(given) - urgent
    kept = [*sorted(urgent), *sorted(others)][:MOST_IMPORTERS]
    return tuple(sorted(path for path in kept if _is_source(context.now, path)))


def origins(context: Context) -> Mapping[RepoPath, RepoPath]:
    """Paths of source files that had another one in the base, to that one.

    Renames of equal content are in the changes already; a file that was moved and edited at
    once is recognised by the lines it kept.
    """
    found = {
        change.path: change.origin
        for change in context.changes
        if change.kind is ChangeKind.RENAMED and change.origin is not None
    }
    if context.base is None:
        return found
    added = [change.path for change in context.changes if change.kind is ChangeKind.ADDED]
    deleted = [change.path for change in context.changes if change.kind is ChangeKind.DELETED]
    added = [path for path in added if path.endswith(SUFFIXES)][:_MOST_RENAME_CANDIDATES]
    deleted = [path for path in deleted if path.endswith(SUFFIXES)][:_MOST_RENAME_CANDIDATES]
    old = {path: _line_counts(context.base, path) for path in deleted}
    for path in added:
        new = _line_counts(context.now, path)
        score, best = max(
            ((_likeness(new, lines), origin) for origin, lines in old.items()), default=(0.0, path)
        )
        if score >= _SIMILAR:
            found[path] = best
            del old[best]
    return found


def _is_source(tree: Tree, path: str) -> bool:
    entry = tree.entries.get(RepoPath(path))
    return path.endswith(SUFFIXES) and entry is not None and entry.mode is not FileMode.SYMLINK


def _line_counts(tree: Tree, path: RepoPath) -> Counter[bytes]:
    try:
        return Counter(line for line in tree.read(path).splitlines() if line.strip())
    except UnknownId:
        return Counter()


def _likeness(one: Counter[bytes], other: Counter[bytes]) -> float:
    most = max(one.total(), other.total())
    return (one & other).total() / most if most else 0.0


def is_test_file(path: str) -> bool:
    """Whether pytest would take a file for tests or their support by its name."""
    last = name(path)
    return last == "conftest.py" or last.startswith("test_") or last.endswith("_test.py")


def is_test_path(path: str) -> bool:
    """Whether a file is a test, or lies in a folder of tests."""
    return is_test_file(path) or bool({"tests", "test"}.intersection(path.split("/")[:-1]))
