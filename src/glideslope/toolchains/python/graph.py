"""Who imports whom in a workspace, from syntax alone; where in doubt, an edge exists.

Theory of operation. A *location* is a file without its suffix, or a package's folder: what
`a/b.py`, `a/b.pyi` and `a/b/__init__.py` have in common is `a/b`. Dotted names are walked down
from the locations of their first part: below the import roots that projects declare, visible
everywhere, and below folders that are no package (test folders, script folders), visible in
their own project. Everything that depends on the set of paths alone is a `Universe`, kept while
no file appears or vanishes; the edges of a file are kept by its content.

With a base, the universe also holds the files that vanished since: importers of a vanished
module keep their edge to it. Deliberately absent: pytest's own dependency of a test on the
conftest files above it, which is no import.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from glideslope.errors import UnknownId
from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath, name, parent
from glideslope.model.project import Project, nearest_project
from glideslope.model.snapshot import FileMode
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.layout import CONFIGURATION, Roots, import_roots
from glideslope.toolchains.python.module import Import, Memo, ModuleFacts

SUFFIXES = (".py", ".pyi")
"""What counts as a source file of Python."""

_COMMON_SCRIPTS = frozenset({"__init__.py", "conftest.py", "setup.py", "__main__.py"})
_KEPT_UNIVERSES = 4


@dataclass(frozen=True, slots=True)
class Edges:
    """What one file depends on. Positional, one per file."""

    loads: frozenset[RepoPath] = frozenset()  # modules that it names and that run with it
    touches: frozenset[RepoPath] = frozenset()  # packages on the way, strings, computed imports
    types: frozenset[RepoPath] = frozenset()  # only for type checkers


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An import of a module that should be ours and is not there."""

    path: RepoPath
    imported: Import
    module: str  # dotted; for relative imports the dots in front are kept


