"""The script of `compile.project`: everything the change reaches through imports still fits together.

In memory: all affected files compile, imports of our own modules resolve, nobody imports a module
that vanished. Then the repository's own type checker where it configures one that is installed,
else ty.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from glideslope.model.paths import RepoPath, is_beneath
from glideslope.model.result import RungState
from glideslope.model.snapshot import FileMode
from glideslope.ports.toolchain import Context, Output, ProjectRung, Script
from glideslope.toolchains.python.change import considered, origins, touched_sources, vanished_sources
from glideslope.toolchains.python.checks import Check, conclude, is_strict, run_checks
from glideslope.toolchains.python.detect import Checkers, find_checkers
from glideslope.toolchains.python.diagnose import (
    answer_of_ty,
    died,
    failed,
    in_order,
    with_config_errors,
    without_distant_advice,
)
from glideslope.toolchains.python.findings import blocking, count_text
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.imports import import_findings
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.mypy import mypy_check
from glideslope.toolchains.python.pyright import pyright_check
from glideslope.toolchains.python.syntax import gate
from glideslope.toolchains.python.ty import ty_check

KIND = "python.compile"


def compile_project(context: Context, memo: Memo) -> Script:
    """Checks the reverse import closure of the change.

    Args:
        context: What is verified.
        memo: Facts of source files, kept between runs.

    Returns:
        The script.
    """
    graph = ImportGraph.of(context.now, context.projects, memo, context.base)
    touched = touched_sources(context)
    gone = vanished_sources(considered(context))
    affected = _affected(context, graph, (*touched, *gone))
    if not affected:
        return ProjectRung(state=RungState.PASS, summary="no module is affected")
    faults = yield from gate(context, graph, affected, kind=KIND)
    if isinstance(faults, Output):
        return died(faults, "syntax")
    summary = f"{len(affected)} module{'' if len(affected) == 1 else 's'}"
    imports = import_findings(context, graph, memo)
    found = in_order((*faults, *imports))
    if blocking(found):
        return failed(found, reason="", summary=f"{summary}, {count_text(found)}")
    broken = {fault.path for fault in faults}
    sound = tuple(path for path in affected if path not in broken)
    checkers = find_checkers(context.now, context.project)
    checks, notes, missing = _checks(context, graph, touched, sound, checkers)
    if missing and is_strict(context):
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="tool_missing",
            summary=f"{' and '.join(missing)} configured, but not installed",
            diagnostics=found,
            next=shlex.join((context.interpreter.executable, "-m", "pip", "install", missing[0])),
        )
    answer = answer_of_ty(memo, context, sound)
    answers = {"ty": answer} if answer is not None else {}
    checked = yield from run_checks(context, checks, origins(context), memo=memo, answers=answers)
    shown = without_distant_advice((*found, *checked.diagnostics), touched)
    diagnostics = with_config_errors(context, shown, checked)
    end = conclude(context, checked, diagnostics, summary, notes=notes)
    if end.state is RungState.PASS and missing:
        return replace(end, reason="checker_missing")
    return end


def _affected(context: Context, graph: ImportGraph, changed: tuple[RepoPath, ...]) -> tuple[RepoPath, ...]:
    """Files of the tree that depend on the changed ones, dependents in other projects included."""
    reached = graph.closure(changed)
    return tuple(
        path
        for path in graph.files
        if path in reached
        and context.now.entries[path].mode is not FileMode.SYMLINK
        and (not context.only_paths or any(is_beneath(path, chosen) for chosen in context.only_paths))
    )


def _checks(
    context: Context,
    graph: ImportGraph,
    touched: tuple[RepoPath, ...],
    affected: tuple[RepoPath, ...],
    checkers: Checkers,
) -> tuple[tuple[Check, ...], tuple[str, ...], tuple[str, ...]]:
    """The type checks to run, what to say of them, and the configured checkers that are not there."""
    installed = tuple(name for name in checkers.types if context.interpreter.has(name))
    if installed:
        made = [
            mypy_check(context, affected, KIND)
            if name == "mypy"
            else pyright_check(context, name, affected, KIND)
            for name in installed
        ]
        return tuple(check for check in made if check is not None), (), ()
    missing = () if checkers.ty else checkers.types
    notes = tuple(f"{name} is configured, but not installed: ty in its place" for name in missing)
    changed = frozenset(touched)
    mine = tuple(path for path in affected if path in changed)
    others = tuple(path for path in affected if path not in changed)
    check = ty_check(context, graph, mine, others, kind=KIND, checkers=checkers, stands_in=bool(missing))
    return (check,), notes, missing
