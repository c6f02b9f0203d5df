"""Read models: what surfaces show, folded from recorded events and from nothing else.

Every surface folds the same events with the same function, so they cannot disagree. A run that has
completed is frozen: later news about its rungs changes nothing, only whether it still speaks of the
workspace. Folding an event twice is folding it once, so a subscriber may resume anywhere.

The text of the Verify Epoch block is in `card`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    AgentRunPhaseChanged,
    AgentRunStarted,
    AgentVerifyEpochCurrent,
    AgentVerifyEpochStale,
    AgentVerifyRungChanged,
    Event,
    Recorded,
)
from glideslope.model.ids import EnvironmentKey, RunId, Scope, SnapshotId, TaskId
from glideslope.model.result import RungResult, Verdict
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung
from glideslope.model.task import TaskState
from glideslope.model.timeslice import Phase

KEPT_RUNS = 200

# Verdicts that say something about the content; the others say what happened to the run.
_SPEAKS = frozenset({Verdict.GREEN, Verdict.RED, Verdict.REFUSED, Verdict.INCONCLUSIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRun:
    """A run as the events tell it."""

    run: Run
    phase: Phase | None = None
    staleness: Staleness | None = None  # as last announced; None: still speaks of the workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTask:
    """A task that waits or runs."""

    id: TaskId
    run: RunId | None
    kind: str
    rung: Rung | None
    state: TaskState
    message: str = ""
    progress: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything folded so far."""

    seq: int = 0  # of the newest event folded
    runs: Mapping[RunId, SeenRun] = field(default_factory=lambda: MappingProxyType({}))  # oldest first
    tasks: Mapping[TaskId, SeenTask] = field(default_factory=lambda: MappingProxyType({}))  # oldest first

    def active(self, scope: Scope | None = None) -> tuple[SeenRun, ...]:
        """Runs that go on, oldest first; of every scope, or of one."""
        return tuple(seen for seen in self.runs.values() if seen.run.verdict is None and _in(seen, scope))

    def last(self, scope: Scope | None = None) -> SeenRun | None:
        """The newest run, ended or not; of any scope, or of one."""
        return next((seen for seen in reversed(tuple(self.runs.values())) if _in(seen, scope)), None)


def _in(seen: SeenRun, scope: Scope | None) -> bool:
    return scope is None or seen.run.scope == scope


def fold(view: View, recorded: Recorded) -> View:
    """Adds one event to what is known; one that was folded before changes nothing."""
    if recorded.seq <= view.seq:
        return view
    return replace(_folded(view, recorded.event), seq=recorded.seq)


def _folded(view: View, event: Event) -> View:
    match event:
        case AgentRunStarted():
            return _with_run(view, SeenRun(run=event.run))
        case AgentEnvironmentTaskChanged():
            return _with_task(view, event)
        case AgentEnvironmentTaskCompleted() | AgentEnvironmentTaskDied():
            left = {task: seen for task, seen in view.tasks.items() if task != event.task_id}
            return replace(view, tasks=MappingProxyType(left))
        case (
            AgentRunPhaseChanged()
            | AgentVerifyRungChanged()
            | AgentVerifyEpochStale()
            | AgentVerifyEpochCurrent()
            | AgentRunCompleted()
        ):
            known = view.runs.get(event.run_id)
            return view if known is None else _with_run(view, _told(known, event))
        case _:  # a helper process died: nothing here shows it
            return view


def _told(
    seen: SeenRun,
    event: AgentRunPhaseChanged
    | AgentVerifyRungChanged
    | AgentVerifyEpochStale
    | AgentVerifyEpochCurrent
    | AgentRunCompleted,
) -> SeenRun:
    """A known run, told one more thing."""
    going_on = seen.run.verdict is None
    match event:
        case AgentVerifyEpochStale():
            return replace(seen, staleness=Staleness(reason=event.reason, paths=event.paths))
        case AgentVerifyEpochCurrent():
            return replace(seen, staleness=None)
        case AgentRunPhaseChanged() if going_on:
            return replace(seen, phase=event.phase)
        case AgentVerifyRungChanged() if going_on:
            return replace(seen, run=replace(seen.run, rungs=with_rung(seen.run.rungs, event.result)))
        case AgentRunCompleted() if going_on:
            return replace(seen, run=event.run, phase=None)
        case _:
            return seen


def with_rung(rungs: Iterable[RungResult], result: RungResult) -> tuple[RungResult, ...]:
    """Puts a rung's result in its place, cheapest first; what was known of the rung is replaced."""
    others = [known for known in rungs if known.rung is not result.rung]
    return tuple(sorted([*others, result], key=lambda known: known.rung.height))


def _with_run(view: View, seen: SeenRun) -> View:
    """Puts a run in its place; of the ended ones only the newest are kept."""
    runs = {**view.runs, seen.run.id: seen}
    surplus = len(runs) - KEPT_RUNS
    ended = [run for run, kept in runs.items() if kept.run.verdict is not None] if surplus > 0 else []
    for run in ended[: max(0, surplus)]:
        del runs[run]
    return replace(view, runs=MappingProxyType(runs))


def _with_task(view: View, event: AgentEnvironmentTaskChanged) -> View:
    seen = SeenTask(
        id=event.task_id,
        run=event.run_id,
        kind=event.kind,
        rung=event.rung,
        state=event.state,
        message=event.message,
        progress=event.progress,
    )
    return replace(view, tasks=MappingProxyType({**view.tasks, seen.id: seen}))


def is_green(
    runs: Iterable[Run],
    snapshot: SnapshotId,
    environment_key: EnvironmentKey | None,
    *,
    at_least: Rung = Rung.DIAGNOSE,
) -> bool:
    """Whether this very content is proved: the only way to ask.

    The newest verify that said anything about this content decides. Runs that were cancelled, died
    or went stale said nothing.

    Args:
        runs: Newest first.
        snapshot: What the workspace holds now.
        environment_key: What tools would run on now.
        at_least: How high the proof must have climbed.
    """
    spoke = next((run for run in runs if _is_about(run, snapshot, environment_key)), None)
    if spoke is None or spoke.verdict is not Verdict.GREEN or spoke.max_rung_reached is None:
        return False
    return spoke.max_rung_reached.height >= at_least.height


def _is_about(run: Run, snapshot: SnapshotId, environment_key: EnvironmentKey | None) -> bool:
    same = (run.snapshot, run.environment_key) == (snapshot, environment_key)
    return same and run.action == "verify" and run.verdict in _SPEAKS
