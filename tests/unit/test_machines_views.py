"""Read models: folded from events alone, the same however often an event is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glideslope.machines.views import KEPT_RUNS, View, fold, is_green
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
    HostDied,
    Recorded,
)
from glideslope.model.ids import EnvironmentKey, RunId, Scope, SnapshotId, TaskId
from glideslope.model.result import RungResult, RungState, StaleReason, Verdict
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.task import TaskState
from glideslope.model.timeslice import Phase

S, KEY, HERE, THERE = SnapshotId("s1-a"), EnvironmentKey("py"), Scope("/here"), Scope("/there")


def a_run(name: str = "r1", **changed: Any) -> Run:
    run = Run(
        id=RunId(name),
        action="verify",
        epoch=None,
        scope=HERE,
        policy=VerifyPolicy.STANDARD,
        sandbox_profile="agent_ephemeral",
        isolation="snapshot",
        snapshot=S,
        tree_id=None,
        git_head=None,
        inputs_digest=None,
        environment_key=KEY,
        dirty_paths=(),
        base_snapshot=None,
        base_reason=BaseReason.NONE,
        changed_paths=(),
        verdict=None,
        stale=None,
        cancelled=None,
        required_rung=None,
        max_rung_reached=None,
        rungs=(),
        time=None,
        started_at="",
        ended_at=None,
    )
    return replace(run, **changed)


def folded(*events: Event, start: View | None = None) -> View:
    view = start or View()
    for event in events:
        view = fold(view, Recorded(seq=view.seq + 1, at="", event=event))
    return view


def started(run: Run) -> AgentRunStarted:
    return AgentRunStarted(run_id=run.id, run=run)


def completed(run: Run, verdict: Verdict = Verdict.GREEN) -> AgentRunCompleted:
    ended = replace(run, verdict=verdict)
    return AgentRunCompleted(run_id=run.id, verdict=verdict, max_rung_reached=None, run=ended)


def rung(rung: Rung, state: RungState, name: str = "r1") -> AgentVerifyRungChanged:
    return AgentVerifyRungChanged(run_id=RunId(name), result=RungResult(rung=rung, state=state))


def states(view: View) -> list[tuple[Rung, RungState]]:
    return [(result.rung, result.state) for result in view.runs[RunId("r1")].run.rungs]


def test_rungs_appear_in_ladder_order_and_the_newest_word_about_each_counts() -> None:
    view = folded(
        started(a_run()),
        rung(Rung.COMPILE, RungState.RUNNING),
        rung(Rung.DIAGNOSE, RungState.PASS),
        rung(Rung.COMPILE, RungState.FAIL),
    )
    assert states(view) == [(Rung.DIAGNOSE, RungState.PASS), (Rung.COMPILE, RungState.FAIL)]


def test_a_completed_run_is_what_its_last_event_carries_and_later_rungs_and_phases_change_nothing() -> None:
    run = a_run()
    view = folded(started(run), AgentRunPhaseChanged(run_id=run.id, phase=Phase.ENVIRONMENT))
    assert view.runs[run.id].phase is Phase.ENVIRONMENT
    view = folded(completed(run), start=view)
    frozen = view.runs[run.id]
    assert (frozen.run.verdict, frozen.phase) == (Verdict.GREEN, None)
    late = (
        rung(Rung.COMPILE, RungState.FAIL),
        AgentRunPhaseChanged(run_id=run.id, phase=Phase.BLOCKED),
        completed(run, Verdict.RED),
    )
    assert folded(*late, start=view).runs == view.runs


def test_going_stale_and_coming_back_never_touch_the_verdict() -> None:
    run = a_run()
    stale = AgentVerifyEpochStale(
        run_id=run.id, verify_snapshot_id=S, reason=StaleReason.WRITE_IN_EPOCH, paths=("a",)
    )
    view = folded(started(run), completed(run), stale)
    assert view.runs[run.id].staleness == Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=("a",))
    assert view.runs[run.id].run.verdict is Verdict.GREEN
    view = folded(AgentVerifyEpochCurrent(run_id=run.id, verify_snapshot_id=S), start=view)
    assert view.runs[run.id].staleness is None


def test_active_and_last_run_are_told_apart_by_scope() -> None:
    here, there = a_run("r1"), a_run("r2", scope=THERE)
    view = folded(started(here), started(there))
    assert [seen.run.id for seen in view.active()] == ["r1", "r2"]
    assert [seen.run.id for seen in view.active(THERE)] == ["r2"]
    view = folded(completed(there), start=view)
    assert [seen.run.id for seen in view.active()] == ["r1"]
    for scope, expected in ((None, "r2"), (HERE, "r1"), (THERE, "r2")):
        last = view.last(scope)
        assert last is not None
        assert last.run.id == expected
    assert View().last() is None


def test_a_task_is_in_the_queue_from_its_first_event_to_its_ending() -> None:
    def changed(task: str, state: TaskState) -> AgentEnvironmentTaskChanged:
        return AgentEnvironmentTaskChanged(
            task_id=TaskId(task), run_id=None, kind="k", rung=None, state=state, message="m", progress=0.5
        )

    view = folded(
        changed("t1", TaskState.QUEUED), changed("t2", TaskState.QUEUED), changed("t1", TaskState.RUNNING)
    )
    assert [(seen.id, seen.state, seen.progress) for seen in view.tasks.values()] == [
        ("t1", TaskState.RUNNING, 0.5),
        ("t2", TaskState.QUEUED, 0.5),
    ]
    done = AgentEnvironmentTaskCompleted(
        task_id=TaskId("t1"),
        run_id=None,
        kind="k",
        rung=None,
        state=TaskState.COMPLETED,
        result_summary="",
        duration_ms=1,
    )
    died = AgentEnvironmentTaskDied(task_id=TaskId("t2"), run_id=None, kind="k", rung=None, host_kind="h")
    assert list(folded(done, start=view).tasks) == ["t2"]
    assert not folded(done, died, start=view).tasks


def test_an_event_seen_twice_counts_once_and_news_of_unknown_runs_is_ignored() -> None:
    view = folded(started(a_run()))
    again = Recorded(seq=1, at="", event=completed(a_run()))
    assert fold(view, again) == view
    unheard = folded(rung(Rung.DIAGNOSE, RungState.PASS, "r9"), HostDied(host_kind="k", pid=1), start=view)
    assert unheard.runs == view.runs
    assert unheard.seq == 3


def test_only_the_newest_runs_are_kept_and_no_active_one_is_forgotten() -> None:
    events: list[Event] = [started(a_run("active"))]
    for number in range(KEPT_RUNS + 5):
        events += [started(a_run(f"r{number}")), completed(a_run(f"r{number}"))]
    view = folded(*events)
    assert len(view.runs) == KEPT_RUNS
    assert "active" in view.runs
    assert "r5" not in view.runs
    assert f"r{KEPT_RUNS + 4}" in view.runs


PROVED = a_run(verdict=Verdict.GREEN, max_rung_reached=Rung.BUILD)
REFUTED = a_run(verdict=Verdict.RED, max_rung_reached=Rung.SCOPED)


@pytest.mark.parametrize(
    ("runs", "green"),
    [
        ([], False),
        ([PROVED], True),
        ([REFUTED, PROVED], False),
        ([PROVED, REFUTED], True),
        ([replace(PROVED, verdict=Verdict.CANCELLED), PROVED], True),
        ([replace(PROVED, verdict=Verdict.STALE), PROVED], True),
        ([replace(PROVED, verdict=Verdict.DIED), PROVED], True),
        ([replace(PROVED, verdict=None), PROVED], True),
        ([replace(PROVED, verdict=Verdict.INCONCLUSIVE), PROVED], False),
        ([replace(PROVED, snapshot=SnapshotId("s1-b"))], False),
        ([replace(PROVED, environment_key=EnvironmentKey("other"))], False),
        ([replace(PROVED, action="diagnose")], False),
        ([replace(PROVED, max_rung_reached=None)], False),
    ],
)
def test_content_is_green_when_the_newest_verify_that_spoke_about_it_said_so(
    runs: list[Run], green: bool
) -> None:
    assert is_green(runs, S, KEY) is green


def test_a_proof_is_asked_for_up_to_a_rung() -> None:
    assert is_green([PROVED], S, KEY, at_least=Rung.BUILD)
    assert not is_green([PROVED], S, KEY, at_least=Rung.SCOPED)
