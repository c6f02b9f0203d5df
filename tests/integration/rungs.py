"""Drives scripts of the test rungs against folders on disk, with real processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.project import Interpreter, Project
from glideslope.model.rung import VerifyPolicy
from glideslope.model.snapshot import Entry, FileMode, diff
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Script, Side, Tools

WORKER = Path(__file__).parents[2] / "src" / "glideslope" / "worker"


@dataclass(frozen=True)
class DiskTree:
    """A folder as a tree."""

    root: Path
    entries: Mapping[RepoPath, Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> DiskTree:
        entries: dict[RepoPath, Entry] = {}
        for folder, folders, files in os.walk(root):
            folders[:] = [
                name for name in folders if name not in (".git", "__pycache__", ".pytest_cache", ".venv")
            ]
            for file in files:
                path = Path(folder, file)
                data = path.read_bytes()
                blob = BlobId(hashlib.sha1(data, usedforsecurity=False).hexdigest())
                entries[RepoPath(path.relative_to(root).as_posix())] = Entry(
                    FileMode.REGULAR, blob, len(data)
                )
        return cls(root, entries)

    def read(self, path: RepoPath) -> bytes:
        return (self.root / path).read_bytes()


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Writes files below a folder."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return root


def interpreter(executable: str = sys.executable, without: tuple[str, ...] = ()) -> Interpreter:
    """The interpreter of these tests, or another one asked for its distributions."""
    if executable == sys.executable:
        found = {dist.metadata["Name"].lower(): dist.version for dist in metadata.distributions()}
    else:
        code = "import importlib.metadata as m, json; print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
        found = json.loads(subprocess.run([executable, "-c", code], capture_output=True, check=True).stdout)
    return Interpreter(
        executable=executable,
        prefix=sys.prefix,
        version=(3, 11, 0),
        implementation="cpython",
        how="argument",
        distributions={name: version for name, version in found.items() if name not in without},
    )


def context_of(
    now: Path, base: Path | None = None, *, project: str = "", policy: VerifyPolicy = VerifyPolicy.STANDARD
) -> Context:
    """A context for one project of a folder."""
    tree = DiskTree.of(now)
    before = None if base is None else DiskTree.of(base)
    own = Project(name=project or ".", root=project, toolchain="python")
    return Context(
        project=own,
        projects=(own,),
        now=tree,
        base=before,
        changes=diff({} if before is None else before.entries, tree.entries),
        interpreter=interpreter(),
        tools=Tools(ruff=(), ty=(), ruff_version="", worker=str(WORKER)),
        policy=policy,
        workspace_root=str(now),
        processes=2,
        isolated=True,
        network_open=False,
    )


def run_command(command: Command, root: Path, *, late: str | None = None) -> Output:
    """Runs one command in a folder; what a real engine does in a sandbox.

    Plugins that happen to be installed beside the interpreter of these tests are left out: they
    cost more than the run itself. Once a test begins whose name has `late` in it, the time is up.
    """
    read_fd, write_fd = os.pipe()
    argv = [part.replace("{report_fd}", str(write_fd)) for part in command.argv]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    if command.argv[0] == sys.executable:
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        argv,
        cwd=root / command.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[write_fd],
        env={**environment, **command.env},
    ) as process:
        os.close(write_fd)
        report: list[bytes] = []
        timed_out = threading.Event()

        def drain() -> None:
            with os.fdopen(read_fd, "rb") as stream:
                for line in stream:
                    report.append(line.rstrip(b"\n"))
                    if late is not None and b'"start"' in line and late.encode() in line:
                        timed_out.set()
                        process.kill()

        reader = threading.Thread(target=drain)
        reader.start()
        out, err = process.communicate(command.stdin)
        reader.join()
    code = process.returncode
    return Output(
        command=command,
        outcome="timed_out" if timed_out.is_set() else ("signalled" if code < 0 else "exited"),
        code=None if code < 0 else code,
        signal=-code if code < 0 else None,
        limit="wall" if timed_out.is_set() else None,
        stdout=out,
        stderr=err,
        report=tuple(report),
    )


def drive(
    script: Script, now: Path, base: Path | None = None, *, late: str | None = None
) -> tuple[ProjectRung, list[Output]]:
    """Runs a script to its end; the base appears at the path of the snapshot, as in a sandbox."""
    outputs: list[Output] = []
    try:
        commands = next(script)
        while True:
            answers = tuple(_at_its_place(command, now, base, late) for command in commands)
            outputs += answers
            commands = script.send(answers)
    except StopIteration as end:
        rung: ProjectRung = end.value
        return rung, outputs


def _at_its_place(command: Command, now: Path, base: Path | None, late: str | None) -> Output:
    if command.side is Side.NOW:
        return run_command(command, now, late=late)
    assert base is not None
    aside = now.with_name(now.name + ".aside")
    now.rename(aside)
    base.rename(now)
    try:
        return run_command(command, now, late=late)
    finally:
        now.rename(base)
        aside.rename(now)


def with_interpreter(context: Context, found: Interpreter) -> Context:
    """The same context on another interpreter."""
    return replace(context, interpreter=found)