class Universe:
    """All that follows from the set of paths and the import roots."""

    __slots__ = (
        "_children",
        "_folders",
        "_local",
        "_modules",
        "_packages",
        "_projects",
        "_scripts",
        "_tops",
        "edges",
    )

    def __init__(self, paths: Iterable[RepoPath], roots: Roots, projects: tuple[Project, ...]) -> None:
        self._projects = projects
        self._modules: dict[str, tuple[RepoPath, ...]] = {}
        self._children: dict[str, list[str]] = {}
        self._folders: set[str] = {""}
        self._packages: set[str] = set()  # folders with an __init__
        self._scripts: dict[str, list[RepoPath]] = {}
        self.edges: dict[tuple[RepoPath, BlobId], Edges] = {}
        """Edges already found, by path and content."""
        for path in paths:
            self._add(path)
        self._tops = self._global_tops(roots)
        self._local = self._local_tops({folder for _, folder in roots})

    def _add(self, path: RepoPath) -> None:
        spot = location(path)
        self._modules[spot] = (*self._modules.get(spot, ()), path)
        self._scripts.setdefault(name(path), []).append(path)
        if spot == parent(path):
            self._packages.add(spot)
        while spot:
            above = parent(spot)
            known = above in self._folders
            self._children.setdefault(above, []).append(spot)
            self._folders.add(above)
            if known and above:
                break
            spot = above

    def _global_tops(self, roots: Roots) -> dict[str, tuple[str, ...]]:
        tops: dict[str, list[str]] = {}
        for package, folder in roots:
            if package:
                tops.setdefault(package, []).append(folder)
                continue
            for child in self._children.get(folder, ()):
                tops.setdefault(name(child), []).append(child)
        return {top: tuple(dict.fromkeys(spots)) for top, spots in tops.items()}

    def _local_tops(self, roots: set[str]) -> dict[str, tuple[str, ...]]:
        tops: dict[str, list[str]] = {}
        for folder in self._folders - self._packages - roots:
            for child in self._children.get(folder, ()):
                tops.setdefault(name(child), []).append(child)
        return {top: tuple(dict.fromkeys(spots)) for top, spots in tops.items()}

    def files(self, spot: str) -> tuple[RepoPath, ...]:
        """The files at a location."""
        return self._modules.get(spot, ())

    def exists(self, spot: str) -> bool:
        """Whether a location is a module, a package or a folder that may be a namespace."""
        return spot in self._modules or spot in self._folders

    def below(self, spot: str) -> Iterator[RepoPath]:
        """All files below a folder."""
        pending = [spot]
        while pending:
            current = pending.pop()
            for child in dict.fromkeys(self._children.get(current, ())):
                yield from self._modules.get(child, ())
                if child in self._folders:
                    pending.append(child)

    def beside(self, spot: str) -> Iterator[RepoPath]:
        """The modules directly in a package."""
        for child in self._children.get(spot, ()):
            yield from self._modules.get(child, ())

    def tops(self, top: str, importer: RepoPath) -> tuple[str, ...]:
        """Locations that the first part of an absolute name may mean for one file."""
        found = self._tops.get(top, ())
        local = self._local.get(top)
        if not local:
            return found
        if top in sys.stdlib_module_names:
            # A script's own folder comes before the standard library; nobody else's does.
            here = parent(importer)
            return (*found, *(spot for spot in local if parent(spot) == here))
        project = nearest_project(self._projects, importer)
        return (
            *found,
            *(spot for spot in local if project is None or project.holds(spot)),
        )

    def is_ours(self, top: str) -> bool:
        """Whether a top-level name is a package or module of the workspace with code in it."""
        return any(spot in self._modules for spot in self._tops.get(top, ()))

    def scripts(self, mention: str) -> Iterator[RepoPath]:
        """Files that a string such as `tools/run.py` may mean."""
        wanted = mention.replace("\\", "/").lstrip("./")
        for path in self._scripts.get(name(wanted), ()):
            if path == wanted or path.endswith("/" + wanted) or ("/" not in wanted and name(path) == wanted):
                yield path

    def packages_above(self, path: RepoPath) -> Iterator[RepoPath]:
        """The `__init__` files that run before a file of a package does."""
        folder = parent(path)
        while folder in self._packages:
            yield from self._modules.get(folder, ())
            if not folder:
                return
            folder = parent(folder)


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

    def reached(self, paths: Iterable[RepoPath], *, typing: bool = False) -> frozenset[RepoPath]:
        """Everything that the given files depend on, however far away, and themselves."""
        seen = set(paths)
        pending = list(seen)
        while pending:
            edges = self.edges(pending.pop())
            for target in edges.loads | edges.touches | (edges.types if typing else frozenset()):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return frozenset(seen)

    def resolve(self, path: RepoPath, imported: Import) -> tuple[frozenset[RepoPath], str | None]:
        """What one import of a file means.

        Returns:
            The files it names, and the dotted name of ours that is not there, if any.
        """
        loads, _, missing = _import_targets(self.universe, path, imported)
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
        spots, missing = _named_spots(self.universe, path, imported)
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
            found = self.universe.edges[key] = _find_edges(self.universe, path, self.facts(path))
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


def location(path: str) -> str:
    """A source file without its suffix; for an `__init__` its folder."""
    spot = path.rpartition(".")[0]
    return parent(spot) if name(spot) == "__init__" else spot


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
        while len(shelf) >= _KEPT_UNIVERSES:
            del shelf[next(iter(shelf))]
    shelf[key] = found  # newest last
    assert isinstance(found, Universe)
    return found


def _find_edges(universe: Universe, path: RepoPath, facts: ModuleFacts) -> Edges:
    loads: set[RepoPath] = set()
    types: set[RepoPath] = set()
    touches: set[RepoPath] = set(universe.packages_above(path))
    for imported in facts.imports:
        named, on_the_way, _ = _import_targets(universe, path, imported)
        if imported.typing_only:
            types.update(named, on_the_way)
        else:
            loads.update(named)
            touches.update(on_the_way)
    for mention in facts.mentions:
        if mention.endswith(SUFFIXES) and (mention not in _COMMON_SCRIPTS):
            touches.update(universe.scripts(mention))
        for part in mention.split(":", 1)[:1]:
            found, on_the_way, _ = _walk(universe, path, part)
            touches.update(found, on_the_way)
            touches.update(_programs(universe, path, part))
    for prefix in facts.prefixes:
        for spot in _spots(universe, path, prefix):
            touches.update(universe.below(spot))
    if facts.scans or (location(path) == parent(path) and "__getattr__" in facts.names):
        touches.update(universe.below(parent(path)))
    loads.discard(path)
    return Edges(
        frozenset(loads), frozenset(touches - loads - {path}), frozenset(types - loads - touches - {path})
    )


