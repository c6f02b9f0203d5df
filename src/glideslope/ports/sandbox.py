"""Opening environments over a materialised snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from glideslope.model.ids import RunId
from glideslope.model.sandbox import Isolation, SandboxProbe
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import Environment
from glideslope.ports.vcs import TreeLease


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a task is to see at the workspace's own path."""

    root: str  # real path of the workspace
    lease: TreeLease | None  # None only for tier live
    carry: tuple[str, ...]  # folders of the live tree to be bound read-only, relative to the root
    visible: tuple[str, ...]  # host paths that must stay visible, e.g. the interpreter's prefix
    profile: SandboxProfile
    isolation: Isolation


class Sandboxes(Protocol):
    """Makes environments, and knows what this machine allows."""

    async def probe(self) -> SandboxProbe:
        """What this machine allows, tried once and remembered."""
        ...

    def check_profile(self, profile: SandboxProfile) -> None:
        """Says before a run begins whether a profile may be used.

        Raises:
            ProfileRefused: Nothing here enforces it.
        """
        ...

    def open(self, view: View) -> Environment:
        """An environment for a view; nothing is started yet.

        Raises:
            ProfileRefused: The profile is not one that may be used.
        """
        ...

    def variables(
        self, view: View, *, executable: str, caller: Mapping[str, str], run: RunId
    ) -> Mapping[str, str]:
        """The complete clean environment of a task.

        Args:
            view: What it runs in.
            executable: The project's interpreter; its folder goes first on the path.
            caller: The caller's variables; passed on only under the operator profile.
            run: Mark that every process of the run carries.
        """
        ...

    async def close(self) -> None:
        """Ends every environment and the helper process."""
        ...
