"""The syntax gate: no other tool sees a file that does not compile.

Where the project's interpreter has our grammar, files are compiled in memory, here; where it has
another one, by itself, in one short process. Compiling runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath
from glideslope.model.result import Diagnostic
from glideslope.ports.toolchain import Command, Context, Output, Side, Tree
from glideslope.toolchains.python.change import is_test_file, origins
from glideslope.toolchains.python.findings import Found, judge
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import OUR_VERSION, SyntaxFault, compile_fault

_NOT_RUN = frozenset(
    [
        "tests",
        "test",
        "testing",
        "testdata",
        "test_data",
        "data",
        "fixtures",
        "templates",
        "docs",
        "doc",
        "examples",
        "samples",
    ]
)


def faults(
    context: Context, paths: tuple[RepoPath, ...], *, kind: str, side: Side = Side.NOW
) -> Generator[tuple[Command, ...], tuple[Output, ...], dict[RepoPath, SyntaxFault] | Output]:
    """Compiles source files.

    Args:
        context: What is verified.
        paths: Files of the side's tree.
        kind: Kind of the command, where one is needed.
        side: Which tree.

    Returns:
        The files that do not compile; or the output of a process that died over it.
    """
    tree = context.now if side is Side.NOW else context.base
    if tree is None:
        return {}
    modules = tuple(path for path in paths if path.endswith(".py"))
    here = {path: fault for path in paths if (fault := _fault(tree, path)) is not None}
    if context.interpreter.version[:2] == OUR_VERSION or not modules:
        return here
    outputs = yield (_command(context, modules, kind, side),)
    output = outputs[0]
    if output.outcome != "exited" or output.code != 0:
        return output
    stubs = {path: fault for path, fault in here.items() if path.endswith(".pyi")}
    return {**stubs, **dict(_read(output))}


def gate(
    context: Context, graph: ImportGraph, paths: tuple[RepoPath, ...], *, kind: str
) -> Generator[tuple[Command, ...], tuple[Output, ...], tuple[Diagnostic, ...] | Output]:
    """Compiles source files and tells new faults from known ones.

    A file that did not compile on the base either is known. Without a base a fault is new, but
    for files that are data for tests and that nothing imports: those are advisory.

    Returns:
        Diagnostics, sorted; or the output of a process that died over it.
    """
    found = yield from faults(context, paths, kind=kind)
    if isinstance(found, Output) or not found:
        return () if isinstance(found, dict) else found
    earlier: dict[RepoPath, SyntaxFault] = {}
    moved = origins(context)
    if context.base is not None:
        olds = tuple(old for path in sorted(found) if (old := moved.get(path, path)) in context.base.entries)
        answer = yield from faults(context, olds, kind=kind, side=Side.BASE)
        if isinstance(answer, Output):
            return answer
        earlier = answer
    known = [path for path in found if moved.get(path, path) in earlier]
    new = [
        _finding(
            path, found[path], gates="{" not in path and (context.base is not None or _is_code(graph, path))
        )
        for path in found
        if path not in known
    ]
    kept = [_finding(path, found[path], gates=True) for path in known]
    diagnostics = [
        *judge(new, (), now=context.now, before=context.base, origins=moved),
        *judge(kept, None, now=context.now, before=context.base, origins=moved),
    ]
    return tuple(sorted(diagnostics, key=lambda diagnostic: (diagnostic.path, diagnostic.line)))


def _finding(path: RepoPath, fault: SyntaxFault, *, gates: bool) -> Found:
    return Found(
        path=path,
        line=fault.line,
        column=fault.column,
        code="syntax_error",
        source="syntax",
        message=fault.message,
        gates=gates,
    )


def _fault(tree: Tree, path: RepoPath) -> SyntaxFault | None:
    try:
        return compile_fault(tree.read(path))
    except UnknownId:
        return None


def _command(context: Context, paths: Iterable[str], kind: str, side: Side) -> Command:
    boot = f"{context.tools.worker.rstrip('/')}/boot.py"
    return Command(
        kind=kind,
        argv=(context.interpreter.executable, "-I", "-S", boot, "syntax_gate", "{report_fd}"),
        cwd="",
        side=side,
        label="syntax",
        report=True,
        stdin="".join(path + "\0" for path in paths).encode("utf-8", "surrogateescape"),
    )


def _read(output: Output) -> Iterable[tuple[RepoPath, SyntaxFault]]:
    for line in output.report:
        record = json.loads(line)
        yield RepoPath(record["path"]), SyntaxFault(record["line"], record["column"], record["message"])


def _is_code(graph: ImportGraph, path: RepoPath) -> bool:
    """Whether a file is meant to run; suites of tools for code keep broken files as data."""
    folders = path.split("/")[:-1]
    return is_test_file(path) or not _NOT_RUN.intersection(folders) or bool(graph.importers([path]))
