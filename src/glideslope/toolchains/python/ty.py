"""ty: the type checker of repositories that configure none; advice where they configure another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from glideslope.model.paths import RepoPath
from glideslope.model.result import Severity
from glideslope.ports.toolchain import Context, Output
from glideslope.toolchains.python.checks import (
    Check,
    Reading,
    Trouble,
    cause,
    infrastructure_trouble,
    stderr_tail,
    within,
)
from glideslope.toolchains.python.detect import Checkers
from glideslope.toolchains.python.findings import Found
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.layout import table
from glideslope.toolchains.python.module import Import

RIPPLES = frozenset(
    [
        # An import that no longer resolves.
        "unresolved-import",
        "import-not-found",
        "missing-module-member",
        # An attribute that is gone.
        "unresolved-attribute",
        "missing-attribute",
        # A call that no longer fits.
        "missing-argument",
        "too-many-positional-arguments",
        "unknown-argument",
        "parameter-already-assigned",
        "positional-only-parameter-as-kwarg",
        "no-matching-overload",
        "call-non-callable",
    ]
)
"""Rules by which a change breaks files that it does not touch; older and newer names."""

_IMPORT_RULES = frozenset(["unresolved-import", "import-not-found", "missing-module-member"])
_SEVERITIES = {"minor": Severity.WARNING, "info": Severity.NOTE}
_LONGEST_IMPORT = 20  # lines of one parenthesised import
_NOT_ABOUT_CODE = frozenset(["io", "invalid-syntax", "panic"])


def ty_check(
    context: Context,
    graph: ImportGraph,
    touched: tuple[RepoPath, ...],
    others: tuple[RepoPath, ...],
    *,
    kind: str,
    checkers: Checkers,
    stands_in: bool = False,
) -> Check:
    """One run of ty.

    Args:
        context: What is verified.
        graph: Import graph of the tree under test.
        touched: Changed files: any error in them gates.
        others: Files that only depend on them: there, only `RIPPLES` do.
        kind: Kind of the command.
        checkers: What the repository configures; where that is another checker, nothing gates,
        stands_in: unless that one is not installed and ty takes its place.
    """
    program = context.tools.ty
    if checkers.ty and context.interpreter.has("ty"):
        program = (context.interpreter.executable, "-m", "ty")
    options = ("check", "--no-progress", "--output-format", "gitlab", "--python", context.interpreter.prefix)
    cwd = context.project.root
    changed = frozenset(touched)

    def gates(finding: Found) -> bool:
        if checkers.ty:
            return finding.severity is Severity.ERROR
        advice = bool(checkers.types) and not stands_in
        if advice or finding.severity is not Severity.ERROR or finding.code in _NOT_ABOUT_CODE:
            return False
        if finding.code in _IMPORT_RULES and _is_excused(graph, finding):
            return False
        return finding.path in changed or finding.code in RIPPLES

    def argv(paths: tuple[str, ...]) -> tuple[str, ...]:
        return (*program, *options, "--", *paths)

    def read(output: Output) -> Reading:
        return read_ty(context, cwd, output, configured=checkers.ty, gates=gates)

    files = tuple(sorted({*touched, *others}))
    return Check(tool="ty", kind=kind, cwd=cwd, files=files, argv=argv, read=read)


def read_ty(
    context: Context, cwd: str, output: Output, *, configured: bool, gates: Callable[[Found], bool]
) -> Reading:
    """Reads the answer of `ty check --output-format gitlab`."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble
    words = stderr_tail(output)
    if output.code not in (0, 1):
        broken = output.code == 2 and "panic" not in words
        return Reading(trouble=Trouble.CONFIG_ERROR if broken else Trouble.DIED, message=cause(words))
    try:
        records = json.loads(output.stdout or b"[]")
    except ValueError:
        return Reading(trouble=Trouble.DIED, message="its answer is not JSON")
    found = []
    for record in records:
        finding = _found(context, cwd, record, configured)
        if finding is not None:
            found.append(replace(finding, gates=gates(finding)))
    return Reading(found=tuple(found))


def _found(context: Context, cwd: str, record: Mapping[str, object], configured: bool) -> Found | None:
    place = table(record, "location")
    path = place.get("path")
    if not isinstance(path, str) or not path:
        return None  # about no file: nothing to show or compare
    code = str(record.get("check_name", ""))
    line, column = _spot(table(place, "positions", "begin"))
    end_line, end_column = _spot(table(place, "positions", "end"))
    return Found(
        path=within(context, cwd, path),
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        code=code,
        source="ty",
        message=str(record.get("description", "")).removeprefix(f"{code}: "),
        severity=_SEVERITIES.get(str(record.get("severity")), Severity.ERROR),
        configured=configured,
    )


def _spot(value: Mapping[str, object]) -> tuple[int, int]:
    line, column = value.get("line"), value.get("column")
    return (line if isinstance(line, int) else 0), (column if isinstance(column, int) else 0)


def _is_excused(graph: ImportGraph, finding: Found) -> bool:
    """Whether an import that ty cannot resolve is none the less in order.

    It stands in a `try` that expects as much; or what it names is in the workspace, on a path that
    only the running program knows (`sys.path.insert`, a setting of the test runner).
    """
    path = RepoPath(finding.path)
    if path not in graph.files:
        return False
    here = [
        imported
        for imported in graph.facts(path).imports
        if imported.line <= finding.line <= imported.line + _LONGEST_IMPORT
    ]
    begins = max((imported.line for imported in here), default=0)
    return any(
        imported.guarded or (imported.line == begins and _is_here(graph, path, imported)) for imported in here
    )


def _is_here(graph: ImportGraph, path: RepoPath, imported: Import) -> bool:
    loads, missing = graph.resolve(path, imported)
    return bool(loads) and missing is None
