"""`LocalSandboxes`: opens environments on this machine, and remembers what it allows."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from glideslope.adapters.environments.cow import CowEnvironment, SnapshotView, check_profile
from glideslope.adapters.environments.launch import Launcher
from glideslope.adapters.environments.local import LocalEnvironment
from glideslope.adapters.environments.probe import probe_sandbox
from glideslope.errors import SubstrateUnavailable
from glideslope.machines.substrate import plan_environment
from glideslope.model.ids import RunId
from glideslope.model.sandbox import Bind, Isolation, SandboxProbe
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import Environment
from glideslope.ports.sandbox import View

MEMORY_SHARE = 4  # what one task writes may fill one part in so many of the memory: two run at once

_FROM_DAEMON = ("LANG", "LD_LIBRARY_PATH", "PATH")


class LocalSandboxes:
    """Port `Sandboxes` on the kernel of this machine.

    Args:
        trees: Folder the pool trees lie in; the probe tries its file system.
        substrates: Folder for the private folders of tasks on the live tree.
        hidden: Host paths no task may see: state and runtime folders.
        worker: Folder of the injected programs, which must stay visible.
    """

    def __init__(self, *, trees: str, substrates: str, hidden: tuple[str, ...], worker: str) -> None:
        self._trees = trees
        self._substrates = substrates
        self._hidden = hidden
        self._worker = worker
        self._sandbox = Launcher("sandbox")
        self._live = Launcher("live")
        self._probe: SandboxProbe | None = None
        self._probing = asyncio.Lock()

    async def probe(self) -> SandboxProbe:
        """What this machine allows; see the port."""
        async with self._probing:
            if self._probe is None:
                os.makedirs(self._trees, mode=0o700, exist_ok=True)
                self._probe = await probe_sandbox(self._trees)
            return self._probe

    def check_profile(self, profile: SandboxProfile) -> None:
        """Refuses profiles that nothing here enforces; see the port."""
        check_profile(profile)

    def open(self, view: View) -> Environment:
        """An environment for a view; see the port."""
        if view.isolation is Isolation.LIVE:
            os.makedirs(self._substrates, mode=0o700, exist_ok=True)
            return LocalEnvironment(
                root=view.root, profile=view.profile, launcher=self._live, substrates=self._substrates
            )
        if view.lease is None:
            raise SubstrateUnavailable("there is no tree to show", next="glideslope doctor")
        return CowEnvironment(
            view=self._snapshot_view(view),
            profile=view.profile,
            launcher=self._sandbox,
            isolation=view.isolation,
        )

    def _snapshot_view(self, view: View) -> SnapshotView:
        lease = view.lease
        assert lease is not None, "only the live tree has no lease"
        binds = [Bind(source=path, target=os.path.join(view.root, name)) for name, path in lease.large]
        if lease.objects is not None and lease.objects_at is not None:
            binds.append(Bind(source=lease.objects, target=os.path.join(view.root, lease.objects_at)))
        return SnapshotView(
            root=view.root,
            tree=lease.tree,
            git_layer=lease.git_layer,
            carry=tuple(name for name in view.carry if os.path.isdir(os.path.join(view.root, name))),
            binds=tuple(binds),
            hidden=self._hidden,
            scratch_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MEMORY_SHARE,
            visible=_shown((*view.visible, self._worker, sys.prefix, sys.base_prefix)),
        )

    def variables(
        self, view: View, *, executable: str, caller: Mapping[str, str], run: RunId
    ) -> Mapping[str, str]:
        """The complete environment of a task; see the port."""
        ours = {name: os.environ[name] for name in _FROM_DAEMON if name in os.environ}
        return plan_environment(
            view.profile, {**ours, **caller}, run=run, interpreter_folder=os.path.dirname(executable)
        )

    async def close(self) -> None:
        """Ends every environment and the helper processes."""
        await self._sandbox.stop()
        await self._live.stop()


def _shown(paths: tuple[str, ...]) -> tuple[str, ...]:
    """What must stay visible for programs to start: a linked interpreter needs its own library too."""
    found = [path for path in paths if os.path.exists(path)]
    programs = [os.path.realpath(path) for path in found if os.path.isfile(path)]
    prefixes = [os.path.dirname(os.path.dirname(path)) for path in programs]
    return tuple(dict.fromkeys((*found, *prefixes)))
