"""What a command line needs of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from glideslope.engine.actions import Action, Answer
from glideslope.model.event import Recorded


class Session(Protocol):
    """One connection to an engine; for one thread at a time."""

    def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Asks for one action and waits for the answer.

        Args:
            action: What is asked.
            tied: A run that this starts is cancelled when the session goes away.

        Raises:
            GlideslopeError: It could not be served.
        """
        ...

    def events(self, *, after: int | None, follow: bool) -> AbstractContextManager[Iterator[Recorded]]:
        """Opens a stream of what was journaled.

        Args:
            after: Sequence number before the first one wanted; None: only what is new.
            follow: Wait for more at the end, instead of ending there.

        Raises:
            GlideslopeError: It could not be served; also while iterating.
        """
        ...

    def close(self) -> None:
        """Gives the connection up; safe from any thread, and more than once."""
        ...


class Connect(Protocol):
    """Opens sessions, and looks after the process behind them."""

    def session(self, *, start: bool = True) -> Session:
        """Opens a session.

        Args:
            start: Start an engine where none runs.

        Raises:
            HostUnavailable: None runs, and none was to be started or could be.
            EngineBusy: The one that runs is of another version and at work.
        """
        ...
