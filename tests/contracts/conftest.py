"""A small project, its snapshot, and the environments to run commands in."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glideslope.adapters.environments.cow import CowEnvironment, SnapshotView
from glideslope.adapters.environments.launch import Launcher
from glideslope.adapters.environments.local import LocalEnvironment
from glideslope.adapters.environments.probe import probe_sandbox
from glideslope.model.sandbox import ExecSpec, Isolation, SandboxProbe
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import Environment

TOKEN = "GLIDESLOPE_TEST_TOKEN"


@dataclass(frozen=True, kw_only=True)
class World:
    """An environment with all that a test needs to look at from outside."""

    environment: Environment
    launcher: Launcher
    root: Path
    logs: Path
    token: str

    def spec(self, *argv: str, **fields: object) -> ExecSpec:
        """A command with the token in its environment."""
        env = {"PATH": os.environ["PATH"], TOKEN: self.token}
        return ExecSpec(argv=argv, env=env, **fields)  # type: ignore[arg-type]

    def shell(self, script: str, **fields: object) -> ExecSpec:
        """A shell script as one command."""
        return self.spec("sh", "-c", script, **fields)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    """Marks every process that is started, helper processes included."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(TOKEN, value)
    return value


@pytest.fixture(params=["snapshot", "copy", "live"])
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real path with a space and a letter outside ASCII in it."""
    return Path(os.path.realpath(tmp_path_factory.mktemp("wörld of tests")))


@pytest.fixture
async def world(tier: str, folder: Path, token: str) -> AsyncIterator[World]:
    root, tree, logs = folder / "my project", folder / "state" / "tree", folder / "logs"
    for path in (root, tree, logs, folder / "substrates"):
        path.mkdir(parents=True)
    for content in (root, tree):
        (content / "told.txt").write_text("as snapshot")
        (content / "über uns").mkdir()
    launcher = Launcher("live" if tier == "live" else "sandbox")
    profile = SandboxProfile.AGENT_EPHEMERAL
    environment: Environment
    if tier == "live":
        environment = LocalEnvironment(
            root=str(root), profile=profile, launcher=launcher, substrates=str(folder / "substrates")
        )
    else:
        await need(tier, tree)
        environment = CowEnvironment(
            view=SnapshotView(root=str(root), tree=str(tree), hidden=(str(folder / "state"),)),
            profile=profile,
            launcher=launcher,
            isolation=Isolation(tier),
        )
    yield World(environment=environment, launcher=launcher, root=root, logs=logs, token=token)
    await environment.stop()
    await launcher.stop()


_PROBES: list[SandboxProbe] = []


async def need(tier: str, layer: Path) -> None:
    """Skips where this machine cannot give the tier, and says why."""
    if not _PROBES:
        _PROBES.append(await probe_sandbox(str(layer)))
    (probe,) = _PROBES
    if probe.isolation is Isolation.LIVE or (
        tier == "snapshot" and probe.isolation is not Isolation.SNAPSHOT
    ):
        pytest.skip(f"no tier {tier} on this machine: {dict(probe.missing)}")
