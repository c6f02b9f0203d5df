"""`CowEnvironment`: a snapshot, mounted at the project's real path, that no command can change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from glideslope.adapters.environments.launch import Launcher
from glideslope.adapters.environments.reading import read_beneath
from glideslope.adapters.environments.result import read_ending
from glideslope.adapters.environments.running import Running
from glideslope.errors import InvalidInput, ProfileRefused
from glideslope.model.paths import RepoPath
from glideslope.model.sandbox import Bind, ExecResult, ExecSpec, Isolation
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import ExecWatch

_PROFILES = (SandboxProfile.AGENT_EPHEMERAL, SandboxProfile.OPERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView:
    """What a command sees. Absolute paths, except `carry`."""

    root: str  # real path of the project; the snapshot appears here
    tree: str  # folder holding the materialised snapshot; never changed while a command runs
    git_layer: str | None = None  # folder whose `.git` is laid over the tree
    carry: tuple[str, ...] = ()  # folders of the live tree to show read-only, relative to the root
    binds: tuple[Bind, ...] = ()  # large files, the object store, injected programs
    hidden: tuple[str, ...] = ()  # state and runtime folders
    visible: tuple[str, ...] = ()  # shown where private or hidden folders, or the snapshot, lack them
    scratch_bytes: int | None = None  # bound of everything a command writes; None: the kernel's


class CowEnvironment:
    """Runs commands on a snapshot; whatever they write is reported and vanishes.

    Args:
        view: What commands see.
        profile: `agent_ephemeral` (all else read-only) or `operator`.
        launcher: A launcher of kind `sandbox`; shared, never stopped here.
        isolation: `snapshot` (overlay) or `copy`.

    Raises:
        ProfileRefused: The profile needs an environment that does not exist here.
    """

    def __init__(
        self,
        *,
        view: SnapshotView,
        profile: SandboxProfile,
        launcher: Launcher,
        isolation: Isolation = Isolation.SNAPSHOT,
    ) -> None:
        check_profile(profile)
        if isolation is Isolation.LIVE or launcher.kind != "sandbox":
            raise InvalidInput("a snapshot needs namespaces: use the local environment", field="isolation")
        self._view = view
        self._profile = profile
        self._launcher = launcher
        self._isolation = isolation
        self._running = Running()

    @property
    def type(self) -> str:
        """The kind of environment."""
        return "cow"

    @property
    def working_directory(self) -> str:
        """The project root, as commands see it."""
        return self._view.root

    async def read_file(self, path: RepoPath) -> bytes:
        """Reads a file of the snapshot."""
        return await anyio.to_thread.run_sync(read_beneath, self._view.tree, path)

    async def exec(self, spec: ExecSpec, *, watch: ExecWatch | None = None) -> ExecResult:
        """Runs one command in a fresh view."""
        async with self._running.one(watch) as watched:
            ending = await self._launcher.run(self._request(spec), spec, watched)
        return read_ending(ending, self._profile, self._isolation)

    async def stop(self) -> None:
        """Ends what runs here."""
        await self._running.stop()

    def _request(self, spec: ExecSpec) -> Mapping[str, Any]:
        view = self._view
        binds = [_bind(os.path.join(view.root, name), carry=True) for name in view.carry]
        binds += [
            {**_bind(one.source, one.target, one.read_only), "own": one.own}
            for one in (*view.binds, *spec.binds)
        ]
        return {
            **exec_request(spec, view.root),
            "network": spec.network,
            "view": {
                "root": view.root,
                "tier": self._isolation,
                "layers": [layer for layer in (view.git_layer, view.tree) if layer],
                "binds": binds,
                "hidden": view.hidden,
                "visible": view.visible,
                "read_only": self._profile is not SandboxProfile.OPERATOR,
                "scratch_bytes": view.scratch_bytes,
            },
        }


def check_profile(profile: SandboxProfile) -> None:
    """Refuses profiles whose environment does not exist.

    Raises:
        ProfileRefused: Anything but `agent_ephemeral` and `operator`.
    """
    if profile not in _PROFILES:
        known = " or ".join(_PROFILES)
        raise ProfileRefused(
            f"no environment enforces the profile {profile} yet: use {known}", profile=profile
        )


def exec_request(spec: ExecSpec, root: str) -> dict[str, Any]:
    """The part of a request that every kind of exec host reads."""
    limits = {
        "address_space_bytes": spec.limits.address_space_bytes,
        "processes": spec.limits.processes,
        "file_size_bytes": spec.limits.file_size_bytes,
    }
    return {
        "argv": spec.argv,
        "cwd": os.path.join(root, spec.cwd) if spec.cwd else root,
        "env": dict(spec.env),
        "wall_s": spec.wall_s,
        "grace_s": spec.grace_s,
        "drain_s": spec.drain_s,
        "limits": {name: value for name, value in limits.items() if value is not None},
    }


def _bind(
    source: str, target: str | None = None, read_only: bool = True, carry: bool = False
) -> dict[str, Any]:
    return {"source": source, "target": target or source, "read_only": read_only, "carry": carry}
