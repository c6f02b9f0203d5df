"""Hints that something below a folder changed; never trusted, only a reason to look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from glideslope.model.ids import Scope


class Watcher(Protocol):
    """Watches worktrees."""

    def watch(self, scope: Scope) -> AbstractAsyncContextManager[AsyncIterator[None]]:
        """Yields whenever something may have changed; falls back to a slow pulse without watches."""
        ...