def _import_targets(
    universe: Universe, path: RepoPath, imported: Import
) -> tuple[set[RepoPath], set[RepoPath], str | None]:
    """Files an import names, files that run on the way, and the name of ours that is missing."""
    spots, on_the_way, missing = _walk_import(universe, path, imported)
    named: set[RepoPath] = set()
    for spot in spots:
        named.update(universe.files(spot))
        if imported.dynamic:
            named.update(universe.files(spot + "/__main__"))
    if missing is None:
        for taken in imported.names:
            subs = [spot + "/" + taken if spot else taken for spot in spots]
            found = [file for sub in subs for file in universe.files(sub)]
            if taken == "*":
                on_the_way.update(file for spot in spots for file in universe.beside(spot))
            elif found:
                # The package runs as well, but it is the module that is meant.
                on_the_way.update(file for spot in spots for file in universe.files(spot))
                named.update(found)
    return named, on_the_way, missing


def _walk_import(
    universe: Universe, path: RepoPath, imported: Import
) -> tuple[list[str], set[RepoPath], str | None]:
    if imported.level:
        return _walk_relative(universe, path, imported)
    return _walk_spots(universe, path, imported.module)


def _named_spots(universe: Universe, path: RepoPath, imported: Import) -> tuple[list[str], str | None]:
    spots, _, missing = _walk_import(universe, path, imported)
    return spots, missing


def _walk(universe: Universe, path: RepoPath, dotted: str) -> tuple[set[RepoPath], set[RepoPath], str | None]:
    spots, on_the_way, missing = _walk_spots(universe, path, dotted)
    return {file for spot in spots for file in universe.files(spot)}, on_the_way, missing


def _walk_spots(
    universe: Universe, path: RepoPath, dotted: str
) -> tuple[list[str], set[RepoPath], str | None]:
    """Walks an absolute name down as far as it goes, from every place it may begin."""
    parts = dotted.split(".")
    on_the_way: set[RepoPath] = set()
    reached: list[str] = []
    missing: str | None = None
    complete = False
    for top in universe.tops(parts[0], path):
        spot, at = _descend(universe, top, parts[1:], on_the_way)
        reached.append(spot)
        if at == len(parts) - 1:
            complete = True
        elif missing is None and universe.files(top):
            missing = ".".join(parts[: at + 2])
    return reached, on_the_way, None if complete else missing


def _walk_relative(
    universe: Universe, path: RepoPath, imported: Import
) -> tuple[list[str], set[RepoPath], str | None]:
    folder = parent(path)
    for _ in range(imported.level - 1):
        folder = parent(folder)
    parts = imported.module.split(".") if imported.module else []
    on_the_way: set[RepoPath] = set()
    spot, at = _descend(universe, folder, parts, on_the_way)
    missing = None if at == len(parts) else "." * imported.level + ".".join(parts[: at + 1])
    return [spot], on_the_way, missing


def _descend(universe: Universe, spot: str, parts: list[str], on_the_way: set[RepoPath]) -> tuple[str, int]:
    """Follows parts from a location while they exist; files passed are added to `on_the_way`."""
    for at, part in enumerate(parts):
        following = f"{spot}/{part}" if spot else part
        if not universe.exists(following):
            return spot, at
        on_the_way.update(universe.files(spot))
        spot = following
    return spot, len(parts)


def _spots(universe: Universe, path: RepoPath, dotted: str) -> list[str]:
    spots, _, missing = _walk_spots(universe, path, dotted)
    return spots if missing is None else []


def _programs(universe: Universe, path: RepoPath, dotted: str) -> Iterator[RepoPath]:
    for spot in _spots(universe, path, dotted):
        yield from universe.files(spot + "/__main__")
