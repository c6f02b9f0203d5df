"""The project's own interpreter: found, never made, never installed into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from glideslope.model.project import Interpreter


class Interpreters(Protocol):
    """Finds interpreters."""

    def find(
        self,
        *,
        workspace_root: str,
        project_root: str,
        argument: str | None,
        setting: str,
        virtual_env: str | None,
        is_foreign: Callable[[str], bool],
    ) -> Interpreter:
        """Finds the interpreter of a project, and what is installed there now.

        Args:
            workspace_root: Host path of the workspace.
            project_root: Host path of the project.
            argument: Given by the caller; an executable or an environment folder.
            setting: The `python` setting; empty where none is set.
            virtual_env: VIRTUAL_ENV of the caller.
            is_foreign: Whether a program below the workspace came with the repository. Such a one is
                never run, since finding out about an interpreter happens outside the sandbox.

        Raises:
            NoInterpreter: Nothing usable in any of the places, which the message lists.
        """
        ...
