"""Which test files a change reaches, from syntax and names alone. Where in doubt, one is selected.

Theory of operation. Source files reach test files through the import graph, read backwards; what
reaches a `conftest.py`, an `__init__.py` or a plugin reaches every test file beneath it. Any other
file reaches every test file of its project, and of the projects that import it, except documents
that nothing names. Configuration, requirements and lock files reach everything; `pyproject.toml` is
compared by table, and what only linters and the like read reaches whoever names the file.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, is_beneath, name, parent
from glideslope.model.project import Project, nearest_project
from glideslope.model.snapshot import Change, ChangeKind
from glideslope.ports.toolchain import Context, Tree
from glideslope.toolchains.python.graph import SUFFIXES, ImportGraph
from glideslope.toolchains.python.layout import read_ini, read_text, read_toml, table
from glideslope.toolchains.python.module import Import
from glideslope.toolchains.python.tables import APART, concerns_tests
from glideslope.toolchains.python.units import (
    CONFIG_FILES,
    PytestConfig,
    find_units,
    find_unittest_units,
    read_config,
)

_ENVIRONMENT = (
    *CONFIG_FILES,
    "setup.py",
    "*.lock",
    "pylock*.toml",
    "Pipfile",
    "requirements*.txt",
    "requirements*.in",
    "constraints*.txt",
    ".coveragerc",
    "noxfile.py",
    "environment*.y*ml",
)
"""Files that say what tests run with."""

_DOCUMENT_NAMES = (
    "*.md",
    "*.rst",
    "LICEN[CS]E*",
    "COPYING*",
    "NOTICE*",
    "AUTHORS*",
    ".gitignore",
    ".gitattributes",
)
_DOCUMENT_FOLDERS = ("docs", "doc", ".github")
_READS = re.compile(rf"pyproject|\*\.toml|[\"']\.toml[\"']|[\"' ](?:{'|'.join(map(re.escape, APART))})[\"' ]")
_FEW = 20  # changed sources up to which each one's reach is told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The test files to run, why each, and all there are; sorted."""

    selected: tuple[RepoPath, ...]
    why: Mapping[str, str] = field(default_factory=dict)
    units: tuple[RepoPath, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.selected == self.units


def select(context: Context, graph: ImportGraph) -> Selected:
    """Finds the test files of a project that the change reaches.

    Args:
        context: What is verified; without a base everything is selected.
        graph: The import graph of `context.now`, knowing what vanished since the base.

    Returns:
        The selection.
    """
    config = read_config(context.now, context.project)
    units = units_of(context, config)
    if context.base is None:
        return Selected(
            selected=units, why=dict.fromkeys(units, "there is no base to compare with"), units=units
        )
    reach = _Reach(context, graph, config, units)
    for change in _considered(context):
        reach.follow(change)
    reach.follow_sources()
    selected = tuple(unit for unit in units if unit in reach.why)
    return Selected(selected=selected, why={unit: reach.why[unit] for unit in selected}, units=units)


def units_of(context: Context, config: PytestConfig) -> tuple[RepoPath, ...]:
    """All test files of the project, by the rules of the runner it will be run with."""
    if context.interpreter.has("pytest"):
        return find_units(context.now, context.project, config)
    return find_unittest_units(context.now, context.project)


def _considered(context: Context) -> Iterator[Change]:
    for change in context.changes:
        if not context.only_paths or any(is_beneath(change.path, folder) for folder in context.only_paths):
            yield change


class _Reach:
    """Collects reasons, the first one found for each test file."""

    def __init__(
        self, context: Context, graph: ImportGraph, config: PytestConfig, units: tuple[RepoPath, ...]
    ) -> None:
        self.why: dict[RepoPath, str] = {}
        self._context = context
        self._graph = graph
        self._units = units
        self._unit_set = frozenset(units)
        self._config = config
        self._sources: list[RepoPath] = []
        self._plugins = frozenset(_plugin_files(context, graph, config))
        self._programs = _Programs(context, graph, units)

    def follow(self, change: Change) -> None:
        """Takes one changed path into account; sources wait for `follow_sources`."""
        for path in (change.path, change.origin):
            if path is None:
                continue
            if path in self._unit_set:
                self._add([path], "the file itself " + _verb(change))
            if self._is_table_apart(change):
                # Whoever opens the file, or starts such a tool, sees any change of it.
                readers = [
                    file for file in self._graph.files if _READS.search(read_text(self._context.now, file))
                ]
                self._follow_group(readers, f"may read {path}, which changed")
            elif self._is_environment(path):
                self._add(self._units, f"{path} {_verb(change)}")
            elif path.endswith(SUFFIXES):
                self._sources.append(path)
            else:
                self._follow_other(path, _verb(change))

    def follow_sources(self) -> None:
        """Follows the changed source files through the import graph."""
        if len(self._sources) > _FEW:
            self._follow_group(self._sources, f"depends on one of {len(self._sources)} changed files")
            return
        for path in self._sources:
            self._follow_group([path], f"depends on {path}, which changed")

    def _add(self, units: Iterable[RepoPath], reason: str) -> None:
        for unit in units:
            self.why.setdefault(unit, reason)

    def _is_environment(self, path: str) -> bool:
        """Whether a file says what the tests of this project run with."""
        return is_beneath(self._context.project.root, parent(path)) and _matches(name(path), _ENVIRONMENT)

    def _is_table_apart(self, change: Change) -> bool:
        """Whether a change is one of `pyproject.toml`, and only in what no test runs with."""
        if name(change.path) != "pyproject.toml" or change.kind is not ChangeKind.MODIFIED:
            return False
        plugins = tuple(f"pytest-{tool}" for tool in APART)
        if any(distribution.startswith(plugins) for distribution in self._context.interpreter.distributions):
            return False
        base = self._context.base
        return base is not None and not concerns_tests(base, self._context.now, change.path)

    def _follow_group(self, paths: Iterable[RepoPath], reason: str) -> None:
        affected = self._closure(paths)
        self._add(sorted(self._unit_set & affected), reason)
        for path in sorted(affected):
            if name(path) in ("conftest.py", "__init__.py"):
                folder = parent(path)
                self._add(
                    (unit for unit in self._units if is_beneath(unit, folder)), f"{reason}, through {path}"
                )
        if affected & self._plugins:
            self._add(self._units, f"{reason}, through a pytest plugin of the project")
        # What text files with examples import cannot be seen.
        self._add((unit for unit in self._units if not unit.endswith(".py")), reason)

    def _closure(self, paths: Iterable[RepoPath]) -> frozenset[RepoPath]:
        """Everything that depends on the paths, by import or by starting a program of the project."""
        affected = self._graph.closure(paths, typing=False)
        while True:
            starters = self._programs.starters(affected) - affected
            if not starters:
                return affected
            affected |= self._graph.closure(starters, typing=False)

    def _follow_other(self, path: RepoPath, verb: str) -> None:
        """A file that is not Python source: data, a template, a document."""
        context = self._context
        if _is_document(path) and not _is_named(context, self._graph, path):
            return
        owner = nearest_project(context.projects, path)
        reason = f"{path} {verb}"
        if owner is None or owner == context.project or is_beneath(context.project.root, owner.root):
            self._add(self._units, reason)
            return
        own = [file for file in self._graph.files if nearest_project(context.projects, file) == owner]
        self._follow_group(own, reason)


def _verb(change: Change) -> str:
    return {
        ChangeKind.ADDED: "is new",
        ChangeKind.DELETED: "is gone",
        ChangeKind.RENAMED: "was renamed",
    }.get(change.kind, "changed")


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _is_document(path: str) -> bool:
    return _matches(name(path), _DOCUMENT_NAMES) or any(
        folder in path.split("/")[:-1] for folder in _DOCUMENT_FOLDERS
    )


def _is_named(context: Context, graph: ImportGraph, path: str) -> bool:
    """Whether configuration or a string in code names a document, its folder or files of its kind."""
    last = name(path)
    for project in context.projects:
        prefix = f"{project.root}/" if project.root else ""
        if any(last in text for text in _configured_strings(context.now, prefix)):
            return True
    suffix = last[last.rfind(".") :] if "." in last else last
    folders = path.split("/")[:-1]
    marks = [
        re.escape(last),
        r"\*" + re.escape(suffix),
        *(rf"[\"'/]{re.escape(part)}[\"'/]" for part in folders),
    ]
    wanted = re.compile("|".join(marks))
    return any(wanted.search(read_text(context.now, file)) for file in graph.files)


def _configured_strings(tree: Tree, prefix: str) -> Iterator[str]:
    """Strings of a project's configuration that may name a file that tests read."""
    data = dict(read_toml(tree, prefix + "pyproject.toml"))
    # The long description and the licence go into a distribution's metadata, nowhere else.
    project = {
        key: value
        for key, value in table(data, "project").items()
        if key not in ("readme", "license", "license-files")
    }
    yield from _strings({**data, "project": project})
    for file in ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"):
        for section in read_ini(tree, prefix + file).values():
            yield from (
                text for key, text in section.items() if key not in ("long_description", "license_files")
            )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _plugin_files(context: Context, graph: ImportGraph, config: PytestConfig) -> Iterator[RepoPath]:
    """Files of the workspace that pytest loads as plugins for every test of the project."""
    names = set(config.plugins)
    for project in context.projects:
        prefix = f"{project.root}/" if project.root else ""
        data = read_toml(context.now, prefix + "pyproject.toml")
        points = table(data, "project", "entry-points", "pytest11")
        points = points or table(data, "tool", "poetry", "plugins", "pytest11")
        names.update(text.partition(":")[0] for text in points.values() if isinstance(text, str))
    anchor = RepoPath(f"{context.project.root}/conftest.py".lstrip("/"))
    for module in names:
        found, _ = graph.resolve(anchor, Import(module, (), 0, 1, 1, dynamic=True))
        yield from found


class _Programs:
    """Test code that names a console script of the workspace depends on what the script runs."""

    def __init__(self, context: Context, graph: ImportGraph, units: tuple[RepoPath, ...]) -> None:
        self._targets: dict[str, frozenset[RepoPath]] = {}
        for project in context.projects:
            self._targets.update(_console_scripts(context.now, graph, project))
        self._tree = context.now
        folders = {parent(unit) for unit in units}
        self._files = [file for file in graph.files if parent(file) in folders] if self._targets else []
        self._named: dict[RepoPath, frozenset[str]] | None = None

    def starters(self, affected: frozenset[RepoPath]) -> frozenset[RepoPath]:
        """Files that start a program whose module is among the affected ones."""
        programs = {program for program, targets in self._targets.items() if targets & affected}
        if not programs:
            return frozenset()
        if self._named is None:
            self._named = {file: self._names_in(file) for file in self._files}
        return frozenset(file for file, names in self._named.items() if names & programs)

    def _names_in(self, file: RepoPath) -> frozenset[str]:
        try:
            text = self._tree.read(file).decode("utf-8", "replace")
        except UnknownId:
            return frozenset(self._targets)
        return frozenset(
            program for program in self._targets if re.search(rf"[\"'/ ]{re.escape(program)}[\"' ]", text)
        )


def _console_scripts(
    tree: Tree, graph: ImportGraph, project: Project
) -> Iterator[tuple[str, frozenset[RepoPath]]]:
    prefix = f"{project.root}/" if project.root else ""
    data = read_toml(tree, prefix + "pyproject.toml")
    scripts: dict[str, object] = {
        **table(data, "project", "scripts"),
        **table(data, "project", "gui-scripts"),
        **table(data, "tool", "poetry", "scripts"),
    }
    points = read_ini(tree, prefix + "setup.cfg").get("options.entry_points", {})
    for line in points.get("console_scripts", "").splitlines():
        script, sign, target = line.partition("=")
        if sign:
            scripts[script.strip()] = target.strip()
    anchor = RepoPath(prefix + "conftest.py")
    for program, runs in scripts.items():
        if isinstance(runs, str):
            found, _ = graph.resolve(anchor, Import(runs.partition(":")[0].strip(), (), 0, 1, 1))
            yield program, found
