"""From an action to a verdict, on a real repository and in a real sandbox."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from glideslope.engine.actions import Cancel, Cancelled, GetStatus, Last, Started, Status, Test
from glideslope.errors import ProfileRefused
from glideslope.model.event import AgentRunCompleted, AgentVerifyEpochCurrent, AgentVerifyEpochStale
from glideslope.model.result import RungState, StaleReason, Verdict
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile
from glideslope.model.snapshot import BaseReason
from glideslope.testing.rig import Rig, git, open_rig

pytestmark = pytest.mark.process


async def test_a_verify_of_a_clean_tree_is_green_and_names_its_snapshot(rig: Rig) -> None:
    run = await rig.verify(policy=VerifyPolicy.STANDARD)
    assert run.verdict is Verdict.GREEN
    assert run.snapshot is not None and run.snapshot.startswith("s1-")
    assert [(one.rung, one.state) for one in run.rungs] == [
        (Rung.DIAGNOSE, RungState.PASS),
        (Rung.COMPILE, RungState.PASS),
        (Rung.BUILD, RungState.PASS),
    ]
    assert run.base_reason is BaseReason.NONE
    assert run.time is not None and run.time.environment_ms <= 3 * run.time.wall_ms


async def test_the_sandbox_holds_the_snapshot_at_the_path_of_the_project(rig: Rig) -> None:
    (rig.repo / "value.py").write_text("VALUE = 2\n")
    rig.toolchain.code = (
        f"import os, value; assert os.getcwd() == {str(rig.repo)!r}; print(value.VALUE, end='');"
        f"assert not os.path.exists({str(rig.state / 'journal.sqlite3')!r})"
    )
    run = await rig.verify(policy=VerifyPolicy.MINIMAL)
    assert (run.verdict, run.rungs[0].summary) == (Verdict.GREEN, "2"), run.rungs


async def test_a_failing_rung_ends_the_climb(rig: Rig) -> None:
    rig.toolchain.code = "raise SystemExit(1)"
    run = await rig.verify(policy=VerifyPolicy.STANDARD)
    assert run.verdict is Verdict.RED
    assert [one.state for one in run.rungs] == [RungState.FAIL, RungState.PENDING, RungState.PENDING]
    assert run.max_rung_reached is Rung.DIAGNOSE


async def test_a_commit_does_not_hide_a_change_from_the_next_verify(rig: Rig) -> None:
    await rig.verify(policy=VerifyPolicy.STANDARD)
    (rig.repo / "value.py").write_text("VALUE = 3\n")
    git(rig.repo, "commit", "-qam", "second")
    run = await rig.verify(policy=VerifyPolicy.STANDARD)
    assert run.base_reason is BaseReason.LAST_GREEN
    assert run.changed_paths == ("value.py",)
    assert run.dirty_paths == ()


async def test_equal_content_is_answered_from_the_run_that_proved_it(rig: Rig) -> None:
    first = await rig.verify(policy=VerifyPolicy.STANDARD)
    again = await rig.verify(policy=VerifyPolicy.STANDARD)
    assert [one.cached_from for one in again.rungs] == [first.id] * 3
    fresh = await rig.verify(policy=VerifyPolicy.STANDARD, no_cache=True)
    assert [one.cached_from for one in fresh.rungs] == [None] * 3


async def test_a_write_during_a_run_makes_it_stale_and_the_run_ends_at_once(rig: Rig) -> None:
    rig.toolchain.code = "import time; time.sleep(60)"
    started = await rig.start(policy=VerifyPolicy.STANDARD)
    await running(rig)
    (rig.repo / "value.py").write_text("VALUE = 4\n")
    run = await rig.wait(started)
    assert run.verdict is Verdict.STALE
    assert run.stale is not None and run.stale.reason is StaleReason.WRITE_IN_EPOCH
    assert run.stale.paths == ("value.py",)
    assert run.rungs[0].state is RungState.CANCELLED


async def test_a_write_after_the_end_is_announced_and_so_is_its_undoing(rig: Rig) -> None:
    run = await rig.verify(policy=VerifyPolicy.MINIMAL)
    (rig.repo / "value.py").write_text("VALUE = 5\n")
    await heard(rig, AgentVerifyEpochStale, 1)
    view = await rig.engine.act(Last(caller=rig.caller()))
    assert (view.run.verdict, view.current) == (Verdict.GREEN, False)  # type: ignore[union-attr]
    (rig.repo / "value.py").write_text("VALUE = 1\n")
    await heard(rig, AgentVerifyEpochCurrent, 1)
    view = await rig.engine.act(Last(caller=rig.caller()))
    assert (view.run.id, view.current) == (run.id, True)  # type: ignore[union-attr]


async def test_a_new_interpreter_makes_an_old_green_stale(rig: Rig) -> None:
    await rig.verify(policy=VerifyPolicy.MINIMAL)
    rig.interpreters.key = "e2"
    view = await rig.engine.act(Last(caller=rig.caller()))
    assert view.current is False  # type: ignore[union-attr]


async def test_the_same_question_joins_and_another_supersedes(rig: Rig) -> None:
    rig.toolchain.code = "import time; time.sleep(60)"
    first = await rig.start(policy=VerifyPolicy.STANDARD)
    joined = await rig.start(policy=VerifyPolicy.STANDARD)
    assert (joined.run_id, joined.joined) == (first.run_id, True)
    await running(rig)
    rig.toolchain.code = "pass"
    other = await rig.verify(policy=VerifyPolicy.MINIMAL)
    assert other.verdict is Verdict.GREEN
    superseded = await rig.wait(first)
    assert superseded.verdict is Verdict.STALE
    assert superseded.stale is not None and superseded.stale.reason is StaleReason.SUPERSEDED
    completed = [one.event for one in rig.events() if isinstance(one.event, AgentRunCompleted)]
    assert [event.run_id for event in completed] == [first.run_id, other.id]


async def test_cancel_returns_when_the_processes_are_gone(rig: Rig) -> None:
    rig.toolchain.code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n"
        "time.sleep(60)"
    )
    started = await rig.start(policy=VerifyPolicy.STANDARD)
    await running(rig)
    answer = await rig.engine.act(Cancel(caller=rig.caller()))
    assert isinstance(answer, Cancelled) and answer.cancelled == (started.run_id,) and answer.survivors == 0
    run = await rig.wait(started)
    assert run.verdict is Verdict.CANCELLED
    assert not rig.engine.busy


async def test_a_limit_on_the_whole_run_cancels_it_by_timeout(rig: Rig) -> None:
    rig.toolchain.code = "import time; time.sleep(60)"
    run = await rig.verify(policy=VerifyPolicy.STANDARD, timeout_s=0.3)
    assert (run.verdict, run.cancelled) == (Verdict.CANCELLED, "timeout")


async def test_a_killed_command_is_a_death_not_a_failure(rig: Rig) -> None:
    rig.toolchain.code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    run = await rig.verify(policy=VerifyPolicy.STANDARD)
    assert (run.verdict, run.rungs[0].state) == (Verdict.DIED, RungState.DIED)


async def test_status_tells_what_is_active_and_what_is_current(rig: Rig) -> None:
    run = await rig.verify(policy=VerifyPolicy.MINIMAL)
    status = await rig.engine.act(GetStatus(caller=rig.caller()))
    assert (status.last_run_id, status.current, status.active) == (run.id, True, ())  # type: ignore[union-attr]
    assert status.verify_snapshot_id == run.snapshot  # type: ignore[union-attr]


async def running(rig: Rig) -> None:
    """Waits until a task runs."""
    async with asyncio.timeout(20):
        while not any(
            task.state == "running" for task in (await rig.engine.act(GetStatus(caller=rig.caller()))).queue
        ):  # type: ignore[union-attr]
            await asyncio.sleep(0.02)


async def heard(rig: Rig, kind: type, times: int) -> None:
    """Waits until events of a kind were journaled."""
    async with asyncio.timeout(20):
        while sum(isinstance(one.event, kind) for one in rig.events()) < times:
            await asyncio.sleep(0.02)


async def test_a_call_can_tighten_the_profile_and_never_loosen_it(rig: Rig) -> None:
    with pytest.raises(ProfileRefused, match="wider than agent_ephemeral"):
        await rig.start(policy=VerifyPolicy.MINIMAL, sandbox=SandboxProfile.OPERATOR)
    with pytest.raises(ProfileRefused, match="read_only"):
        await rig.start(policy=VerifyPolicy.MINIMAL, sandbox=SandboxProfile.READ_ONLY)
    assert rig.events() == []


async def test_the_first_verify_of_an_edited_main_compares_with_head_what_only_reads_code(rig: Rig) -> None:
    (rig.repo / "value.py").write_text("VALUE = 9\n")
    rig.toolchain.reached = True
    run = await rig.verify(policy=VerifyPolicy.STANDARD)
    bases = {rung: context.base for rung, context in rig.toolchain.contexts}
    assert bases[Rung.DIAGNOSE] is not None and bases[Rung.BUILD] is not None
    assert bases[Rung.SCOPED] is None
    assert run.base_reason is BaseReason.NONE


async def test_content_that_was_shown_green_again_is_the_next_base(rig: Rig) -> None:
    first = await rig.verify(policy=VerifyPolicy.MINIMAL)
    (rig.repo / "value.py").write_text("VALUE = 6\n")
    await rig.verify(policy=VerifyPolicy.MINIMAL)
    (rig.repo / "value.py").write_text("VALUE = 1\n")
    again = await rig.verify(policy=VerifyPolicy.MINIMAL)
    assert again.rungs[0].cached_from == first.id
    (rig.repo / "value.py").write_text("VALUE = 7\n")
    run = await rig.verify(policy=VerifyPolicy.MINIMAL)
    assert run.base_snapshot == first.snapshot


async def test_last_and_status_follow_the_newest_verify_not_a_test_of_chosen_files(rig: Rig) -> None:
    rig.toolchain.code = "raise SystemExit(1)"
    red = await rig.verify(policy=VerifyPolicy.MINIMAL)
    rig.toolchain.code = "pass"
    started = await rig.engine.act(Test(caller=rig.caller(), nodeids=("value.py",)))
    assert isinstance(started, Started)
    assert (await rig.wait(started)).verdict is Verdict.GREEN
    status = await rig.engine.act(GetStatus(caller=rig.caller()))
    assert isinstance(status, Status)
    assert (status.last_run_id, status.last_verdict) == (red.id, "red")


async def test_an_engine_that_was_killed_leaves_a_run_whose_rungs_are_known(
    repo: Path, tmp_path: Path
) -> None:
    async with open_rig(repo, tmp_path / "state") as rig:
        rig.toolchain.code = "import time; time.sleep(60)"
        started = await rig.start(policy=VerifyPolicy.STANDARD)
        await running(rig)
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "state", copy, ignore=shutil.ignore_patterns("trees"))
    async with open_rig(repo, copy) as after:
        run = after.journal.run(started.run_id)
    assert run is not None and run.verdict is Verdict.DIED
    assert [one.state for one in run.rungs] == [RungState.DIED, RungState.PENDING, RungState.PENDING]
