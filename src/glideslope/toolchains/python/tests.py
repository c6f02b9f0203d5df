"""The scripts of the two test rungs.

Theory of operation. `test.full` runs pytest once, as the project's own CI would. `test.scoped`
runs the selected files: pytest is started as always, and a plugin object keeps everything else
from being collected, so what runs is what plain pytest would run of those files; options that end
a run early, repeat or shuffle are switched off and named. What fails is run again on the base, to
tell new failures from known ones; then the outcomes are put together.
"""

from __future__ import annotations

from dataclasses import replace

from glideslope.model.paths import RepoPath
from glideslope.model.result import RungState, Selection, TestCounts
from glideslope.ports.toolchain import Context, ProjectRung, Script
from glideslope.toolchains.python.comparison import Ran, on_base
from glideslope.toolchains.python.endings import progress
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.outcome import (
    FULL,
    Outcome,
    count_files,
    covers,
    digest,
    how_to_name,
    without_root,
)
from glideslope.toolchains.python.runs import (
    neutral_options,
    pytest_command,
    selection_commands,
    unable,
    unittest_command,
)
from glideslope.toolchains.python.selection import Selected, select, units_of
from glideslope.toolchains.python.units import PytestConfig, read_config

__all__ = ["FULL", "Selected", "covers", "full", "progress", "scoped", "select"]


def scoped(context: Context, memo: Memo) -> Script:
    """Runs the test files that the change reaches, or the tests that were named.

    Args:
        context: What to verify.
        memo: Facts of source files, kept between runs.

    Returns:
        The script.
    """
    config = read_config(context.now, context.project)
    if context.nodeids:
        return (yield from _explicit(context, config))
    graph = ImportGraph.of(context.now, context.projects, memo, context.base)
    chosen = select(context, graph)
    cannot = unable(context, chosen.selected or chosen.units)
    if cannot is not None:
        return cannot
    if not chosen.selected:
        return _nothing(context, chosen)
    outputs = yield selection_commands(context, config, chosen, count_files)
    ran = tuple(Ran.of(output) for output in outputs)
    before = yield from on_base(context, config, ran)
    return Outcome(context, config, ran, before).rung(chosen, Selection.STATIC)


def full(context: Context, memo: Memo) -> Script:
    """Runs all tests in one invocation, as the project's own CI would.

    Args:
        context: What to verify.
        memo: Not used; all scripts have one shape.

    Returns:
        The script.
    """
    config = read_config(context.now, context.project)
    units = units_of(context, config)
    cannot = unable(context, units)
    if cannot is not None:
        return cannot
    if context.interpreter.has("pytest"):
        command = pytest_command(context, ())
    elif units:
        command = unittest_command(context, units)
    else:
        return _nothing(context, Selected(selected=(), units=()))
    outputs = yield (replace(command, label="all tests"),)
    ran = (Ran.of(outputs[0]),)
    before = yield from on_base(context, config, ran)
    return Outcome(context, config, ran, before).rung(Selected(selected=units, units=units), Selection.FULL)


def _explicit(context: Context, config: PytestConfig) -> Script:
    """Runs the tests that were named; those of other projects are left to them."""
    prefix = f"{context.project.root}/" if context.project.root else ""
    own = [nodeid for nodeid in context.nodeids if context.project.holds(nodeid.split("::")[0])]
    nodeids = tuple(nodeid.removeprefix(prefix) for nodeid in own or context.nodeids)
    files = tuple(sorted({RepoPath(prefix + nodeid.split("::")[0]) for nodeid in nodeids}))
    cannot = unable(context, files)
    if cannot is not None:
        return cannot
    if context.interpreter.has("pytest"):
        command = pytest_command(context, (*neutral_options(context, config), *nodeids), steady=True)
    else:
        command = unittest_command(context, (), names=nodeids)
    outputs = yield (
        replace(command, label=f"{len(nodeids)} chosen {'test' if len(nodeids) == 1 else 'tests'}"),
    )
    ran = (Ran.of(outputs[0]),)
    if ran[0].ending.reason == "not_found":
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="unknown_test",
            summary=without_root(context, ran[0].ending.text),
            next=how_to_name(context, files),
        )
    before = yield from on_base(context, config, ran)
    chosen = Selected(selected=files, units=units_of(context, config))
    rung = Outcome(context, config, ran, before).rung(chosen, Selection.EXPLICIT)
    return replace(rung, covered=digest(("explicit", *sorted(nodeids))))


def _nothing(context: Context, chosen: Selected) -> ProjectRung:
    """No test file is reached: never a pass."""
    if not chosen.units:
        return ProjectRung(
            state=RungState.INCONCLUSIVE,
            reason="no_tests",
            summary=f"project {context.project.name} has no tests",
            tests=TestCounts(selected=0, units=0, total=0),
        )
    return ProjectRung(
        state=RungState.INCONCLUSIVE,
        reason="no_covering_test",
        summary=f"none of {count_files(len(chosen.units))} is reached by the change",
        tests=TestCounts(selected=0, units=len(chosen.units)),
        covered=digest(()),
        next="glideslope verify ci_parity",
    )
