"""Imports of our own modules: do they still lead anywhere, and do they run in circles?"""

from __future__ import annotations

from glideslope.model.result import Diagnostic
from glideslope.ports.toolchain import Context
from glideslope.toolchains.python.absent import CARRY_HINT
from glideslope.toolchains.python.change import considered, origins, touched_sources, vanished_sources
from glideslope.toolchains.python.cycle import new_cycles
from glideslope.toolchains.python.findings import Found, judge
from glideslope.toolchains.python.graph import ImportGraph, Missing
from glideslope.toolchains.python.module import Memo


def import_findings(context: Context, graph: ImportGraph, memo: Memo) -> tuple[Diagnostic, ...]:
    """Imports of our own modules that fail, told new from known, and cycles that are new.

    Only what the change can have broken is looked at: the changed files, and whoever imports a
    module that vanished.
    """
    moved = origins(context)
    touched = touched_sources(context)
    gone = () if context.only_paths else vanished_sources(considered(context))
    suspects = tuple(sorted({*touched, *graph.importers(gone)}))
    found = [_missing(missing) for missing in graph.missing(suspects)]
    base: ImportGraph | None = None
    known: tuple[Found, ...] | None = None
    if context.base is not None:
        base = ImportGraph.of(context.base, context.projects, memo)
        known = tuple(_missing(entry) for entry in base.missing(moved.get(path, path) for path in suspects))
    found += new_cycles(graph, base, touched, moved)
    return judge(found, known, now=context.now, before=context.base, origins=moved)


def _missing(missing: Missing) -> Found:
    return Found(
        path=missing.path,
        line=missing.imported.line,
        column=missing.imported.column,
        code="unresolved_import",
        source="imports",
        message=f"module {missing.module} is not there{CARRY_HINT}",
        gates=True,
    )
