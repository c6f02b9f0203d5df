"""The script of `build.affected`: would an install of this snapshot work?

By layers, cheapest first: what the project declares about itself fits its files; every affected
module imports in a fresh process; and, where an input of the build changed or the policy is
strict, the backend itself is asked for metadata and a wheel.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from glideslope.model.paths import is_beneath
from glideslope.model.result import Diagnostic, RungState
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Script
from glideslope.toolchains.python.absent import how_to_add
from glideslope.toolchains.python.backend import Backend, BackendScript, find_backend, recipe_of
from glideslope.toolchains.python.change import considered, origins, touched_sources, vanished_sources
from glideslope.toolchains.python.checks import (
    Check,
    Checked,
    Reading,
    Trouble,
    conclude,
    is_strict,
    run_checks,
)
from glideslope.toolchains.python.contents import losses
from glideslope.toolchains.python.diagnose import died, failed, in_order
from glideslope.toolchains.python.findings import blocking, count_text, judge
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.metadata import check_metadata
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.package import Declaration, Shipped, shipped
from glideslope.toolchains.python.selection import units_of
from glideslope.toolchains.python.smoke import smoke
from glideslope.toolchains.python.units import read_config
from glideslope.toolchains.python.wheel import (
    backend_inputs_changed,
    build_check,
    lock_check,
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
    built = yield from _build(context, memo)
    diagnostics = in_order((*diagnostics, *built.diagnostics))
    end = conclude(context, Checked(troubles=built.troubles), diagnostics, summary, notes=built.notes)
    if (
        end.state is RungState.PASS
        and smoked.lacking
        and not units_of(context, read_config(context.now, context.project))
    ):
        return replace(
            end,
            state=RungState.INCONCLUSIVE,
            reason="dependency_missing",
            summary=f"{', '.join(smoked.lacking)} cannot be imported, and there is no test; {end.summary}",
            next=how_to_add(context, smoked.lacking[0]),
        )
    return _unproven(context, end, built) if end.state is RungState.PASS else end


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """What the backend and the lock have to say."""

    diagnostics: tuple[Diagnostic, ...] = ()
    troubles: tuple[tuple[Check, Reading, Output], ...] = ()
    notes: tuple[str, ...] = ()
    unbuilt: Backend | None = None  # why the verdict stands on a build that could not be made


def _build(context: Context, memo: Memo) -> Generator[tuple[Command, ...], tuple[Output, ...], _Built]:
    """Asks the backend for a wheel where an input of it changed or the policy wants one."""
    declaration = Declaration.of(context.now, context.project)
    changed = backend_inputs_changed(context)
    lock = lock_check(context)
    checks: tuple[Check, ...] = (lock,) if lock is not None else ()
    notes: tuple[str, ...] = ()
    lacking, wheel = Backend(), None
    if declaration.is_installable and (changed or is_strict(context)):
        lacking = yield from find_backend(context, declaration)
        if lacking.absent:
            notes = (f"no wheel built: {lacking.absent}",)
        else:
            before = yield from _base_backend(context, declaration, lacking)
            # The wheel hook prepares the metadata on its way.
            wheel = build_check(context, declaration, "wheel", lacking, before)
            checks += (wheel,)
    checked = yield from run_checks(context, checks, origins(context), memo=memo)
    diagnostics = checked.diagnostics
    for check, reading, output in checked.troubles:
        if reading.trouble is Trouble.TOOL_MISSING and check is wheel:
            lacking = Backend(absent=reading.message, next=reading.message, log_ref=output.log_ref)
            notes += (f"no wheel built: {reading.message}",)
        elif reading.trouble is Trouble.TOOL_MISSING:
            notes += (f"{check.tool} not judged offline",)
    if wheel is not None and changed and not blocking(diagnostics) and not checked.troubles:
        lost = yield from losses(context, wheel, checked.answers.get(wheel.tool), memo)
        diagnostics += judge(lost, None, now=context.now, before=context.base, origins=origins(context))
    # With a base, what was built before and has not changed since need not be built again.
    needed = changed or (context.base is None and is_strict(context))
    return _Built(
        diagnostics=diagnostics,
        troubles=tuple(t for t in checked.troubles if t[1].trouble is not Trouble.TOOL_MISSING),
        notes=notes,
        unbuilt=lacking if lacking.absent and needed else None,
    )


def _base_backend(context: Context, now: Declaration, backend: Backend) -> BackendScript:
    """Where the backend of the base is; mostly where that of the tree under test is."""
    if context.base is None:
        return backend
    before = Declaration.of(context.base, context.project)
    recipes = [recipe_of(declaration, context.interpreter) for declaration in (now, before)]
    if recipes[0] == recipes[1] and now.backend == before.backend:
        return backend
    return (yield from find_backend(context, before))


def _unproven(context: Context, end: ProjectRung, built: _Built) -> ProjectRung:
    """A pass is none where something it stands on changed and could not be built again."""
    stale = stale_native_sources(context, Declaration.of(context.now, context.project))
    if stale:
        return replace(
            end,
            state=RungState.INCONCLUSIVE,
            reason="native_sources_changed",
            summary=f"{stale[0]} changed and its extension was not built again; {end.summary}",
            next="build the extension modules in place, then verify again",
        )
    if built.unbuilt is not None:
        return replace(
            end,
            state=RungState.INCONCLUSIVE,
            reason="backend_unavailable",
            next=built.unbuilt.next,
            log_ref=built.unbuilt.log_ref or end.log_ref,
        )
    return end
