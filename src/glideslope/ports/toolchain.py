"""A language: what its rungs run, and what the answers mean.

A rung is a *script*: a generator that yields batches of commands and is sent their outputs,
and returns how the rung ended for one project. The script decides; the engine runs what it
asks for, on the tree it names, through the queue. A script does no I/O of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from glideslope.model.ids import LogRef
from glideslope.model.paths import RepoPath
from glideslope.model.project import Interpreter, Project
from glideslope.model.result import ProjectRung as ProjectRung
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import Change, Entries
from glideslope.model.task import TaskResult


class Tree(Protocol):
    """The content of a snapshot, declared inputs included."""

    @property
    def entries(self) -> Entries:
        """Every file, by path."""
        ...

    def read(self, path: RepoPath) -> bytes:
        """The bytes of a file of `entries`.

        Raises:
            UnknownId: The content is not stored (a large file, or pruned).
        """
        ...


class Side(StrEnum):
    """Which tree a command sees at the project's path."""

    NOW = "now"
    BASE = "base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to run inside the sandbox."""

    kind: str  # python.diagnose, python.compile, python.build, pytest.run ...
    argv: tuple[str, ...]
    cwd: str  # relative to the workspace root, "" for the root
    side: Side = Side.NOW
    label: str = ""  # for people
    report: bool = False  # open a report pipe; its number replaces the argument "{report_fd}"
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the clean environment
    stdin: bytes = b""
    wall_s: float | None = None  # None: the setting
    idle_s: float | None = None
    index: bool = False  # may reach the package index (the one announced build-backend task)
    backend: str = ""  # digest of a build environment; its folder replaces the argument "{backend}".
    # With `index` the command is to fill it: the folder is empty, writable, and kept if it exits with 0.


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a command ended. `outcome` is exited, signalled, timed_out, cancelled, oom,
    infrastructure or died."""

    command: Command
    outcome: str
    code: int | None = None
    signal: int | None = None
    limit: str | None = None  # wall or idle
    stdout: bytes = b""  # bounded: see stdout_omitted
    stderr: bytes = b""
    stdout_omitted: int = 0
    report: tuple[bytes, ...] = ()  # complete lines of the report pipe, in order
    changes: tuple[str, ...] = ()  # paths the process wrote below the workspace root
    detail: str = ""  # what the infrastructure says of its own failure
    log_ref: LogRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Our own tools, as argv prefixes, and our injected programs, as host paths."""

    ruff: tuple[str, ...]
    ty: tuple[str, ...]
    ruff_version: str
    worker: str  # folder of the injected programs (pytest_run.py, unittest_run.py, ...)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a script may know."""

    project: Project
    projects: tuple[Project, ...]  # all of the workspace
    now: Tree
    base: Tree | None  # None: nothing to compare with
    changes: tuple[Change, ...]  # base to now, all of the workspace; without a base: every file added
    interpreter: Interpreter
    tools: Tools
    policy: VerifyPolicy
    workspace_root: str  # the real path the tree appears at inside the sandbox
    processes: int  # how many commands may run at once
    isolated: bool  # False in tier live
    network_open: bool  # tasks may reach beyond the loopback
    only_paths: tuple[str, ...] = ()  # --paths
    nodeids: tuple[str, ...] = ()  # chosen tests; empty: select
    known_failures: frozenset[str] = frozenset()  # node ids recorded as failing on an older tree
    index_allowed: bool = False  # a command may ask for the package index
    backends: frozenset[str] = frozenset()  # digests of build environments that are there


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """What the ladder needs to know of a change before it plans."""

    reached_by_tests: bool
    neutral: bool  # no code change: equal syntax trees, encodings and pragma comments
    units: int | None = None  # test files there are
    selected: tuple[RepoPath, ...] = ()  # test files the change reaches
    why: Mapping[str, str] = field(default_factory=dict)  # test file -> reason


Script = Generator[tuple[Command, ...], tuple[Output, ...], ProjectRung]
"""Yields a batch of commands; is sent their outputs in the same order; returns the end."""


class Toolchain(Protocol):
    """A language plugged in."""

    @property
    def name(self) -> str:
        """E.g. python."""
        ...

    @property
    def selector(self) -> str:
        """Version of everything that decides what a pass means; part of each proof."""
        ...

    def projects(self, tree: Tree) -> tuple[Project, ...]:
        """The projects of this language in a workspace, outermost first; may be empty."""
        ...

    def facts(self, context: Context) -> ChangeFacts:
        """What the change of one project is, and which tests it reaches."""
        ...

    def script(self, rung: Rung, context: Context) -> Script:
        """The script of one rung for one project."""
        ...

    def covers(self, rung: Rung, context: Context) -> str:
        """What a pass of the rung would cover: `full`, a digest of the selection, or empty."""
        ...

    def ending(self, output: Output) -> TaskResult:
        """How a command ended as a task: completed, failed, timed_out or died, and in short why."""
        ...

    def progress(self, command: Command, line: bytes) -> str | None:
        """A sentence about a report line as it arrives, or None."""
        ...
