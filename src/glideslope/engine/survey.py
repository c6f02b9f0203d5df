"""Looking at a workspace: its settings, its content, its projects and their interpreters.

Everything here blocks and is called in a thread; it only reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from glideslope.engine.actions import Caller
from glideslope.engine.trees import StoredTree, snapshot_tree
from glideslope.errors import InvalidInput, NoInterpreter
from glideslope.machines.epoch import Content
from glideslope.model.ids import EnvironmentKey
from glideslope.model.project import Interpreter, Project
from glideslope.model.snapshot import Snapshot
from glideslope.ports.interpreter import Interpreters
from glideslope.ports.settings import LoadedSettings, SettingsSource
from glideslope.ports.toolchain import Toolchain
from glideslope.ports.vcs import Vcs, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Where to look, and with which interpreter."""

    workspace: Workspace
    variables: Mapping[str, str]
    virtual_env: str | None
    python: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A workspace as it was at one moment."""

    question: Question
    loaded: LoadedSettings
    snapshot: Snapshot
    tree: StoredTree
    projects: tuple[Project, ...]
    interpreters: Mapping[str, Interpreter | NoInterpreter]  # by project name
    environment_key: EnvironmentKey
    carry: tuple[str, ...]  # folders bound from the live tree, as names or paths

    @property
    def workspace(self) -> Workspace:
        """Where it lies."""
        return self.question.workspace

    @property
    def carried(self) -> tuple[str, ...]:
        """Where carried folders may lie, relative to the root: names count in every project."""
        roots = ("", *(project.root for project in self.projects))
        spread = {f"{root}/{name}" if root else name for name in self.carry for root in roots}
        return tuple(sorted(spread))

    @property
    def content(self) -> Content:
        """What a verdict about it depends on."""
        return Content(snapshot=self.snapshot.id, environment_key=self.environment_key)

    def interpreter(self, project: Project) -> Interpreter:
        """The interpreter of a project.

        Raises:
            NoInterpreter: None was found; says where it was looked for.
        """
        found = self.interpreters[project.name]
        if isinstance(found, NoInterpreter):
            raise found
        return found

    def project(self, name: str) -> Project:
        """A project by name.

        Raises:
            InvalidInput: No such project; lists those there are.
        """
        for project in self.projects:
            if project.name == name:
                return project
        names = ", ".join(project.name for project in self.projects)
        raise InvalidInput(f"no project {name!r} in this workspace: use one of {names}", field="project")


class Surveyor:
    """Makes surveys, all the same way."""

    def __init__(
        self, *, vcs: Vcs, toolchain: Toolchain, interpreters: Interpreters, settings: SettingsSource
    ) -> None:
        self._vcs = vcs
        self._toolchain = toolchain
        self._interpreters = interpreters
        self._settings = settings

    def question(self, caller: Caller, python: str | None = None) -> Question:
        """Finds the workspace a caller means.

        Raises:
            NoWorkspace: Neither a repository nor a project.
        """
        return Question(
            workspace=self._vcs.locate(caller.folder, explicit=caller.explicit_folder),
            variables=dict(caller.variables),
            virtual_env=caller.virtual_env,
            python=python,
        )

    def load(self, question: Question) -> LoadedSettings:
        """The settings that hold for a question.

        Raises:
            InvalidInput: A settings file or variable is wrong.
        """
        return self._settings.load(workspace_root=question.workspace.scope, variables=question.variables)

    def look(self, question: Question) -> Survey:
        """Digests the workspace as it is now.

        Raises:
            SnapshotUnreadable: A file cannot be read.
            SnapshotStale: It changed faster than it could be read.
            InvalidInput: A settings file is wrong.
        """
        loaded = self.load(question)
        named = self._interpreter(question, loaded, question.workspace.scope)
        carry = (*loaded.settings.environment.carry, *_inside(question, loaded, [named]))
        survey = self._look(question, loaded, carry)
        more = _inside(question, loaded, survey.interpreters.values())
        return survey if set(more) <= set(carry) else self._look(question, loaded, (*carry, *more))

    def _look(self, question: Question, loaded: LoadedSettings, carry: tuple[str, ...]) -> Survey:
        snapshot = self._vcs.snapshot(
            question.workspace, carry=carry, carry_files=loaded.settings.environment.carry_files
        )
        tree = snapshot_tree(snapshot, self._vcs.read)
        projects = self._toolchain.projects(tree)
        root = question.workspace.scope
        interpreters = {
            project.name: self._interpreter(
                question, loaded, f"{root}/{project.root}" if project.root else root
            )
            for project in projects
        }
        return Survey(
            question=question,
            loaded=loaded,
            snapshot=snapshot,
            tree=tree,
            projects=projects,
            interpreters=interpreters,
            environment_key=_environment_key(list(interpreters.values())),
            carry=carry,
        )

    def _interpreter(
        self, question: Question, loaded: LoadedSettings, project_root: str
    ) -> Interpreter | NoInterpreter:
        try:
            return self._interpreters.find(
                workspace_root=question.workspace.scope,
                project_root=project_root,
                argument=question.python,
                setting=loaded.settings.environment.python,
                virtual_env=question.virtual_env,
                is_foreign=partial(self._vcs.is_foreign, question.workspace),
            )
        except NoInterpreter as missing:
            return missing


def _environment_key(found: Sequence[Interpreter | NoInterpreter]) -> EnvironmentKey:
    keys = sorted({one.key for one in found if isinstance(one, Interpreter)})
    return EnvironmentKey(
        keys[0] if len(keys) == 1 else hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]
    )


def _inside(
    question: Question, loaded: LoadedSettings, found: Iterable[Interpreter | NoInterpreter]
) -> tuple[str, ...]:
    """Environments below the workspace that the settings do not carry by name."""
    root = question.workspace.scope + "/"
    prefixes = {
        one.prefix.removeprefix(root)
        for one in found
        if isinstance(one, Interpreter) and one.prefix.startswith(root)
    }
    known = loaded.settings.environment.carry
    return tuple(sorted(prefix for prefix in prefixes if prefix.rpartition("/")[2] not in known))
