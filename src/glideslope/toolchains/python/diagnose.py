"""The script of `diagnose.files`: the changed files and their direct importers, as cheaply as it goes.

First what needs no process: configuration that does not parse, files that do not compile. Then
ruff and ty, both at once; then, only where something would block, the same on the base.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from glideslope.model.paths import RepoPath, is_beneath
from glideslope.model.result import Diagnostic, FindingState, RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Context, Output, ProjectRung, Script
from glideslope.toolchains.python.change import direct_importers, named_in_vain, origins, touched_sources
from glideslope.toolchains.python.checks import (
    Checked,
    CheckScript,
    Trouble,
    conclude,
    is_strict,
    run_checks,
    stderr_tail,
)
from glideslope.toolchains.python.detect import PARSED_FILES, broken_configuration, config_of, find_checkers
from glideslope.toolchains.python.findings import Found, blocking, count_text, judge
from glideslope.toolchains.python.generated import stale_products
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.imports import import_findings
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.ruff import ruff_check, ruff_checks
from glideslope.toolchains.python.syntax import gate
from glideslope.toolchains.python.ty import ty_check

KIND = "python.diagnose"
NOTHING = "no Python file to look at"


def diagnose(context: Context, memo: Memo) -> Script:
    """Looks for faults in the changed files and in what imports them.

    Args:
        context: What is verified.
        memo: Facts of source files, kept between runs.

    Returns:
        The script.
    """
    broken = judge(
        broken_configuration(context.now, context.project), (), now=context.now, before=None, origins={}
    )
    if broken:
        return failed(broken, reason="config_error", summary=f"{broken[0].path} does not parse")
    graph = ImportGraph.of(context.now, context.projects, memo, context.base)
    touched = touched_sources(context)
    others = direct_importers(context, graph, touched)
    files = tuple(sorted({*touched, *others}))
    faults = yield from gate(context, graph, files, kind=KIND)
    if isinstance(faults, Output):
        return died(faults, "syntax")
    if blocking(faults):
        return failed(faults, reason="syntax_error", summary=f"{_files(files)}, {count_text(faults)}")
    compiled = frozenset(files).difference(fault.path for fault in faults)
    checked = yield from _check(context, graph, memo, touched, others, compiled)
    imports = import_findings(context, graph, memo)
    shown = without_distant_advice((*faults, *imports, *checked.diagnostics), touched)
    if not files:
        return _or_in_vain(context, _or_stale(context, _nothing(context)))
    end = conclude(context, checked, with_config_errors(context, shown, checked), _files(files))
    return _or_in_vain(context, _or_stale(context, end))


def _nothing(context: Context) -> ProjectRung:
    """How the rung ends without a source file: no proof where other files were named and this is all."""
    prefix = f"{context.project.root}/" if context.project.root else ""
    parsed = {prefix + file for file in PARSED_FILES} & set(context.now.entries)
    named = any(is_beneath(path, chosen) for path in parsed for chosen in context.only_paths)
    if context.only_paths and not named and context.policy is VerifyPolicy.MINIMAL:
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="nothing_to_check",
            summary=f"no tool looks at {', '.join(context.only_paths)}: there is no Python in it",
        )
    return ProjectRung(state=RungState.PASS, summary=NOTHING)


def _or_in_vain(context: Context, end: ProjectRung) -> ProjectRung:
    """A pass says nothing about a path that the snapshot does not have."""
    lost = named_in_vain(context)
    if not lost:
        return end
    words = f"no such file in the snapshot: {', '.join(lost)}"
    if end.state is RungState.FAIL:
        return replace(end, summary=f"{end.summary}; {words}")
    if end.state not in (RungState.PASS, RungState.INCONCLUSIVE):
        return end
    only = end.reason == "nothing_to_check" or end.summary == NOTHING
    return replace(
        end,
        state=RungState.INCONCLUSIVE,
        reason="no_such_file",
        summary=words if only else f"{words}; {end.summary}",
        next="give paths of the workspace; what git ignores is in the snapshot only if carry_files names it",
    )


def died(output: Output, tool: str) -> ProjectRung:
    """How a rung ends when one of its processes was lost or misbehaved."""
    return ProjectRung(
        state=RungState.DIED,
        reason=Trouble.TIMED_OUT if output.outcome == "timed_out" else Trouble.DIED,
        summary=f"{tool}: {output.detail or output.outcome}",
        exit_code=output.code,
        log_ref=output.log_ref,
        stderr_tail=stderr_tail(output),
    )


def _check(
    context: Context,
    graph: ImportGraph,
    memo: Memo,
    touched: tuple[RepoPath, ...],
    others: tuple[RepoPath, ...],
    compiled: frozenset[str],
) -> CheckScript:
    checkers = find_checkers(context.now, context.project)
    mine = tuple(path for path in touched if path in compiled)
    near = tuple(path for path in others if path in compiled)
    if not (mine or near):
        return Checked()
    checks = (
        *ruff_checks(context, tuple(sorted({*mine, *near})), KIND),
        ty_check(context, graph, mine, near, kind=KIND, checkers=checkers),
    )
    checked = yield from run_checks(context, checks, origins(context), memo=memo)
    unfit = [check for check, reading, _ in checked.troubles if reading.trouble is Trouble.TOOL_MISSING]
    if unfit and not is_strict(context):
        # The ruff that the repository asks for is not here: certain faults only, and it is said.
        missing = tuple(trouble for trouble in checked.troubles if trouble[0] in unfit)
        again = tuple(ruff_check(context, check.files, KIND, configured=False) for check in unfit)
        kept = tuple(check for check in checks if check not in unfit)
        checked = yield from run_checks(context, (*kept, *again), origins(context), memo=memo)
        checked = replace(checked, troubles=(*checked.troubles, *missing))
    if not checked.troubles:
        memo.shelf["ty"] = (context.now, compiled, checked.answers["ty"])
    return checked


def failed(diagnostics: tuple[Diagnostic, ...], *, reason: str, summary: str) -> ProjectRung:
    """A rung that found something that blocks."""
    return ProjectRung(state=RungState.FAIL, reason=reason, summary=summary, diagnostics=diagnostics)


def _files(files: tuple[RepoPath, ...]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"


def without_distant_advice(
    diagnostics: Iterable[Diagnostic], touched: Iterable[RepoPath]
) -> tuple[Diagnostic, ...]:
    """In order, without what is only advice about files that the change does not touch."""
    changed = frozenset(touched)
    advisory = FindingState.ADVISORY
    return in_order(found for found in diagnostics if found.state is not advisory or found.path in changed)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by path, line, column, source."""
    return tuple(sorted(diagnostics, key=lambda found: (found.path, found.line, found.column, found.source)))


