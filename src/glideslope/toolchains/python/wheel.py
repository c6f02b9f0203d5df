"""Building through the project's own backend, and what the wheel tells.

The backend runs in the project's interpreter, inside the sandbox, without the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from glideslope.model.paths import RepoPath, is_beneath
from glideslope.model.snapshot import Change, ChangeKind
from glideslope.ports.backends import BACKEND_ARGUMENT
from glideslope.ports.toolchain import Context, Output, Tree
from glideslope.toolchains.python.backend import Backend
from glideslope.toolchains.python.checks import Check, Reading, Trouble, infrastructure_trouble, stderr_tail
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.layout import read_toml, table, texts
from glideslope.toolchains.python.metadata import is_backend_file, named_files
from glideslope.toolchains.python.package import Declaration, Shipped, is_smoked, shipped

KIND = "python.build"

_TOOLS = [
    "setuptools",
    "setuptools_scm",
    "hatch",
    "poetry",
    "flit",
    "pdm",
    "uv",
    "maturin",
    "scikit-build",
    "meson-python",
    "cibuildwheel",
    "versioningit",
]
_NATIVE_BACKENDS = ("mesonpy", "scikit_build_core", "maturin")
_NATIVE_REQUIRES = re.compile(r"cython|cffi|pybind11|nanobind|setuptools[-_]rust|mypy|numpy", re.IGNORECASE)
_NATIVE_SETUP = re.compile(r"ext_modules|Extension\(|cythonize|RustExtension|cffi_modules|mypycify")
_NATIVE_SOURCES = re.compile(
    r".*\.(?:c|cc|cpp|cxx|h|hh|hpp|pyx|pxd|pxi|rs|f|f90|f95|cu|m|mm|s)\Z|.*Cargo\.(?:toml|lock)\Z"
)


def backend_inputs_changed(context: Context) -> bool:
    """Whether what a build backend reads, apart from the packages, differs from the base's."""
    if context.base is None:
        return False
    now = Declaration.of(context.now, context.project)
    before = Declaration.of(context.base, context.project)
    if _read_by_backend(now.pyproject) != _read_by_backend(before.pyproject):
        return True
    files = named_files(now) | named_files(before)
    return any(_is_input(change, context, files) for change in context.changes)


def build_check(
    context: Context, declaration: Declaration, hook: str, backend: Backend, before: Backend | None = None
) -> Check:
    """A run of one hook of the backend.

    Args:
        context: What is verified.
        declaration: Of the project.
        hook: metadata or wheel.
        backend: Where the backend is.
        before: Where that of the base is; None where it is the same.
    """
    then = Declaration.of(context.base, context.project) if context.base is not None else declaration
    theirs = before or backend

    def argv(_: tuple[str, ...]) -> tuple[str, ...]:
        return _hook_argv(context, declaration, hook, backend)

    def base_argv(_: tuple[str, ...]) -> tuple[str, ...]:
        return _hook_argv(context, then, hook, theirs)

    def read(output: Output) -> Reading:
        return read_build(context, output, hook)

    return Check(
        tool=hook,
        kind=KIND,
        cwd=context.project.root,
        files=(),
        argv=argv,
        base_argv=base_argv,
        read=read,
        report=True,
        backend=backend.digest,
        base_backend=None if theirs.absent else theirs.digest,
    )


def _hook_argv(context: Context, declaration: Declaration, hook: str, backend: Backend) -> tuple[str, ...]:
    boot = f"{context.tools.worker.rstrip('/')}/boot.py"
    paths = texts(table(declaration.pyproject, "build-system").get("backend-path"))
    # A legacy backend finds its setup.py by the working directory.
    extra = paths or ((".",) if declaration.backend.endswith("__legacy__") else ())
    alone = ("-S",) if backend.digest else ()  # what is installed beside is no part of the build
    inside = ("--in", BACKEND_ARGUMENT) if backend.digest else ()
    program = (context.interpreter.executable, "-I", *alone, boot, "pep517_build", "{report_fd}", *inside)
    return (*program, hook, declaration.backend, *extra)


