"""Sessions: what a surface needs of an engine, and the one with the daemon of this user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from glideslope import codec
from glideslope.engine.actions import CATALOGUE, Action, Answer, WaitRun
from glideslope.errors import HostUnavailable, InternalError
from glideslope.model.event import Recorded
from glideslope.model.settings import SandboxProfile
from glideslope.surfaces import client
from glideslope_fast.place import socket_path, state_dir

AnyAnswer = TypeVar("AnyAnswer", bound=Answer)

# How much longer than the engine itself a client waits for an answer that the engine bounds.
GRACE_S = 30.0
# A first look at a large workspace, or the end of a run that is being cancelled, takes its time.
ANSWER_S = 600.0

_ENTRIES = {entry.input: entry for entry in CATALOGUE}


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


def expect(found: Answer, answer: type[AnyAnswer]) -> AnyAnswer:
    """The answer, if it is of the kind the catalogue promises.

    Raises:
        InternalError: It is not.
    """
    if not isinstance(found, answer):
        raise InternalError(f"the engine answered with {type(found).__name__}: please report this")
    return found


class DaemonSession:
    """One connection to the daemon."""

    def __init__(self, connected: client.Client) -> None:
        self._client = connected

    def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Asks for one action and waits for the answer.

        Raises:
            GlideslopeError: As the engine says; HostUnavailable where the daemon went away.
        """
        entry = _ENTRIES[type(action)]
        timeout_s = action.timeout_s + GRACE_S if isinstance(action, WaitRun) else ANSWER_S
        given = codec.to_plain(action)
        assert isinstance(given, dict), "an action has fields"
        found = self._client.call(entry.name, given, tie=tied, timeout_s=timeout_s)
        return codec.from_plain(entry.answer, found)

    @contextmanager
    def events(self, *, after: int | None, follow: bool) -> Iterator[Iterator[Recorded]]:
        """Opens a stream of what was journaled.

        Raises:
            GlideslopeError: As of `act`; also while iterating.
        """
        documents = self._client.events(after=after, follow=follow)  # asked for now, not later
        yield (codec.decode(Recorded, document) for document in documents)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()


class DaemonConnect:
    """Finds the daemon, and starts it where it does not run."""

    def __init__(self, *, environ: Mapping[str, str], state: str | None = None) -> None:
        """Takes the environment variables that say where the daemon is, or its state folder."""
        self._environ = environ
        self._state = state

    @property
    def state_dir(self) -> str:
        """The state folder that the daemon owns, or would own."""
        return self._state or state_dir(self._environ)

    @property
    def socket(self) -> str:
        """Where the daemon listens, or would listen."""
        return socket_path(self.state_dir, self._environ)

    def find(self) -> client.Client | None:
        """A bare connection to the daemon, of whatever version; None where none runs."""
        return client.find(self._state, environ=self._environ)

    def session(self, *, start: bool = True) -> DaemonSession:
        """Opens a session.

        Raises:
            HostUnavailable: No daemon runs, and none was to be started or could be.
            EngineBusy: The one that runs is of another version and at work.
        """
        if start:
            return DaemonSession(client.connect(self._state, environ=self._environ))
        found = self.find()
        if found is None:
            raise HostUnavailable("no daemon runs: `glideslope daemon start` starts one")
        return DaemonSession(found)


def sends_environment(profile: SandboxProfile | None, environ: Mapping[str, str]) -> bool:
    """Whether a caller sends its whole environment: where tasks run under the operator's own profile.

    Args:
        profile: The one that was asked for; None: the setting, which only the user's own file can
            loosen to the operator's.
        environ: Environment variables of the caller.
    """
    if profile is not None:
        return profile is SandboxProfile.OPERATOR
    from glideslope.adapters.settings import merge_settings, user_settings_file

    user_file = user_settings_file(environ)
    if not os.path.exists(user_file):
        return False
    merged = merge_settings(user_file=user_file, variables={}, read=lambda name: None)
    return merged.settings.environment.default_sandbox_profile is SandboxProfile.OPERATOR
