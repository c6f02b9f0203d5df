"""What a workspace declares: its projects, and the checkers that each of them configures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath, is_beneath, parent
from glideslope.model.project import Project
from glideslope.ports.toolchain import Context, Tree
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.layout import read_ini, read_toml, table

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")

PARSED_FILES = ("pyproject.toml", "ruff.toml", ".ruff.toml", "ty.toml", "glideslope.toml")
"""Configuration at the root of a project that `diagnose.files` parses itself."""

_PASSED_OVER = frozenset(
    [
        ".venv",
        "venv",
        "env",
        ".env",
        ".tox",
        ".nox",
        ".git",
        "node_modules",
        "site-packages",
        "__pycache__",
        ".eggs",
        "build",
        "dist",
        "vendor",
        "vendored",
        "_vendor",
        "third_party",
        "thirdparty",
        "external",
        "submodules",
        "tests",
        "test",
        "testing",
        "testdata",
        "fixtures",
        "data",
        "templates",
        "docs",
        "doc",
        "examples",
        "example",
        "samples",
        "demo",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkers:
    """The static checkers a project configures."""

    mypy: bool = False
    pyright: bool = False
    basedpyright: bool = False
    ty: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the type checkers that gate, apart from ty."""
        names = (("mypy", self.mypy), ("pyright", self.pyright), ("basedpyright", self.basedpyright))
        return tuple(name for name, configured in names if configured)


def find_projects(tree: Tree) -> tuple[Project, ...]:
    """The Python projects of a workspace, outermost first, then by folder.

    Folders that hold other people's code, or projects that are data for tests, are passed over.
    The root is one where it has a project file, or sources that are in none of the others.
    """
    roots: set[str] = set()
    for path in tree.entries:
        folder, _, file = path.rpartition("/")
        if file in PROJECT_FILES and not _PASSED_OVER.intersection(folder.split("/")):
            if file == "setup.cfg" and "metadata" not in read_ini(tree, path):
                continue
            if file == "pyproject.toml" and not _declares_project(tree, path, folder):
                continue
            roots.add(folder)
    if any(_is_loose(path, roots) for path in tree.entries):
        roots.add("")
    return tuple(
        Project(name=root or ".", root=root, toolchain="python")
        for root in sorted(roots, key=lambda root: (root.count("/") + bool(root), root))
    )


def find_checkers(tree: Tree, project: Project) -> Checkers:
    """The type checkers that a project, or a folder of the workspace above it, configures."""
    found = Checkers()
    for folder in _upwards(project.root):
        here = _checkers_in(tree, folder)
        found = Checkers(
            mypy=found.mypy or here.mypy,
            pyright=found.pyright or here.pyright,
            basedpyright=found.basedpyright or here.basedpyright,
            ty=found.ty or here.ty,
        )
    return found


def ruff_config(tree: Tree, path: str) -> RepoPath | None:
    """The file that configures ruff for a source file: the nearest above it, None without one."""
    for folder in _upwards(parent(path)):
        prefix = f"{folder}/" if folder else ""
        for name in (".ruff.toml", "ruff.toml"):
            if prefix + name in tree.entries:
                return RepoPath(prefix + name)
        if "ruff" in table(read_toml(tree, prefix + "pyproject.toml"), "tool"):
            return RepoPath(prefix + "pyproject.toml")
    return None


def config_of(context: Context, tool: str) -> str:
    """The file that most likely configures a tool for the context's project; "pyproject.toml" at worst."""
    own = (f".{tool}.toml", f"{tool}.toml", f".{tool}.ini", f"{tool}.ini", f"{tool}config.json")
    for folder in _upwards(context.project.root):
        prefix = f"{folder}/" if folder else ""
        for name in own:
            if prefix + name in context.now.entries:
                return prefix + name
        for name in ("pyproject.toml", "setup.cfg"):
            if prefix + name in context.now.entries:
                return prefix + name
    return "pyproject.toml"


def broken_configuration(tree: Tree, project: Project) -> tuple[Found, ...]:
    """TOML files of a project that do not parse, as findings."""
    prefix = f"{project.root}/" if project.root else ""
    found = []
    for name in PARSED_FILES:
        path = prefix + name
        if path not in tree.entries:
            continue
        problem = _toml_problem(tree, RepoPath(path))
        if problem is not None:
            line, column, message = problem
            found.append(
                Found(
                    path=path,
                    line=line,
                    column=column,
                    code="config_error",
                    source="toml",
                    message=message,
                    gates=True,
                    configured=True,
                )
            )
    return tuple(found)


def _toml_problem(tree: Tree, path: RepoPath) -> tuple[int, int, str] | None:
    """Line, column and message of the first fault of a TOML file."""
    try:
        data = tree.read(path)
    except UnknownId:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return line, error.start - data.rfind(b"\n", 0, error.start), "not UTF-8"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, line, column = _position(str(error), text)
        return line, column, message
    return None


def _position(message: str, text: str) -> tuple[str, int, int]:
    """Takes `(at line 3, column 7)` off a message of tomllib."""
    head, found, tail = message.rpartition(" (at ")
    words = tail.rstrip(")").replace(",", "").split()
    if found and len(words) == 4 and words[1].isdigit() and words[3].isdigit():
        return head, int(words[1]), int(words[3])
    return (head or message), max(text.count("\n") + 1, 1), 1


def _checkers_in(tree: Tree, folder: str) -> Checkers:
    prefix = f"{folder}/" if folder else ""
    tool = table(read_toml(tree, prefix + "pyproject.toml"), "tool")
    inis = any(prefix + name in tree.entries for name in ("mypy.ini", ".mypy.ini"))
    return Checkers(
        mypy="mypy" in tool or inis or "mypy" in read_ini(tree, prefix + "setup.cfg"),
        pyright="pyright" in tool or prefix + "pyrightconfig.json" in tree.entries,
        basedpyright="basedpyright" in tool,
        ty="ty" in tool or prefix + "ty.toml" in tree.entries,
    )


def _declares_project(tree: Tree, path: str, folder: str) -> bool:
    """A file that only configures tools makes no project of a folder below the root."""
    if not folder:
        return True
    data = read_toml(tree, path)
    return not data or "project" in data or "build-system" in data or "poetry" in table(data, "tool")


def _is_loose(path: RepoPath, roots: set[str]) -> bool:
    """Whether a file is a source, or a project file, that is in none of the projects."""
    is_source = path.endswith((".py", ".pyi")) or path in PROJECT_FILES
    return is_source and not any(is_beneath(path, root) for root in roots)


def _upwards(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = parent(folder)
    yield ""