def read_build(context: Context, output: Output, hook: str) -> Reading:
    """Reads what `pep517_build` reports; for a wheel, compares it with the packages on disk."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble
    records = [json.loads(line) for line in output.report]
    if not records:
        last = stderr_tail(output).splitlines()[-1:] or [f"it ended with status {output.code}"]
        return Reading(found=(_failed(context, hook, last[0]),))
    record: Mapping[str, object] = records[0]
    missing = texts(record.get("missing"))
    if missing:
        words = f"the backend also asks for {', '.join(missing)}: add it to build-system.requires"
        return Reading(trouble=Trouble.TOOL_MISSING, message=words)
    if not record["ok"]:
        return Reading(found=(_failed(context, hook, f"{record['type']}: {record['message']}"),))
    if hook != "wheel":
        return Reading()
    side = context.base if output.command.side == "base" else context.now
    files = record["files"]
    tree = side or context.now
    return Reading(found=_left_out(context, tree, frozenset(texts(files))))


def is_native(declaration: Declaration) -> bool:
    """Whether a project builds extension modules."""
    if declaration.backend.startswith(_NATIVE_BACKENDS):
        return True
    if table(declaration.tool, "setuptools").get("ext-modules") or _NATIVE_SETUP.search(declaration.setup_py):
        return True
    return any(_NATIVE_REQUIRES.match(requirement) for requirement in declaration.requires)


def stale_native_sources(context: Context, declaration: Declaration) -> tuple[RepoPath, ...]:
    """Changed sources of extension modules that were not built again; sorted.

    Nothing here can tell whether an installed extension is of these sources, so only a changed
    extension in the tree says that it was.
    """
    if context.base is None or not is_native(declaration):
        return ()
    changed = [change.path for change in context.changes if is_beneath(change.path, context.project.root)]
    if any(path.endswith((".so", ".pyd")) for path in changed):
        return ()
    return tuple(
        sorted(path for path in changed if _NATIVE_SOURCES.match(path) and "/tests/" not in f"/{path}")
    )


def lock_check(context: Context) -> Check | None:
    """`uv lock --check`, where the project has uv and a lock and something it locks changed."""
    prefix = f"{context.project.root}/" if context.project.root else ""
    if (
        context.base is None
        or not context.interpreter.has("uv")
        or prefix + "uv.lock" not in context.now.entries
    ):
        return None
    if _locked(context.now, prefix) == _locked(context.base, prefix):
        return None

    def argv(_: tuple[str, ...]) -> tuple[str, ...]:
        return (
            context.interpreter.executable,
            "-m",
            "uv",
            "lock",
            "--check",
            "--offline",
            "--no-python-downloads",
        )

    def read(output: Output) -> Reading:
        trouble = infrastructure_trouble(output)
        words = stderr_tail(output)
        if trouble is not None or output.code == 0:
            return trouble or Reading()
        if "needs to be updated" not in words:
            # Offline it cannot always tell; that is no finding.
            return Reading(trouble=Trouble.TOOL_MISSING, message="cannot be checked offline")
        found = Found(
            path=prefix + "uv.lock",
            line=0,
            column=0,
            code="lock_outdated",
            source="build",
            message="the lock does not fit pyproject.toml: run uv lock",
            gates=True,
        )
        return Reading(found=(found,))

    return Check(tool="uv lock", kind=KIND, cwd=context.project.root, files=(), argv=argv, read=read)


def _locked(tree: Tree, prefix: str) -> object:
    data = read_toml(tree, prefix + "pyproject.toml")
    project = table(data, "project")
    keys = ("dependencies", "optional-dependencies", "requires-python", "name", "version")
    lock = tree.entries.get(RepoPath(prefix + "uv.lock"))
    return (
        [project.get(key) for key in keys],
        data.get("dependency-groups"),
        table(data, "tool").get("uv"),
        lock,
    )


def _read_by_backend(pyproject: Mapping[str, object]) -> object:
    tool = table(pyproject, "tool")
    return pyproject.get("project"), pyproject.get("build-system"), [tool.get(name) for name in _TOOLS]


def _is_input(change: Change, context: Context, files: frozenset[RepoPath]) -> bool:
    # A backend copies a readme and a licence; what is written in them cannot break a build,
    # that they are gone can.
    if change.path in files or (change.origin is not None and change.origin in files):
        return change.kind is not ChangeKind.MODIFIED
    root = context.project.root
    return change.path.rpartition("/")[0] == root and is_backend_file(change.path)


def _failed(context: Context, hook: str, message: str) -> Found:
    prefix = f"{context.project.root}/" if context.project.root else ""
    named = (prefix + file for file in ("pyproject.toml", "setup.cfg", "setup.py"))
    path = next((path for path in named if path in context.now.entries), prefix + "pyproject.toml")
    return Found(
        path=path,
        line=0,
        column=0,
        code=f"{hook}_failed",
        source="build",
        message=message.splitlines()[-1] if message else f"the {hook} hook failed",
        gates=True,
    )


def _left_out(context: Context, tree: Tree, files: frozenset[str]) -> tuple[Found, ...]:
    """Modules of shipped packages that are on disk and not in the wheel."""
    ships: Shipped = shipped(tree, context.project)
    found = []
    for path in sorted(tree.entries):
        dotted = ships.name_of(path) if path.endswith(".py") and is_smoked(path) else None
        if dotted is None:
            continue
        inner = dotted.replace(".", "/")
        built = any(file in files for file in (f"{inner}.py", f"{inner}/__init__.py"))
        if not built and any(file.startswith(inner.partition("/")[0]) for file in files):
            found.append(
                Found(
                    path=path,
                    line=0,
                    column=0,
                    code="not_in_wheel",
                    source="build",
                    message=f"module {dotted} is not in the wheel",
                    gates=True,
                )
            )
    return tuple(found)