def answer_of_ty(memo: Memo, context: Context, files: Iterable[RepoPath]) -> Output | None:
    """What ty said of this very tree at `diagnose.files`; None where it was not asked about all the files."""
    kept = memo.shelf.get("ty")
    if not isinstance(kept, tuple) or kept[0] is not context.now or not kept[1].issuperset(files):
        return None
    output: Output = kept[2]
    return output


def with_config_errors(
    context: Context, diagnostics: tuple[Diagnostic, ...], checked: Checked
) -> tuple[Diagnostic, ...]:
    """Adds a finding for each tool that does not accept its configuration."""
    found = tuple(
        Found(
            path=config_of(context, check.tool),
            line=_number("line", reading.message),
            column=_number("column", reading.message),
            code="config_error",
            source=check.tool,
            message=reading.message,
            gates=True,
            configured=True,
        )
        for check, reading, _ in checked.troubles
        if reading.trouble is Trouble.CONFIG_ERROR
    )
    extra = judge(found, (), now=context.now, before=None, origins={})
    return in_order((*diagnostics, *extra))


def _number(word: str, message: str) -> int:
    found = re.search(rf"\b{word} (\d+)", message)
    return int(found[1]) if found else 0


def _or_stale(context: Context, end: ProjectRung) -> ProjectRung:
    """A pass proves nothing while generated code is older than what it is generated from."""
    stale = stale_products(context) if end.state is RungState.PASS else ()
    if not stale:
        return end
    source, product = stale[0]
    return replace(
        end,
        state=RungState.INCONCLUSIVE,
        reason="generated_stale",
        summary=f"{source} changed, {product} did not; {end.summary}",
        next=f"generate {product} again",
    )
