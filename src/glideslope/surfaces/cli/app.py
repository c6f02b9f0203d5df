"""One invocation of the command line: its surroundings, and who it asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from glideslope.engine.actions import Action, Caller
from glideslope.machines.index_access import is_index_variable
from glideslope.surfaces.cli.output import Output
from glideslope.surfaces.session import AnyAnswer, Connect, Session, expect

VARIABLE_PREFIX = "GLIDESLOPE__"


@dataclass(kw_only=True)
class App:
    """What every command gets."""

    output: Output
    connect: Connect
    environ: Mapping[str, str]
    folder: str  # real path of the current folder
    monotonic_s: Callable[[], float]
    repo: str | None = None  # --repo
    exit_code: int = field(default=0)

    @property
    def at(self) -> str:
        """The folder the command is about."""
        return os.path.realpath(self.repo) if self.repo is not None else self.folder

    def caller(self, *, with_environment: bool = False) -> Caller:
        """What this process knows and the engine's does not.

        Args:
            with_environment: Send every variable, not only settings: tasks of the operator's own
                profile see them.
        """
        variables = tuple(
            sorted(
                (name, value)
                for name, value in self.environ.items()
                if with_environment or name.startswith(VARIABLE_PREFIX) or is_index_variable(name)
            )
        )
        return Caller(
            folder=self.at,
            explicit_folder=self.repo is not None,
            virtual_env=self.environ.get("VIRTUAL_ENV") or None,
            variables=variables,
        )

    def session(self, *, start: bool = True) -> closing[Session]:
        """A session for a `with` block."""
        return closing(self.connect.session(start=start))

    def ask(self, action: Action, answer: type[AnyAnswer]) -> AnyAnswer:
        """Asks for one action on a session of its own.

        Raises:
            GlideslopeError: It could not be served.
        """
        with self.session() as session:
            return expect(session.act(action), answer)
