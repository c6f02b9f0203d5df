"""Everything about imports that follows from the set of paths alone, and names walked through it.

A *location* is a file without its suffix, or a package's folder: what `a/b.py`, `a/b.pyi` and
`a/b/__init__.py` have in common is `a/b`. Dotted names are walked down from the locations of
their first part: below the import roots that projects declare, visible everywhere, and below
folders that are no package (test folders, script folders), visible in their own project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath, name, parent
from glideslope.model.project import Project, nearest_project
from glideslope.toolchains.python.layout import Roots
from glideslope.toolchains.python.module import Import, ModuleFacts

SUFFIXES = (".py", ".pyi")
"""What counts as a source file of Python."""

_COMMON_SCRIPTS = frozenset({"__init__.py", "conftest.py", "setup.py", "__main__.py"})


@dataclass(frozen=True, slots=True)
class Edges:
    """What one file depends on. Positional, one per file."""

    loads: frozenset[RepoPath] = frozenset()  # modules that it names and that run with it
    touches: frozenset[RepoPath] = frozenset()  # packages on the way, strings, computed imports
    types: frozenset[RepoPath] = frozenset()  # only for type checkers


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


def location(path: str) -> str:
    """A source file without its suffix; for an `__init__` its folder."""
    spot = path.rpartition(".")[0]
    return parent(spot) if name(spot) == "__init__" else spot


def find_edges(universe: Universe, path: RepoPath, facts: ModuleFacts) -> Edges:
    """What a file depends on, given its facts."""
    loads: set[RepoPath] = set()
    types: set[RepoPath] = set()
    touches: set[RepoPath] = set(universe.packages_above(path))
    for imported in facts.imports:
        named, on_the_way, _ = import_targets(universe, path, imported)
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


def import_targets(
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


def named_spots(universe: Universe, path: RepoPath, imported: Import) -> tuple[list[str], str | None]:
    """Locations an import names, and the dotted name of ours that is missing, if any."""
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
