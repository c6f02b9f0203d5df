"""A workspace made of texts, and scripts answered by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.project import Interpreter, Project
from glideslope.model.result import Diagnostic
from glideslope.model.rung import VerifyPolicy
from glideslope.model.snapshot import Entry, FileMode, diff
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Script, Tools
from glideslope.toolchains.python.module import OUR_VERSION

Answer = Callable[[Command], Output]


class TextTree:
    """A tree of given texts."""

    def __init__(self, files: Mapping[str, str | bytes], links: Iterable[str] = ()) -> None:
        self._files = {
            RepoPath(path): text.encode() if isinstance(text, str) else text for path, text in files.items()
        }
        self.entries = {
            path: Entry(
                FileMode.SYMLINK if path in links else FileMode.REGULAR,
                BlobId(hashlib.sha1(data, usedforsecurity=False).hexdigest()),
                len(data),
            )
            for path, data in self._files.items()
        }

    def read(self, path: RepoPath) -> bytes:
        return self._files[path]


def project(root: str = "") -> Project:
    return Project(name=root or ".", root=root, toolchain="python")


def interpreter(
    *installed: str, version: tuple[int, int] = OUR_VERSION, versions: Mapping[str, str] | None = None
) -> Interpreter:
    return Interpreter(
        executable="/env/bin/python",
        prefix="/env",
        version=(*version, 0),
        implementation="cpython",
        how="argument",
        distributions={**dict.fromkeys(installed, "1.0"), **(versions or {})},
    )


def context_of(
    now: Mapping[str, str | bytes],
    base: Mapping[str, str | bytes] | None = None,
    *,
    roots: tuple[str, ...] = ("",),
    installed: Interpreter | None = None,
    policy: VerifyPolicy = VerifyPolicy.STANDARD,
    only_paths: tuple[str, ...] = (),
) -> Context:
    """The context of the first project."""
    after = TextTree(now)
    before = None if base is None else TextTree(base)
    projects = tuple(project(root) for root in roots)
    return Context(
        project=projects[0],
        projects=projects,
        now=after,
        base=before,
        changes=diff({} if before is None else before.entries, after.entries),
        interpreter=installed or interpreter(),
        tools=Tools(ruff=("ruff",), ty=("ty",), ruff_version="1", worker="/worker"),
        policy=policy,
        workspace_root="/ws",
        processes=2,
        isolated=True,
        network_open=False,
        only_paths=only_paths,
    )


def clean(command: Command) -> Output:
    """What a tool without findings answers."""
    return said(command, b"[]")


def said(command: Command, stdout: bytes = b"", *, code: int = 0, stderr: bytes = b"") -> Output:
    return Output(command=command, outcome="exited", code=code, stdout=stdout, stderr=stderr)


def play(script: Script, answer: Answer = clean) -> tuple[ProjectRung, list[Command]]:
    """Runs a script to its end; returns it and every command asked for."""
    asked: list[Command] = []
    try:
        commands = next(script)
        while True:
            asked += commands
            commands = script.send(tuple(answer(command) for command in commands))
    except StopIteration as end:
        return cast(ProjectRung, end.value), asked


def shown(diagnostics: Iterable[Diagnostic]) -> list[tuple[str, int, str, str]]:
    """Path, line, code and state of each."""
    return [(found.path, found.line, found.code, str(found.state)) for found in diagnostics]
