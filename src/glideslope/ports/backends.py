"""Build environments: folders that hold what a project's build asks for, kept between runs.

One is filled by a single task and afterwards only read. It is complete once its marker is there,
which is written last; whatever lacks one is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from glideslope.machines.index_access import IndexAccess

BACKEND_AT = "/tmp/backend"
"""Where a task in a sandbox sees the build environment it was given; a constant, like its other folders."""

BACKEND_ARGUMENT = "{backend}"
"""Stands for that folder in the arguments of a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackend:
    """A build environment that nobody removes while it is held."""

    folder: str  # host path of what a build puts on its path
    id: str  # of the hold


class Backends(Protocol):
    """The build environments of a state folder. Every method blocks."""

    def access(self, variables: Mapping[str, str], *, prefix: str) -> IndexAccess:
        """How the operator reaches a package index.

        Args:
            variables: Of the caller.
            prefix: Host path of the environment whose pip is to be used.

        Raises:
            SubstrateUnavailable: A configuration of pip is there and cannot be read.
        """
        ...

    def complete(self, access: IndexAccess) -> frozenset[str]:
        """Digests of the build environments that are there and were filled by that access."""
        ...

    def hold(self, digest: str, access: IndexAccess) -> HeldBackend:
        """Takes a complete build environment into use.

        Raises:
            SubstrateUnavailable: It is not there, or no longer.
        """
        ...

    def begin(self, digest: str, access: IndexAccess) -> HeldBackend:
        """Makes an empty folder to be filled; others may fill one of the same digest meanwhile.

        Raises:
            SubstrateUnavailable: The folder cannot be made.
        """
        ...

    def finish(self, held: HeldBackend, *, filled: bool) -> None:
        """Ends the filling of a folder: it becomes the build environment, unless another one was
        sooner, or it goes.

        Raises:
            SubstrateUnavailable: It cannot be completed.
        """
        ...

    def release(self, held: HeldBackend) -> None:
        """Gives a build environment back."""
        ...
