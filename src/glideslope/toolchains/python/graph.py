"""Who imports whom in a workspace, from syntax alone; where in doubt, an edge exists.

Theory of operation. What depends on the set of paths alone is a `Universe`, kept while no file
appears or vanishes; the edges of a file are kept by its content. So a graph after an edit costs
one file read, and the rest is looking up.

With a base, the universe also holds the files that vanished since: importers of a vanished
module keep their edge to it. Deliberately absent: pytest's own dependency of a test on the
conftest files above it, which is no import.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, parent
from glideslope.model.project import Project
from glideslope.model.snapshot import FileMode
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.layout import CONFIGURATION, Roots, import_roots
from glideslope.toolchains.python.module import Import, Memo, ModuleFacts
from glideslope.toolchains.python.universe import (
    SUFFIXES,
    Edges,
    Universe,
    find_edges,
    import_targets,
    named_spots,
)

_KEPT_UNIVERSES = 4
_KEPT_VERSIONS = 20  # of each file, on average

__all__ = ["SUFFIXES", "Edges", "ImportGraph", "Missing", "Universe", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An import of a module that should be ours and is not there."""

    path: RepoPath
    imported: Import
    module: str  # dotted; for relative imports the dots in front are kept


class ImportGraph:
    """The import graph of one tree."""

    __slots__ = ("_direct", "_edges", "_facts", "_memo", "_reverse", "_tree", "files", "universe", "vanished")

    def __init__(
        self,
        tree: Tree,
        memo: Memo,
        universe: Universe,
        files: tuple[RepoPath, ...],
        vanished: frozenset[RepoPath],
    ) -> None:
        self._tree = tree
        self._memo = memo
        self.universe = universe
        self.files = files
        """Source files of the tree, sorted."""
        self.vanished = vanished
        """Source files that only the base has."""
        self._edges = {path: self._edges_of(path) for path in files}
        self._direct: dict[RepoPath, set[RepoPath]] | None = None
        self._reverse: dict[bool, dict[RepoPath, set[RepoPath]]] = {}

    @classmethod
    def of(cls, tree: Tree, projects: tuple[Project, ...], memo: Memo, base: Tree | None = None) -> Self:
        """Builds the graph of a tree; quick when little changed since the last one.

        Args:
            tree: The tree.
            projects: All projects of the workspace; they declare import roots.
            memo: Keeps facts and edges between calls.
            base: Where given, modules that vanished since it keep their importers.

        Returns:
            The graph.
        """
        files = sources(tree)
        before = () if base is None else sources(base)
        vanished = frozenset(before).difference(files)
        roots = _roots(tree, projects, memo)
        universe = _universe(memo, frozenset(files) | vanished, roots, projects)
        return cls(tree, memo, universe, files, vanished)

    @property
    def known(self) -> Container[RepoPath]:
        """The source files of the tree, for quick membership."""
        return self._edges.keys()

    def facts(self, path: RepoPath) -> ModuleFacts:
        """Facts of a file of the tree."""
        return self._memo.facts(self._tree, path)

    def edges(self, path: RepoPath) -> Edges:
        """What a file depends on directly; nothing for a path that is no source file of the tree."""
        return self._edges.get(path, Edges())

    def importers(self, paths: Iterable[RepoPath]) -> frozenset[RepoPath]:
        """Files that name one of the given modules in an import statement, without the given ones."""
        if self._direct is None:
            self._direct = {}
            for path, edges in self._edges.items():
                for target in edges.loads | edges.types:
                    self._direct.setdefault(target, set()).add(path)
        given = frozenset(paths)
        return frozenset().union(*(self._direct.get(path, set()) for path in given)) - given

    def closure(self, paths: Iterable[RepoPath], *, typing: bool = True) -> frozenset[RepoPath]:
        """Everything that depends on the given files, however far away, and themselves.

        Args:
            paths: Files of the tree or vanished ones.
            typing: Whether imports for type checkers only count.

        Returns:
            Files of the tree, and those of `paths` whatever they are.
        """
        reverse = self._reversed(typing)
        seen = set(paths)
        pending = list(seen)
        while pending:
            for importer in reverse.get(pending.pop(), ()):
                if importer not in seen:
                    seen.add(importer)
                    pending.append(importer)
        return frozenset(seen)

    def resolve(self, path: RepoPath, imported: Import) -> tuple[frozenset[RepoPath], str | None]:
        """What one import of a file means.

        Returns:
            The files it names, and the dotted name of ours that is not there, if any.
        """
        loads, _, missing = import_targets(self.universe, path, imported)
        return frozenset(loads), missing

    def missing(self, paths: Iterable[RepoPath]) -> Iterator[Missing]:
        """Imports that fail because a module of the workspace is not there, in the given order.

        Optional imports (in a `try`, by a computed name) and those for type checkers are left out.
        """
        for path in paths:
            for imported in self.facts(path).imports if path in self._edges else ():
                if not (imported.guarded or imported.dynamic or imported.typing_only):
                    yield from self._missing(path, imported)

    def _missing(self, path: RepoPath, imported: Import) -> Iterator[Missing]:
        spots, missing = named_spots(self.universe, path, imported)
        dots = "." * imported.level
        if missing is None and spots and not any(self._is_alive(spot) for spot in spots):
            missing = dots + imported.module
        if missing is not None:
            yield Missing(path=path, imported=imported, module=missing)
            return
        for taken in imported.names:
            subs = [f"{spot}/{taken}" if spot else taken for spot in spots]
            files = [file for sub in subs for file in self.universe.files(sub)]
            if files and not any(self._is_alive(sub) for sub in subs) and not self._may_bind(spots, taken):
                inner = f"{imported.module}.{taken}" if imported.module else taken
                yield Missing(path=path, imported=imported, module=dots + inner)

    def _is_alive(self, spot: str) -> bool:
        """Whether a location still is a module, or a folder with modules in it."""
        universe = self.universe
        return any(path not in self.vanished for path in (*universe.files(spot), *universe.below(spot)))

    def _may_bind(self, spots: list[str], taken: str) -> bool:
        packages = [file for spot in spots for file in self.universe.files(spot) if file not in self.vanished]
        return any(self.facts(file).binds(taken) is not False for file in packages)

    def _reversed(self, typing: bool) -> dict[RepoPath, set[RepoPath]]:
        found = self._reverse.get(typing)
        if found is None:
            found = self._reverse[typing] = {}
            for path, edges in self._edges.items():
                for group in (edges.loads, edges.touches, edges.types if typing else ()):
                    for target in group:
                        found.setdefault(target, set()).add(path)
        return found

    def _edges_of(self, path: RepoPath) -> Edges:
        if self._tree.entries[path].mode is FileMode.SYMLINK:
            return Edges(loads=self._target(path))
        key = (path, self._tree.entries[path].blob)
        found = self.universe.edges.get(key)
        if found is None:
            if len(self.universe.edges) > _KEPT_VERSIONS * len(self.files):
                self.universe.edges.clear()
            found = self.universe.edges[key] = find_edges(self.universe, path, self.facts(path))
        return found

    def _target(self, path: RepoPath) -> frozenset[RepoPath]:
        """The file that a link points to, where it is one of the tree."""
        try:
            text = self._tree.read(path).decode("utf-8", "surrogateescape")
        except UnknownId:
            return frozenset()
        parts = parent(path).split("/") if parent(path) else []
        for part in text.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part)
        target = RepoPath("/".join(parts))
        return frozenset([target]) if target in self._tree.entries and target != path else frozenset()


