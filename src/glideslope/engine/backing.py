"""The build environments of one run: which there are, and what a command is shown of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from glideslope.engine.survey import Survey
from glideslope.errors import EnvironmentBroken
from glideslope.machines.index_access import IndexAccess
from glideslope.model.project import Interpreter
from glideslope.model.sandbox import Bind, Isolation
from glideslope.ports.backends import BACKEND_ARGUMENT, BACKEND_AT, Backends, HeldBackend
from glideslope.ports.toolchain import Command

_PIP = "PIP_"


@dataclass(slots=True, kw_only=True)
class Backing:
    """What one command is shown of a build environment; nothing for a command without one."""

    at: str = ""  # where the command sees it
    binds: tuple[Bind, ...] = ()
    access: IndexAccess = field(default_factory=lambda: IndexAccess(variables={}))
    filled: bool = False  # set once a command that was to fill it has ended well

    def arguments(self, command: Command) -> tuple[str, ...]:
        """The arguments, with the folder in its place."""
        return tuple(self.at if part == BACKEND_ARGUMENT else part for part in command.argv)

    def variables(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """An environment with what the package index needs, and nothing else of pip's."""
        if not self.access.variables:
            return env
        return {
            **{name: text for name, text in env.items() if not name.startswith(_PIP)},
            **self.access.variables,
        }


class RunBackends:
    """The build environments as one run sees them."""

    def __init__(self, *, backends: Backends, survey: Survey, isolation: Isolation) -> None:
        self._backends = backends
        self._variables = survey.question.variables
        self._isolation = isolation

    def complete(self, interpreter: Interpreter) -> frozenset[str]:
        """Digests of those there are for an interpreter. Blocks."""
        try:
            return self._backends.complete(self._access(interpreter))
        except EnvironmentBroken:
            return frozenset()  # said by the command that fills one, if there is one

    @asynccontextmanager
    async def back(self, command: Command, interpreter: Interpreter) -> AsyncIterator[Backing]:
        """Holds what a command needs for as long as it runs.

        Raises:
            SubstrateUnavailable: It is not there or cannot be made.
        """
        if not command.backend:
            yield Backing()
            return
        access = await asyncio.to_thread(self._access, interpreter)
        if command.index:
            held = await _take(
                partial(self._backends.begin, command.backend, access),
                partial(self._backends.finish, filled=False),
            )
            backing = self._backing(held.folder, access, read_only=False)
            try:
                yield backing
            finally:
                await asyncio.to_thread(self._backends.finish, held, filled=backing.filled)
            return
        held = await _take(partial(self._backends.hold, command.backend, access), self._backends.release)
        try:
            yield self._backing(held.folder, None, read_only=True)
        finally:
            await asyncio.to_thread(self._backends.release, held)

    def _access(self, interpreter: Interpreter) -> IndexAccess:
        return self._backends.access(self._variables, prefix=interpreter.prefix)

    def _backing(self, folder: str, access: IndexAccess | None, *, read_only: bool) -> Backing:
        backing = Backing(at=folder)
        if access is not None:
            backing.access = access
        if self._isolation is not Isolation.LIVE:
            backing.at = BACKEND_AT
            backing.binds = (Bind(source=folder, target=BACKEND_AT, read_only=read_only, own=True),)
        return backing


async def _take(take: Callable[[], HeldBackend], give_back: Callable[[HeldBackend], None]) -> HeldBackend:
    """Takes hold of a folder; a caller that is cancelled meanwhile holds nothing."""
    taking = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        give_back(await taking)
        raise
