"""`LocalEnvironment`: the working tree itself, without namespaces; says `live` in every result."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio

from glideslope.adapters.environments.cow import check_profile, exec_request
from glideslope.adapters.environments.launch import Launcher
from glideslope.adapters.environments.reading import read_beneath
from glideslope.adapters.environments.result import read_ending
from glideslope.adapters.environments.running import Running
from glideslope.errors import InvalidInput, SubstrateUnavailable
from glideslope.machines.substrate import substrate_variables
from glideslope.model.paths import RepoPath
from glideslope.model.sandbox import ExecResult, ExecSpec, Isolation, Substrate
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import ExecWatch


class LocalEnvironment:
    """Runs commands on the live tree, each with private folders and no process left behind.

    Args:
        root: Real path of the project.
        profile: `agent_ephemeral` or `operator`; nothing keeps a command from writing here.
        launcher: A launcher of kind `live`; shared, never stopped here.
        substrates: Existing folder in which each command gets a folder of its own.

    Raises:
        ProfileRefused: The profile needs an environment that does not exist here.
    """

    def __init__(self, *, root: str, profile: SandboxProfile, launcher: Launcher, substrates: str) -> None:
        check_profile(profile)
        if launcher.kind != "live":
            raise InvalidInput("the live tree needs a launcher without namespaces", field="launcher")
        self._root = root
        self._profile = profile
        self._launcher = launcher
        self._substrates = substrates
        self._running = Running()

    @property
    def type(self) -> str:
        """The kind of environment."""
        return "local"

    @property
    def working_directory(self) -> str:
        """The project root."""
        return self._root

    async def read_file(self, path: RepoPath) -> bytes:
        """Reads a file of the working tree."""
        return await anyio.to_thread.run_sync(read_beneath, self._root, path)

    async def exec(self, spec: ExecSpec, *, watch: ExecWatch | None = None) -> ExecResult:
        """Runs one command on the live tree.

        Binds are not possible here: a bind whose source is not its target is an infrastructure
        fault of the caller and refused.

        Raises:
            InvalidInput: The command needs a file at a place where it is not.
            SubstrateUnavailable: Its private folders cannot be made.
        """
        if any(bind.source != bind.target for bind in spec.binds):
            raise InvalidInput("the live tree has no mounts: pass the file's own path", field="binds")
        async with self._running.one(watch) as watched:
            folder = await anyio.to_thread.run_sync(_make_folder, self._substrates)
            try:
                ending = await self._launcher.run(self._request(spec, folder), spec, watched)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(remove_tree, folder)
        return read_ending(ending, self._profile, Isolation.LIVE)

    async def stop(self) -> None:
        """Ends what runs here."""
        await self._running.stop()

    def _request(self, spec: ExecSpec, folder: str) -> dict[str, Any]:
        folders = substrate_variables(_substrate(folder))
        # Compiled files beside the sources would be writes into the tree under verification.
        private = {**folders, "PYTHONPYCACHEPREFIX": os.path.join(folder, "pycache")}
        return exec_request(replace(spec, env={**spec.env, **private}), self._root)


def _substrate(folder: str) -> Substrate:
    names = (os.path.join(folder, name) for name in ("tmp", "home", "data"))
    temporary, home, data = names
    return Substrate(temporary=temporary, home=home, data=data)


def _make_folder(parent: str) -> str:
    try:
        folder = tempfile.mkdtemp(prefix="task-", dir=parent)
        substrate = _substrate(folder)
        for path in (substrate.temporary, substrate.home, substrate.data):
            os.mkdir(path, 0o700)
    except OSError as error:
        raise SubstrateUnavailable(
            f"no private folders for the task: {error}", next="glideslope doctor"
        ) from error
    return folder


def remove_tree(folder: str) -> None:
    """Removes a folder whatever a task did to its modes; what still resists stays for `prune`."""

    def unlock(function: Callable[..., Any], path: str, _: Any) -> None:
        try:
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:
            pass  # named by `prune`, which looks at the whole folder

    shutil.rmtree(folder, onerror=unlock)
