"""What a project declares about itself, checked against its files without running anything."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping

from glideslope.model.paths import RepoPath, name, parent
from glideslope.model.project import Project
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.layout import read_text, table, texts
from glideslope.toolchains.python.package import Declaration, Shipped, matches_any, sub_packages

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_VERSION = re.compile(
    r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?\Z",
    re.IGNORECASE,
)
_CLAUSE = r"(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9_.*+!-]+"
_SPECIFIERS = re.compile(rf"\s*(?:{_CLAUSE}\s*(?:,\s*{_CLAUSE}\s*)*,?)?\s*\Z")
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[A-Za-z0-9._,\s-]*\])?\s*"
    rf"(?:@\s*\S+|\(?\s*(?:{_CLAUSE}\s*(?:,\s*{_CLAUSE}\s*)*,?)?\s*\)?)\s*(?:;.*)?\Z"
)
_ENTRY = re.compile(
    r"\s*(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*"
    r"(?::\s*(?P<attribute>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*)?(?:\[[^\]]*\])?\s*\Z"
)


def check_metadata(tree: Tree, project: Project, ships: Shipped, graph: ImportGraph) -> tuple[Found, ...]:
    """Findings about a project's declaration.

    Args:
        tree: The tree.
        project: The project.
        ships: What it ships.
        graph: The import graph of the tree.

    Returns:
        Findings that gate where they are new.
    """
    declaration = Declaration.of(tree, project)
    return tuple(_Metadata(tree, declaration, ships, graph).check())


class _Metadata:
    def __init__(self, tree: Tree, declaration: Declaration, ships: Shipped, graph: ImportGraph) -> None:
        self._tree = tree
        self._declaration = declaration
        self._ships = ships
        self._graph = graph
        self._project = table(declaration.pyproject, "project")

    def check(self) -> Iterator[Found]:
        if "project" in self._declaration.pyproject:
            yield from self._identity()
            yield from self._requirements()
            yield from self._named_files()
        yield from self._entry_points()
        yield from self._unlisted_packages()
        yield from self._package_data()

    def _found(self, code: str, message: str, mention: str, file: str = "pyproject.toml") -> Found:
        """A finding at the line of a project file that mentions something; at its top otherwise."""
        path = self._declaration.prefix + file
        lines = read_text(self._tree, path).splitlines()
        line = next((number for number, text in enumerate(lines, 1) if mention and mention in text), 1)
        return Found(path=path, line=line, column=1, code=code, source="build", message=message, gates=True)

    def _identity(self) -> Iterator[Found]:
        project = self._project
        dynamic = texts(project.get("dynamic"))
        project_name, version = project.get("name"), project.get("version")
        if not isinstance(project_name, str) or not _NAME.match(project_name):
            yield self._found("metadata", f"project.name is no name: {project_name!r}", "name")
        if isinstance(version, str):
            if "version" in dynamic:
                yield self._found("metadata", "project.version is given and listed as dynamic", "version")
            elif not _VERSION.match(version):
                yield self._found("metadata", f"project.version is no version: {version!r}", "version")
        elif "version" not in dynamic:
            yield self._found(
                "metadata", "project.version is neither given nor listed as dynamic", "[project]"
            )
        python = project.get("requires-python")
        if python is not None and not (isinstance(python, str) and _SPECIFIERS.match(python)):
            yield self._found(
                "metadata", f"project.requires-python is no version specifier: {python!r}", "requires-python"
            )

    def _requirements(self) -> Iterator[Found]:
        extras = table(self._project, "optional-dependencies")
        groups = {"dependencies": self._project.get("dependencies", []), **extras}
        for group, listed in groups.items():
            if not isinstance(listed, list):
                yield self._found("metadata", f"{group} is not a list of requirements", group)
                continue
            for entry in listed:
                if not isinstance(entry, str) or not _REQUIREMENT.match(entry):
                    yield self._found("metadata", f"{entry!r} in {group} is no requirement", str(entry))

    def _named_files(self) -> Iterator[Found]:
        readme = self._project.get("readme")
        file = readme if isinstance(readme, str) else table(readme).get("file")
        named = [file] if isinstance(file, str) else []
        named += texts(table(self._project, "license").get("file"))
        for text in named:
            if self._declaration.prefix + text not in self._tree.entries:
                yield self._found("missing_file", f"{text} is declared and not there", text)
        for pattern in texts(self._project.get("license-files")):
            if not self._matches(self._declaration.prefix + pattern):
                yield self._found(
                    "missing_file", f"no file matches the license-files pattern {pattern}", pattern
                )

    def _matches(self, pattern: str) -> bool:
        plain = pattern.replace("**/", "*")
        return any(fnmatch.fnmatchcase(path, plain) for path in self._tree.entries)

    # Entry points

    def _entry_points(self) -> Iterator[Found]:
        for file, group, entry, value in self._declared_entry_points():
            matched = _ENTRY.match(value)
            if matched is None:
                yield self._found("entry_point", f"{group}: {value!r} does not name a module", entry, file)
                continue
            problem = self._problem(matched["module"], (matched["attribute"] or "").partition(".")[0])
            if problem:
                yield self._found(
                    "entry_point", f"{group}: {entry} = {value.strip()!r}: {problem}", value, file
                )

    def _declared_entry_points(self) -> Iterator[tuple[str, str, str, str]]:
        """File, group, name and value of each."""
        groups: dict[str, Mapping[str, object]] = {
            "scripts": table(self._project, "scripts"),
            "gui-scripts": table(self._project, "gui-scripts"),
            "poetry.scripts": table(self._declaration.tool, "poetry", "scripts"),
        }
        for group in table(self._project, "entry-points"):
            groups[group] = table(self._project, "entry-points", group)
        for group, entries in groups.items():
            for entry, value in entries.items():
                if isinstance(value, str):
                    yield "pyproject.toml", group, entry, value
        for group, lines in self._declaration.setup_cfg.get("options.entry_points", {}).items():
            for line in lines.splitlines():
                entry, sign, value = line.partition("=")
                if sign:
                    yield "setup.cfg", group, entry.strip(), value.strip()

    def _problem(self, module: str, attribute: str) -> str | None:
        """Why an entry point of our own would not load; None where it would, or is not ours."""
        spots = self._spots(module)
        if spots is None:
            return None
        files = [file for spot in spots for file in self._graph.universe.files(spot)]
        if not files:
            return f"module {module} is not there"
        if not attribute or any(self._graph.facts(file).binds(attribute) is not False for file in files):
            return None
        if any(self._graph.universe.exists(f"{spot}/{attribute}") for spot in spots):
            return None
        return f"{module} has no {attribute}"

    def _spots(self, module: str) -> list[str] | None:
        """Locations a dotted name of ours may mean; None for somebody else's."""
        top, _, rest = module.partition(".")
        folders = [folder for package, folder in self._ships.packages.items() if package == top]
        folders += [path.rpartition(".")[0] for one, path in self._ships.modules.items() if one == top]
        if not folders:
            return None
        return ["/".join([folder, *rest.split(".")]) if rest else folder for folder in folders]

    # Packages and their data

    def _unlisted_packages(self) -> Iterator[Found]:
        declaration = self._declaration
        if not declaration.backend.startswith("setuptools"):
            return
        listed = declaration.listed_packages()
        rules = declaration.find_rules()
        file = "setup.cfg" if "packages" in declaration.setup_cfg.get("options", {}) else "pyproject.toml"
        for top, folder in sorted(self._ships.packages.items()):
            for dotted, where in sorted(sub_packages(self._tree, top, folder).items()):
                if listed is not None and dotted not in listed:
                    yield self._found(
                        "package_not_listed", f"package {dotted} would not be installed", "packages", file
                    )
                elif rules is not None and not matches_any(dotted, rules[0]) and self._is_imported(where):
                    message = f"package {dotted} matches no include pattern"
                    yield self._found("package_not_listed", message, "include", file)
            if rules is not None and declaration.needs_init():
                yield from self._without_init(folder)

    def _without_init(self, folder: str) -> Iterator[Found]:
        """Folders of modules that are imported, but that a search for packages passes over."""
        for where in sorted({parent(path) for path in self._graph.files if path.startswith(folder + "/")}):
            if f"{where}/__init__.py" not in self._tree.entries and self._is_imported(where):
                yield Found(
                    path=where,
                    line=0,
                    column=0,
                    code="package_not_listed",
                    source="build",
                    message=f"{where} has no __init__.py, so it would not be installed",
                    gates=True,
                )

    def _is_imported(self, folder: str) -> bool:
        inside = [path for path in self._graph.files if parent(path) == folder]
        return any(not importer.startswith(folder + "/") for importer in self._graph.importers(inside))

    def _package_data(self) -> Iterator[Found]:
        data = table(self._declaration.tool, "setuptools", "package-data")
        for package, patterns in data.items():
            folders = (
                [self._folder(package)] if package not in ("*", "") else [*self._ships.packages.values()]
            )
            for pattern in texts(patterns):
                wanted = [f"{folder}/{pattern}" for folder in folders if folder]
                deep = [f"{folder}/*/{pattern}" for folder in folders if folder and package in ("*", "")]
                if not any(self._matches(glob) for glob in (*wanted, *deep)):
                    yield self._found("package_data", f"no file of {package} matches {pattern}", pattern)

    def _folder(self, dotted: str) -> str:
        top, _, rest = dotted.partition(".")
        folder = self._ships.packages.get(top, "")
        return "/".join([folder, *rest.split(".")]) if folder and rest else folder


def named_files(declaration: Declaration) -> frozenset[RepoPath]:
    """Readme and licence files that a declaration names, which a build reads."""
    project = table(declaration.pyproject, "project")
    readme = project.get("readme")
    found = [*texts(readme), *texts(table(readme).get("file")), *texts(table(project, "license").get("file"))]
    return frozenset(RepoPath(declaration.prefix + text) for text in found)


def is_backend_file(path: str) -> bool:
    """Whether a build backend reads a file of the project's root by its name."""
    return name(path) in (
        "setup.py",
        "setup.cfg",
        "MANIFEST.in",
        "Cargo.toml",
        "meson.build",
        "CMakeLists.txt",
    )
