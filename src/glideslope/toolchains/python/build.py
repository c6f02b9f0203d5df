"""The script of `build.affected`: would an install of this snapshot work?

By layers, cheapest first: what the project declares about itself fits its files; every affected
module imports in a fresh process; and, where an input of the build changed or the policy is
strict, the backend itself is asked for metadata and a wheel.
"""

from __future__ import annotations

from dataclasses import replace

from glideslope.model.paths import is_beneath
from glideslope.model.result import Diagnostic, RungState
from glideslope.ports.toolchain import Context, ProjectRung, Script
from glideslope.toolchains.python.change import considered, origins, touched_sources, vanished_sources
from glideslope.toolchains.python.checks import Check, Checked, Trouble, conclude, is_strict, run_checks
from glideslope.toolchains.python.diagnose import died, failed, in_order
from glideslope.toolchains.python.findings import blocking, count_text, judge
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.metadata import check_metadata
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.package import Declaration, Shipped, shipped
from glideslope.toolchains.python.smoke import smoke
from glideslope.toolchains.python.wheel import (
    backend_inputs_changed,
    build_check,
    lock_check,
    missing_backend,
    stale_native_sources,
)


def build_affected(context: Context, memo: Memo) -> Script:
    """Checks that what the change affects can be built and imported.

    Args:
        context: What is verified.
        memo: Facts of source files, kept between runs.

    Returns:
        The script.
    """
    graph = ImportGraph.of(context.now, context.projects, memo, context.base)
    ships = shipped(context.now, context.project)
    declared = _declared(context, memo, graph, ships)
    if blocking(declared):
        return failed(declared, reason="", summary=f"declaration, {count_text(declared)}")
    changed = (*touched_sources(context), *vanished_sources(considered(context)))
    reached = graph.closure(changed, typing=False)
    affected = tuple(
        path
        for path in graph.files
        if path in reached
        and (not context.only_paths or any(is_beneath(path, p) for p in context.only_paths))
    )
    found, smoked = yield from smoke(context, graph, ships, affected, origins(context))
    if smoked.lost is not None:
        return died(smoked.lost, "import smoke")
    count = len(smoked.imported) + len(smoked.failed or ())
    summary = f"import smoke {count} module{'' if count == 1 else 's'}" if count else "nothing to import"
    if smoked.untried:
        summary += f", {len(smoked.untried)} not tried"
    diagnostics = in_order((*declared, *found))
    if blocking(diagnostics):
        return failed(diagnostics, reason="", summary=f"{summary}, {count_text(diagnostics)}")
    declaration = Declaration.of(context.now, context.project)
    inputs_changed = backend_inputs_changed(context)
    checks, notes, absent = _builds(context, declaration, inputs_changed)
    checked = yield from run_checks(context, checks, origins(context), memo=memo)
    unsure = tuple(
        check.tool for check, reading, _ in checked.troubles if reading.trouble is Trouble.TOOL_MISSING
    )
    notes += tuple(f"{tool} not judged offline" for tool in unsure)
    sure = tuple(t for t in checked.troubles if t[1].trouble is not Trouble.TOOL_MISSING)
    diagnostics = in_order((*diagnostics, *checked.diagnostics))
    end = conclude(context, Checked(troubles=sure), diagnostics, summary, notes=notes)
    if end.state is not RungState.PASS:
        return end
    return _unproven(context, declaration, end, absent if inputs_changed else None)


def _declared(context: Context, memo: Memo, graph: ImportGraph, ships: Shipped) -> tuple[Diagnostic, ...]:
    """Findings about the declaration, told new from known."""
    found = check_metadata(context.now, context.project, ships, graph)
    known = None
    if context.base is not None:
        base_graph = ImportGraph.of(context.base, context.projects, memo)
        known = check_metadata(
            context.base, context.project, shipped(context.base, context.project), base_graph
        )
    return judge(found, known, now=context.now, before=context.base, origins=origins(context))


def _builds(
    context: Context, declaration: Declaration, inputs_changed: bool
) -> tuple[tuple[Check, ...], tuple[str, ...], str | None]:
    """What to ask of the backend, what to say, and what is not installed for it."""
    lock = lock_check(context)
    locks = (lock,) if lock is not None else ()
    if not declaration.is_installable or not (inputs_changed or is_strict(context)):
        return locks, (), None
    absent = missing_backend(context, declaration)
    if absent is not None:
        return locks, (f"no wheel built: {absent} is not installed here",), absent
    # The wheel hook prepares the metadata on its way.
    return (*locks, build_check(context, declaration, "wheel")), (), None


def _unproven(
    context: Context, declaration: Declaration, end: ProjectRung, absent: str | None
) -> ProjectRung:
    """A pass is none where something it stands on changed and could not be built again."""
    stale = stale_native_sources(context, declaration)
    if stale:
        return replace(
            end,
            state=RungState.INCONCLUSIVE,
            reason="native_sources_changed",
            summary=f"{stale[0]} changed and its extension was not built again; {end.summary}",
            next="build the extension modules in place, then verify again",
        )
    if absent is not None:
        return replace(
            end,
            state=RungState.INCONCLUSIVE,
            reason="backend_unavailable",
            next=f"{context.interpreter.executable} -m pip install {absent}",
        )
    return end
