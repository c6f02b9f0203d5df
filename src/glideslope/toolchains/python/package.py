"""What a project would install: its packages and modules, as its own files declare them.

Read without running anything, so a `setup.py` that computes its packages is taken at the usual
layout. `Shipped` is what the import smoke and the checks of package lists stand on.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from glideslope.model.paths import RepoPath, name, parent
from glideslope.model.project import Project
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.change import is_test_path
from glideslope.toolchains.python.layout import (
    declared_package_folders,
    read_ini,
    read_text,
    read_toml,
    table,
    texts,
)

_NOT_SHIPPED = frozenset(
    [
        "tests",
        "test",
        "testing",
        "docs",
        "doc",
        "examples",
        "example",
        "benchmarks",
        "benchmark",
        "tools",
        "scripts",
        "build",
        "dist",
        "bin",
        "etc",
        "tasks",
        "ci",
        "requirements",
        "venv",
        "env",
        "node_modules",
    ]
)
_NOT_MODULES = frozenset(
    ["setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py", "conf.py", "manage.py"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a project's files say about itself."""

    pyproject: Mapping[str, object]
    setup_cfg: Mapping[str, Mapping[str, str]]
    setup_py: str  # its text
    prefix: str  # of the project's paths, with a slash at the end, or ""

    @classmethod
    def of(cls, tree: Tree, project: Project) -> Declaration:
        """Reads the declaration of a project."""
        prefix = f"{project.root}/" if project.root else ""
        return cls(
            pyproject=read_toml(tree, prefix + "pyproject.toml"),
            setup_cfg=read_ini(tree, prefix + "setup.cfg"),
            setup_py=read_text(tree, prefix + "setup.py"),
            prefix=prefix,
        )

    @property
    def backend(self) -> str:
        """The build backend, setuptools where none is named."""
        named = table(self.pyproject, "build-system").get("build-backend")
        return named if isinstance(named, str) else "setuptools.build_meta:__legacy__"

    @property
    def requires(self) -> tuple[str, ...]:
        """What the build needs, as written."""
        return texts(table(self.pyproject, "build-system").get("requires"))

    @property
    def is_installable(self) -> bool:
        """Whether the project means to be built at all."""
        described = "project" in self.pyproject or "build-system" in self.pyproject
        poetry = bool(table(self.pyproject, "tool", "poetry"))
        return described or poetry or "metadata" in self.setup_cfg or bool(self.setup_py)

    @property
    def tool(self) -> Mapping[str, object]:
        """The `[tool]` table."""
        return table(self.pyproject, "tool")

    def listed_packages(self) -> tuple[str, ...] | None:
        """The packages that setuptools is told one by one; None where it is told otherwise."""
        listed = table(self.tool, "setuptools").get("packages")
        if isinstance(listed, list):
            return texts(listed)
        words = self.setup_cfg.get("options", {}).get("packages", "").replace(",", "\n").split()
        return tuple(words) if words and not words[0].startswith("find") else None

    def find_rules(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Include and exclude patterns of setuptools' search; None where it does not search."""
        found = table(self.tool, "setuptools", "packages", "find")
        if found:
            return texts(found.get("include")) or ("*",), texts(found.get("exclude"))
        if self.setup_cfg.get("options", {}).get("packages", "").strip().startswith("find"):
            section = self.setup_cfg.get("options.packages.find", {})
            include = tuple(section.get("include", "").replace(",", "\n").split())
            return include or ("*",), tuple(section.get("exclude", "").replace(",", "\n").split())
        return None

    def needs_init(self) -> bool:
        """Whether the search passes over folders without an `__init__`."""
        words = self.setup_cfg.get("options", {}).get("packages", "").strip()
        find = table(self.tool, "setuptools", "packages").get("find")
        return words == "find:" or (isinstance(find, Mapping) and find.get("namespaces") is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """The importable content of a project. Paths are relative to the workspace root."""

    packages: Mapping[str, str]  # dotted name of a top-level package -> its folder
    modules: Mapping[str, RepoPath]  # top-level modules

    def name_of(self, path: str) -> str | None:
        """Dotted name of a source file; None where it is not shipped."""
        for top, file in self.modules.items():
            if path == file:
                return top
        for top, folder in self.packages.items():
            if path.startswith(folder + "/"):
                inner = path[len(folder) + 1 :].rpartition(".")[0]
                parts = [part for part in inner.split("/") if part != "__init__"]
                dotted = ".".join([top, *parts])
                return dotted if all(part.isidentifier() for part in dotted.split(".")) else None
        return None

    @property
    def roots(self) -> tuple[str, ...]:
        """Folders that must be on the path for all of it to be importable; sorted."""
        above = {_above(folder, top) for top, folder in self.packages.items()}
        return tuple(sorted(above | {parent(path) for path in self.modules.values()}))


def shipped(tree: Tree, project: Project) -> Shipped:
    """What a project ships, by its own declaration, else by the usual layout.

    Without any declaration only packages count: a lone module may be a script that acts when it
    is imported.
    """
    declaration = Declaration.of(tree, project)
    prefix = declaration.prefix
    folders = {prefix + folder for folder in _source_folders(declaration, tree, project)}
    packages: dict[str, str] = {}
    for path in tree.entries:
        if name(path) == "__init__.py" and path.startswith(prefix):
            folder = parent(path)
            above = parent(folder)
            if folder and _slash(above) in folders and _is_shipped_name(declaration, name(folder)):
                packages[name(folder)] = folder
    for package, folder in _mapped(tree, project).items():
        packages.setdefault(package, prefix + folder)
    packages.update(_namespaces(declaration, tree, folders))
    modules = {top: path for top, path in _modules(declaration, tree, folders) if top not in packages}
    return Shipped(packages=packages, modules=modules)


def sub_packages(tree: Tree, top: str, folder: str) -> dict[str, str]:
    """A package and all packages below it: dotted name to folder."""
    found = {}
    for path in tree.entries:
        if name(path) == "__init__.py" and path.startswith(folder + "/"):
            inner = parent(path)[len(folder) :].strip("/")
            found[".".join([top, *inner.split("/")] if inner else [top])] = parent(path)
    return found


def matches_any(dotted: str, patterns: Iterable[str]) -> bool:
    """Whether a dotted name fits one of setuptools' patterns."""
    return any(fnmatch.fnmatchcase(dotted, pattern) for pattern in patterns)


def _slash(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _source_folders(declaration: Declaration, tree: Tree, project: Project) -> set[str]:
    """Folders that hold top-level packages, relative to the project, with a slash at the end or ""."""
    tool = declaration.tool
    named = set(texts(table(tool, "setuptools", "packages", "find").get("where")))
    mapped = declared_package_folders(tree, project.root)
    named |= {folder for package, folder in mapped.items() if not package}
    named |= set(declaration.setup_cfg.get("options.packages.find", {}).get("where", "").split())
    named |= set(texts(table(tool, "uv", "build-backend").get("module-root")))
    named |= set(texts(table(tool, "maturin").get("python-source")))
    named |= set(texts(table(tool, "pdm", "build").get("package-dir")))
    for text in texts(table(tool, "hatch", "build", "targets", "wheel").get("packages")):
        named.add(parent(text.strip("/")))
    poetry = table(tool, "poetry").get("packages")
    for entry in poetry if isinstance(poetry, list) else ():
        named |= set(texts(table(entry).get("from"))) or {""}
    if not named:
        source = _slash(project.root) + "src/"
        has_src = any(path.startswith(source) and path.endswith(".py") for path in tree.entries)
        named = {"src"} if has_src else {""}
    return {_slash(folder.strip("./")) for folder in named}


def _is_shipped_name(declaration: Declaration, top: str) -> bool:
    listed = declaration.listed_packages()
    if listed is not None:
        return top in listed
    rules = declaration.find_rules()
    if rules is not None:
        include, exclude = rules
        return matches_any(top, include) and not matches_any(top, exclude) and top not in _NOT_SHIPPED
    return top.isidentifier() and top not in _NOT_SHIPPED


def _mapped(tree: Tree, project: Project) -> dict[str, str]:
    found = declared_package_folders(tree, project.root)
    return {package: folder for package, folder in found.items() if package and "." not in package}


def _namespaces(declaration: Declaration, tree: Tree, folders: set[str]) -> dict[str, str]:
    """Packages inside namespace folders that the declaration names, such as `acme.shop`."""
    wheel = table(declaration.tool, "hatch", "build", "targets", "wheel")
    named = [*texts(wheel.get("packages")), *texts(wheel.get("only-include"))]
    poetry = table(declaration.tool, "poetry").get("packages")
    for entry in poetry if isinstance(poetry, list) else ():
        source = texts(table(entry).get("from"))
        named += ["/".join([*source, text]) for text in texts(table(entry).get("include"))]
    found = {}
    for text in named:
        folder = declaration.prefix + text.strip("/")
        if any(path.startswith(folder + "/") and path.endswith(".py") for path in tree.entries):
            found[name(folder)] = folder
    for dotted in declaration.listed_packages() or ():
        for root in folders:
            folder = root + dotted.replace(".", "/")
            top = dotted.partition(".")[0]
            in_namespace = "." in dotted and f"{root}{top}/__init__.py" not in tree.entries
            if in_namespace and f"{folder}/__init__.py" in tree.entries:
                found[dotted] = folder
    return found


def _modules(declaration: Declaration, tree: Tree, folders: set[str]) -> Iterable[tuple[str, RepoPath]]:
    named = texts(table(declaration.tool, "setuptools").get("py-modules"))
    named += tuple(declaration.setup_cfg.get("options", {}).get("py_modules", "").replace(",", "\n").split())
    flit = texts(table(declaration.tool, "flit", "module").get("name"))
    for root in folders:
        for top in (*named, *flit):
            path = RepoPath(f"{root}{top}.py")
            if path in tree.entries:
                yield top, path
        if root.endswith("src/"):
            for path in tree.entries:
                if parent(path) + "/" == root and path.endswith(".py") and name(path) not in _NOT_MODULES:
                    yield name(path)[:-3], path


def _above(folder: str, dotted: str) -> str:
    for _ in dotted.split("."):
        folder = parent(folder)
    return folder


def is_smoked(path: str) -> bool:
    """Whether importing a shipped file by itself is a fair test of it."""
    last = name(path)
    return (
        last.endswith(".py") and last != "__main__.py" and last not in _NOT_MODULES and not is_test_path(path)
    )
