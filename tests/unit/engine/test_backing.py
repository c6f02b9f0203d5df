"""What a command is shown of a build environment, and that it is always given back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from glideslope.engine.backing import RunBackends
from glideslope.engine.survey import Survey
from glideslope.errors import SubstrateUnavailable
from glideslope.machines.index_access import IndexAccess, plan_access
from glideslope.model.project import Interpreter
from glideslope.model.sandbox import Bind, Isolation
from glideslope.ports.backends import BACKEND_AT, HeldBackend
from glideslope.ports.toolchain import Command

INTERPRETER = Interpreter(
    executable="/env/bin/python", prefix="/env", version=(3, 12, 0), implementation="cpython", how="argument"
)
USE = Command(kind="python.build", argv=("x", "{backend}"), cwd="", backend="d1")
FILL = Command(kind="build.backend", argv=("x", "{backend}"), cwd="", backend="d1", index=True)


@dataclass
class FakeBackends:
    """Notes what is taken and given back; taking waits until it may go on."""

    broken: bool = False
    taken: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    may_take: threading.Event = field(default_factory=threading.Event)

    def access(self, variables: Mapping[str, str], *, prefix: str) -> IndexAccess:
        if self.broken:
            raise SubstrateUnavailable("no configuration")
        return plan_access([], variables)

    def complete(self, access: IndexAccess) -> frozenset[str]:
        return frozenset(["d1"])

    def hold(self, digest: str, access: IndexAccess) -> HeldBackend:
        return self._take("hold")

    def begin(self, digest: str, access: IndexAccess) -> HeldBackend:
        return self._take("begin")

    def finish(self, held: HeldBackend, *, filled: bool) -> None:
        self.given.append(f"finish {filled}")

    def release(self, held: HeldBackend) -> None:
        self.given.append("release")

    def _take(self, how: str) -> HeldBackend:
        self.taken.append(how)
        assert self.may_take.wait(10)
        return HeldBackend(folder="/state/backends/d1/site", id="h1")


def run_backends(
    backends: FakeBackends, isolation: Isolation = Isolation.SNAPSHOT, **variables: str
) -> RunBackends:
    survey = cast(Survey, SimpleNamespace(question=SimpleNamespace(variables=variables)))
    return RunBackends(backends=backends, survey=survey, isolation=isolation)


@pytest.fixture
def backends() -> FakeBackends:
    made = FakeBackends()
    made.may_take.set()
    return made


@pytest.mark.parametrize("command", [USE, FILL])
async def test_only_the_one_that_fills_may_write_and_sees_pips_variables(
    backends: FakeBackends, command: Command
) -> None:
    of_run = run_backends(backends, PIP_INDEX_URL="https://i", PIP_PYTHON="/p")
    async with of_run.back(command, INTERPRETER) as backing:
        assert backing.binds == (
            Bind(source="/state/backends/d1/site", target=BACKEND_AT, read_only=command is USE, own=True),
        )
        assert backing.arguments(command) == ("x", BACKEND_AT)
        env = backing.variables({"PATH": "/bin", "PIP_PYTHON": "/p"})
    if command is USE:
        assert env == {"PATH": "/bin", "PIP_PYTHON": "/p"}
    else:
        assert (env["PIP_INDEX_URL"], env["PATH"], "PIP_PYTHON" in env) == ("https://i", "/bin", False)


async def test_on_the_live_tree_it_is_seen_where_it_is(backends: FakeBackends) -> None:
    async with run_backends(backends, Isolation.LIVE).back(USE, INTERPRETER) as backing:
        assert (backing.binds, backing.arguments(USE)) == ((), ("x", "/state/backends/d1/site"))


async def test_a_command_without_one_is_left_as_it_is(backends: FakeBackends) -> None:
    command = Command(kind="x", argv=("x", "{backend}"), cwd="")
    async with run_backends(backends).back(command, INTERPRETER) as backing:
        assert (backing.binds, backing.variables({"PIP_X": "1"})) == ((), {"PIP_X": "1"})
    assert backends.taken == []


@pytest.mark.parametrize("filled", [True, False])
async def test_a_filling_counts_only_if_it_ended_well(backends: FakeBackends, filled: bool) -> None:
    async with run_backends(backends).back(FILL, INTERPRETER) as backing:
        backing.filled = filled
    assert backends.given == [f"finish {filled}"]


@pytest.mark.parametrize(("command", "given"), [(USE, "release"), (FILL, "finish False")])
async def test_it_is_given_back_whenever_the_task_is_cancelled(
    backends: FakeBackends, command: Command, given: str
) -> None:
    entered = asyncio.Event()

    async def job() -> None:
        async with run_backends(backends).back(command, INTERPRETER):
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.ensure_future(job())
    await entered.wait()
    running.cancel()
    await asyncio.wait([running])
    assert backends.given == [given]

    backends.given.clear()
    backends.may_take.clear()
    early = asyncio.ensure_future(job())
    while len(backends.taken) < 2:  # until it is being taken
        await asyncio.sleep(0.001)
    early.cancel()
    await asyncio.sleep(0)
    backends.may_take.set()
    await asyncio.wait([early])
    assert (early.cancelled(), backends.given) == (True, [given])


def test_a_configuration_that_cannot_be_read_hides_what_there_is() -> None:
    assert run_backends(FakeBackends()).complete(INTERPRETER) == {"d1"}
    assert run_backends(FakeBackends(broken=True)).complete(INTERPRETER) == frozenset()
