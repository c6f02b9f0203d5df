"""Python as a toolchain: which script climbs which rung."""

from __future__ import annotations

from dataclasses import replace

from glideslope.model.paths import is_beneath
from glideslope.model.project import Project, nearest_project
from glideslope.model.result import RungState
from glideslope.model.rung import Rung
from glideslope.model.task import TaskResult, TaskState
from glideslope.ports.toolchain import ChangeFacts, Command, Context, Output, Script, Tree
from glideslope.toolchains.python import backend, tests
from glideslope.toolchains.python.build import build_affected
from glideslope.toolchains.python.checks import is_strict, stderr_tail
from glideslope.toolchains.python.compile import compile_project
from glideslope.toolchains.python.detect import find_projects
from glideslope.toolchains.python.diagnose import diagnose
from glideslope.toolchains.python.endings import read_ending, read_session
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.neutral import is_neutral

SELECTOR = "python-2"
"""Raised whenever a pass comes to mean something else."""

_TESTS = frozenset(["pytest.run", "unittest.run"])
_STATES = {
    RungState.PASS: TaskState.COMPLETED,
    RungState.SKIPPED: TaskState.COMPLETED,
    RungState.INCONCLUSIVE: TaskState.COMPLETED,
    RungState.CANCELLED: TaskState.CANCELLED,
    RungState.DIED: TaskState.DIED,
}


class PythonToolchain:
    """The toolchain of Python projects. Keeps facts of source files between runs."""

    def __init__(self) -> None:
        self._memo = Memo()

    @property
    def name(self) -> str:
        """The language."""
        return "python"

    @property
    def selector(self) -> str:
        """Version of everything that decides what a pass means."""
        return SELECTOR

    def projects(self, tree: Tree) -> tuple[Project, ...]:
        """The Python projects of a workspace, outermost first; empty where there is no Python."""
        return find_projects(tree)

    def facts(self, context: Context) -> ChangeFacts:
        """Whether the change of a project is one of code, and which tests it reaches."""
        changes = tuple(
            change
            for change in context.changes
            if nearest_project(context.projects, change.path) == context.project
            and (not context.only_paths or any(is_beneath(change.path, path) for path in context.only_paths))
        )
        chosen = tests.select(context, self._graph(context))
        return ChangeFacts(
            reached_by_tests=bool(chosen.selected),
            neutral=bool(changes) and is_neutral(changes, context.base, context.now),
            units=len(chosen.units),
            selected=chosen.selected,
            why=chosen.why,
        )

    def script(self, rung: Rung, context: Context) -> Script:
        """The script of one rung for one project."""
        match rung:
            case Rung.DIAGNOSE:
                return self._static(rung, context, diagnose(context, self._memo))
            case Rung.COMPILE:
                return self._static(rung, context, compile_project(context, self._memo))
            case Rung.BUILD:
                return self._static(rung, context, build_affected(context, self._memo))
            case Rung.SCOPED:
                return tests.scoped(context, self._memo)
            case Rung.FULL:
                return tests.full(context, self._memo)

    def covers(self, rung: Rung, context: Context) -> str:
        """What a pass of the rung would cover.

        A static rung covers more where the policy accepts no stand-in for a tool.
        """
        if rung is Rung.SCOPED:
            return tests.covers(tests.select(context, self._graph(context)))
        return tests.FULL if rung is Rung.FULL or is_strict(context) else ""

    def ending(self, output: Output) -> TaskResult:
        """How a command ended as a task, and in short why."""
        state, reason, text = _ending(output)
        return TaskResult(
            state=state,
            summary=text,
            reason=reason,
            exit_code=output.code,
            log_ref=output.log_ref,
            stderr_tail=stderr_tail(output) if state is TaskState.DIED else "",
        )

    def progress(self, command: Command, line: bytes) -> str | None:
        """A sentence about a report line of a test run or of a filling, or None."""
        if command.kind == backend.KIND:
            return backend.progress(line)
        return tests.progress(line) if command.kind in _TESTS else None

    def _graph(self, context: Context) -> ImportGraph:
        return ImportGraph.of(context.now, context.projects, self._memo, context.base)

    def _static(self, rung: Rung, context: Context, script: Script) -> Script:
        end = yield from script
        return replace(end, covered=self.covers(rung, context))


def _ending(output: Output) -> tuple[TaskState, str, str]:
    """State, reason and a sentence."""
    if output.outcome == "timed_out":
        return TaskState.TIMED_OUT, "timed_out", f"over its {output.limit or 'time'} limit"
    if output.command.kind in _TESTS:
        ending = read_ending(output, read_session(output.report))
        return _STATES.get(ending.state, TaskState.FAILED), ending.reason, ending.text
    if output.outcome == "cancelled":
        return TaskState.CANCELLED, "cancelled", ""
    if output.outcome != "exited":
        signal = f"signal {output.signal}" if output.signal else output.outcome
        return TaskState.DIED, output.outcome, output.detail or signal
    return (TaskState.FAILED if output.code else TaskState.COMPLETED), "", f"exit code {output.code}"
