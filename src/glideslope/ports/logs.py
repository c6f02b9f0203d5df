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
