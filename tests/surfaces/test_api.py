"""The Python API over a scripted engine: what it asks, and what it gives back."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import pytest

import glideslope
from glideslope.engine.actions import (
    Action,
    Answer,
    Caller,
    Cancel,
    Cancelled,
    Diagnose,
    ListRuns,
    RunList,
    RunView,
    Test,
    Verify,
    WaitRun,
)
from glideslope.errors import InvalidInput
from glideslope.model.event import Recorded
from glideslope.model.result import Verdict
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile
from glideslope.surfaces.api.backend import InProcessBackend
from glideslope.surfaces.api.environment import Environment
from glideslope.testing.sample import RUN_ID, SNAPSHOT, green_run, red_run
from glideslope.testing.scripted_engine import ScriptedEngine

CALLER = Caller(folder="/home/dev/shop", explicit_folder=True)


class Backend:
    """The scripted engine, asked asynchronously."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    async def act(self, action: Action, *, tied: bool = False) -> Answer:
        return self._engine.session().act(action, tied=tied)

    async def events(self, after: int | None, *, follow: bool) -> AsyncIterator[Recorded]:
        stream = self._engine.read(after or 0, follow, threading.Event())
        while (recorded := await anyio.to_thread.run_sync(lambda: next(stream, None))) is not None:
            yield recorded


@pytest.fixture
def env(engine: ScriptedEngine) -> Environment:
    return Environment(Backend(engine), CALLER)


async def test_a_verify_is_started_followed_and_waited_for(env: Environment, engine: ScriptedEngine) -> None:
    engine.serve_run(red_run())
    views = [
        RunView(run=green_run(verdict=None), current=True),
        RunView(run=red_run(), current=True),
    ]
    engine.replies[WaitRun] = lambda action: views.pop(0)
    handle = await env.verify(policy="standard")
    assert (handle.id, handle.joined) == (RUN_ID, False)
    seen = [event async for event in handle.events()]
    assert seen[0]["type"] == "AgentRunStarted"
    assert seen[-1]["run"]["verdict"] == "red"
    run = await handle.wait()
    assert not views
    assert run.verdict is Verdict.RED
    assert run.rungs[3].tests is not None
    assert run.rungs[3].tests.failing[0].nodeid == "tests/test_cart.py::test_total[a-1]"


async def test_every_argument_reaches_the_engine(env: Environment, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run())
    with pytest.warns(DeprecationWarning, match=r"write test\.full"):
        await env.verify(
            "ci",
            rung="L4",
            base="HEAD~1",
            paths=["b.py", "a.py"],
            project="p",
            sandbox="read_only",
            python="/py",
            timeout_s=2.0,
            no_cache=True,
            tie=True,
        )
    assert engine.asked[0] == (
        Verify(
            caller=CALLER,
            policy=VerifyPolicy.CI_PARITY,
            rung=Rung.FULL,
            base="HEAD~1",
            paths=("a.py", "b.py"),
            project="p",
            sandbox=SandboxProfile.READ_ONLY,
            python="/py",
            timeout_s=2.0,
            no_cache=True,
        ),
        True,
    )
    await env.diagnose(["x.py"])
    await env.test(["t.py::a"], profile="unit")
    assert engine.actions(Diagnose) == [Diagnose(caller=CALLER, paths=("x.py",))]
    assert engine.actions(Test) == [Test(caller=CALLER, nodeids=("t.py::a",), profile="unit")]


async def test_tasks_of_the_operator_get_the_environment(
    env: Environment, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s")
    engine.serve_run(green_run())
    await env.verify(sandbox="operator")
    assert ("SECRET", "s") in engine.actions(Verify)[0].caller.variables


@pytest.mark.parametrize("wrong", [{"policy": "wild"}, {"rung": "top"}, {"sandbox": "none"}])
async def test_a_word_that_is_wrong_is_an_error_here_too(
    env: Environment, engine: ScriptedEngine, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await env.verify(**wrong)
    assert not engine.asked


async def test_a_run_can_be_cancelled(env: Environment, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run())
    engine.replies[Cancel] = Cancelled(cancelled=(RUN_ID,), survivors=0)
    handle = await env.verify()
    assert (await handle.cancel()).cancelled == [RUN_ID]
    await env.cancel()
    assert [action.run_id for action in engine.actions(Cancel)] == [RUN_ID, None]


async def test_is_green_speaks_of_content_and_not_of_runs(env: Environment, engine: ScriptedEngine) -> None:
    def serve(*views: RunView) -> None:
        engine.replies[ListRuns] = RunList(runs=views, next=None)

    serve()
    assert not await env.is_green()
    serve(RunView(run=green_run(), current=True))
    assert await env.is_green()
    assert await env.is_green(SNAPSHOT)
    assert await env.is_green(at_least="test.scoped")
    assert not await env.is_green(at_least="test.full")
    assert not await env.is_green("s1-ffffffffffffffff")
    serve(RunView(run=green_run(), current=False))
    assert not await env.is_green()
    assert await env.is_green(SNAPSHOT)
    serve(RunView(run=red_run(), current=True), RunView(run=green_run(), current=True))
    assert not await env.is_green()
    serve(RunView(run=green_run(action="diagnose"), current=True))
    assert not await env.is_green()


async def test_another_engine_word_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="use daemon or inprocess"):
        async with glideslope.open(".", engine="remote"):
            pass


def test_run_helps_scripts() -> None:
    async def answer() -> int:
        return 42

    assert glideslope.run(answer()) == 42


class Journal:
    """An engine of this process that only has events."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    @property
    def last_seq(self) -> int:
        return len(self._engine.journal)

    async def act(self, action: Action) -> Answer:
        raise NotImplementedError

    async def events(self, after: int) -> AsyncIterator[Recorded]:
        for recorded in self._engine.journal[after:]:
            yield recorded
        raise AssertionError("asked for more than there is")


async def test_events_of_an_engine_of_this_process_end_where_they_are_not_followed(
    engine: ScriptedEngine,
) -> None:
    engine.serve_run(green_run())
    engine.session().act(Verify(caller=CALLER))
    backend = InProcessBackend(Journal(engine))
    assert [found.seq async for found in backend.events(2, follow=False)] == [3, 4, 5, 6]
    assert [found.seq async for found in backend.events(6, follow=False)] == []
    assert [found.seq async for found in backend.events(None, follow=False)] == []
