"""Stored logs of tasks."""

from __future__ import annotations

from typing import Protocol

from glideslope.model.ids import LogRef, TaskId


class Logs(Protocol):
    """Where full outputs go."""

    def new(self, task: TaskId) -> tuple[LogRef, str]:
        """A reference for a task's log, and the host path its bytes are to be written to."""
        ...

    def read(self, ref: LogRef, *, offset: int, limit: int) -> tuple[int, bytes, int]:
        """A page: start, bytes, total size. A negative offset counts from the end.

        Raises:
            UnknownId: No such log, or not a reference.
        """
        ...

    def tail(self, ref: LogRef, *, lines: int) -> tuple[int, bytes, int]:
        """The last lines, as `read` would give them.

        Raises:
            UnknownId: No such log, or not a reference.
            InvalidInput: Fewer than no lines.
        """
        ...

    def grep(self, ref: LogRef, pattern: str, *, offset: int = 0) -> tuple[int, bytes, int]:
        """Where the search started, the lines a regular expression matches, and the total size.

        Raises:
            UnknownId: No such log, or not a reference.
            InvalidInput: No regular expression, or one that takes too long.
        """
        ...
