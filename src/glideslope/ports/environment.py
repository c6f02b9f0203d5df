"""Where commands run. Five members; more powers would be protocols of their own, never stubs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from glideslope.model.paths import RepoPath
from glideslope.model.sandbox import ExecResult, ExecSpec


class ExecWatch:
    """Follows one exec as it runs, and can end it.

    Args:
        on_report: Called with each complete line of the report pipe, without its line end.
        on_output: Called with the stream's name and the bytes seen of it so far.
    """

    def __init__(
        self,
        *,
        on_report: Callable[[bytes], None] | None = None,
        on_output: Callable[[str, int], None] | None = None,
    ) -> None:
        self.on_report = on_report
        self.on_output = on_output
        self.cancelled_because: str | None = None
        self._canceller: Callable[[str], None] | None = None

    def cancel(self, reason: str) -> None:
        """Asks for the end of the exec; it returns, as cancelled, once its processes are gone.

        May be called before the exec began, and more than once; the first reason counts.
        """
        if self.cancelled_because is None:
            self.cancelled_because = reason
            if self._canceller is not None:
                self._canceller(reason)

    def bind(self, canceller: Callable[[str], None]) -> None:
        """For environments: says how to cancel. Calls at once if that was asked already."""
        self._canceller = canceller
        if self.cancelled_because is not None:
            canceller(self.cancelled_because)


class Environment(Protocol):
    """A tree to read and to run commands in."""

    @property
    def type(self) -> str:
        """The kind, e.g. `local` or `cow`; for logs and hints."""
        ...

    @property
    def working_directory(self) -> str:
        """The project root as commands see it."""
        ...

    async def read_file(self, path: RepoPath) -> bytes:
        """Reads a file of the tree. Links are followed as long as they stay beneath the root.

        Raises:
            UnknownId: There is no such file, or it is not a regular one.
            PathEscapes: A link on the way leaves the root.
        """
        ...

    async def exec(self, spec: ExecSpec, *, watch: ExecWatch | None = None) -> ExecResult:
        """Runs a command to its end; returns or raises only when none of its processes is left.

        A cancelled caller gets its cancellation after that, and no result. How the command
        ended, however badly, is a result.

        Raises:
            HostUnavailable: The helper process that starts commands cannot be started.
            EnvironmentBroken: The environment has been stopped.
        """
        ...

    async def stop(self) -> None:
        """Ends the environment and what runs in it. A second call does nothing."""
        ...
