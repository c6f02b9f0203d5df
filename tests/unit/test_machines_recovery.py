"""What a killed engine left open: every task gets its ending, every run its verdict."""

from __future__ import annotations

from glideslope.machines.recovery import CAUSE, end_of_run, end_of_task
from glideslope.model.event import AgentEnvironmentTaskChanged, AgentEnvironmentTaskDied, HostDied
from glideslope.model.ids import RunId, Scope, TaskId
from glideslope.model.result import RungResult, RungState, Verdict
from glideslope.model.run import Run
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.task import TaskState

OPEN = Run(
    id=RunId("r1"),
    action="verify",
    epoch=None,
    scope=Scope("/here"),
    policy=VerifyPolicy.STANDARD,
    sandbox_profile="agent_ephemeral",
    isolation=None,
    snapshot=None,
    tree_id=None,
    git_head=None,
    inputs_digest=None,
    environment_key=None,
    dirty_paths=(),
    base_snapshot=None,
    base_reason=BaseReason.NONE,
    changed_paths=(),
    verdict=None,
    stale=None,
    cancelled=None,
    required_rung=None,
    max_rung_reached=None,
    rungs=(
        RungResult(rung=Rung.DIAGNOSE, state=RungState.PASS, duration_ms=5),
        RungResult(rung=Rung.COMPILE, state=RungState.RUNNING),
        RungResult(rung=Rung.BUILD, state=RungState.PENDING),
    ),
    time=None,
    started_at="then",
    ended_at=None,
)


def test_a_task_that_was_open_died_and_keeps_who_and_what_it_was() -> None:
    last = AgentEnvironmentTaskChanged(
        task_id=TaskId("t1"),
        run_id=RunId("r1"),
        kind="pytest.run",
        rung=Rung.SCOPED,
        state=TaskState.RUNNING,
    )
    died = end_of_task(last)
    assert isinstance(died, AgentEnvironmentTaskDied)
    assert (died.task_id, died.run_id, died.kind, died.rung, died.cause) == (
        "t1",
        "r1",
        "pytest.run",
        Rung.SCOPED,
        CAUSE,
    )


def test_what_is_no_news_of_an_open_task_needs_no_ending() -> None:
    assert end_of_task(HostDied(host_kind="launcher", pid=1)) is None


def test_a_run_that_was_open_died_and_what_had_ended_keeps_its_result() -> None:
    ended = end_of_run(OPEN, ended_at="now")
    assert (ended.verdict, ended.run.verdict, ended.run.ended_at) == (Verdict.DIED, Verdict.DIED, "now")
    assert [result.state for result in ended.run.rungs] == [
        RungState.PASS,
        RungState.DIED,
        RungState.PENDING,
    ]
    assert ended.max_rung_reached is ended.run.max_rung_reached is Rung.DIAGNOSE
