"""Bytecode of a verify tree, written before anything is mounted over it."""

from __future__ import annotations

from typing import Protocol

from glideslope.model.project import Interpreter
from glideslope.ports.vcs import TreeLease


class Bytecode(Protocol):
    """Compiles what an interpreter would otherwise compile again in every task."""

    async def refresh(self, lease: TreeLease, interpreter: Interpreter, *, root: str) -> None:
        """Writes missing bytecode, checked by the digest of its source, never by its time.

        A failure costs speed, never truth: it is swallowed.

        Args:
            lease: The tree, which no task has mounted yet.
            interpreter: Whose bytecode to write.
            root: The path the tree will appear at.
        """
        ...