def sources(tree: Tree) -> tuple[RepoPath, ...]:
    """The Python source files of a tree, sorted."""
    return tuple(sorted(path for path in tree.entries if path.endswith(SUFFIXES)))


def _roots(tree: Tree, projects: tuple[Project, ...], memo: Memo) -> Roots:
    prefixes = [f"{project.root}/" if project.root else "" for project in projects]
    entries = tree.entries
    files = [RepoPath(prefix + file) for prefix in prefixes for file in CONFIGURATION]
    key = (projects, tuple(entries[path].blob for path in files if path in entries))
    kept = memo.shelf.get("roots")
    if isinstance(kept, tuple) and kept[0] == key:
        roots: Roots = kept[1]
        return roots
    roots = import_roots(tree, projects)
    memo.shelf["roots"] = (key, roots)
    return roots


def _universe(
    memo: Memo, paths: frozenset[RepoPath], roots: Roots, projects: tuple[Project, ...]
) -> Universe:
    shelf = memo.shelf.setdefault("universes", {})
    assert isinstance(shelf, dict)
    key = (paths, roots, projects)
    found = shelf.pop(key, None)
    if found is None:
        found = Universe(sorted(paths), roots, projects)
        for old in list(shelf)[: -_KEPT_UNIVERSES + 1]:
            shelf.pop(old, None)
    shelf[key] = found  # newest last
    assert isinstance(found, Universe)
    return found
