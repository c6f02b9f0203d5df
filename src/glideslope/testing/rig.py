"""An engine on a real repository and a real sandbox, with a toolchain that is a script of the test.

For tests of the engine itself, and of surfaces that need one that runs.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from glideslope.adapters.backends import BackendFolder
from glideslope.adapters.bus import JournalBus
from glideslope.adapters.bytecode import TreeBytecode
from glideslope.adapters.clock import SystemClock
from glideslope.adapters.environments.launch import BOOT
from glideslope.adapters.environments.sandboxes import LocalSandboxes
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.logs import LogFolder
from glideslope.adapters.settings import FileSettings
from glideslope.adapters.state import StateFolder
from glideslope.adapters.storage import StateStorage
from glideslope.adapters.vcs import LocalVcs
from glideslope.adapters.watch import FolderWatcher
from glideslope.engine.actions import Caller, RunView, Started, Verify, WaitRun
from glideslope.engine.climb import Kit
from glideslope.engine.engine import Engine, World
from glideslope.engine.execute import Site
from glideslope.engine.runner import Runner
from glideslope.engine.survey import Surveyor
from glideslope.model.event import Recorded
from glideslope.model.ids import EnvironmentKey, TaskId
from glideslope.model.project import Interpreter, Project
from glideslope.model.result import ProjectRung, RungState
from glideslope.model.run import Run
from glideslope.model.rung import Rung
from glideslope.model.task import TaskResult, TaskState
from glideslope.ports.toolchain import ChangeFacts, Command, Context, Output, Script, Tools, Tree


@dataclass
class ScriptedInterpreters:
    """Always the interpreter of the test itself."""

    key: str = "e1"

    def find(self, **_: object) -> Interpreter:
        """See the port."""
        return Interpreter(
            executable=sys.executable,
            prefix=sys.prefix,
            version=sys.version_info[:3],
            implementation="cpython",
            how="test",
            key=EnvironmentKey(self.key),
        )


def check_script(context: Context, code: str) -> Script:
    """Runs one Python program in the sandbox; its exit status is the rung's state."""
    (output,) = yield (Command(kind="check", argv=(context.interpreter.executable, "-c", code), cwd=""),)
    if output.outcome != "exited":
        return ProjectRung(state=RungState.DIED, reason=output.outcome, log_ref=output.log_ref)
    state = RungState.PASS if output.code == 0 else RungState.FAIL
    return ProjectRung(
        state=state, summary=output.stdout.decode(), exit_code=output.code, log_ref=output.log_ref
    )


@dataclass
class ScriptedToolchain:
    """Each rung runs `code`, which the test may change; `contexts` tells what the scripts saw."""

    code: str = "print('ok', end='')"
    reached: bool = False
    name: str = "scripted"
    selector: str = "1"
    contexts: list[tuple[Rung, Context]] = field(default_factory=list)

    def projects(self, tree: Tree) -> tuple[Project, ...]:
        """One project, the root."""
        return (Project(name=".", root="", toolchain="scripted"),)

    def facts(self, context: Context) -> ChangeFacts:
        """As the test says; a change is neutral where there is none."""
        return ChangeFacts(reached_by_tests=self.reached, neutral=not context.changes)

    def script(self, rung: Rung, context: Context) -> Script:
        """One check per rung, and a note of what it was given."""
        self.contexts.append((rung, context))
        return check_script(context, self.code)

    def covers(self, rung: Rung, context: Context) -> str:
        """Nothing is selected."""
        return ""

    def ending(self, output: Output) -> TaskResult:
        """By the exit status."""
        states = {0: TaskState.COMPLETED, None: TaskState.DIED}
        return TaskResult(state=states.get(output.code, TaskState.FAILED))

    def progress(self, command: Command, line: bytes) -> str | None:
        """Nothing to say."""
        return None


@dataclass
class Rig:
    """A running engine, its repository, and what the test may pull on."""

    engine: Engine
    journal: SqliteJournal
    toolchain: ScriptedToolchain
    interpreters: ScriptedInterpreters
    repo: Path
    state: Path

    def caller(self) -> Caller:
        """Someone in the repository."""
        return Caller(folder=str(self.repo))

    async def start(self, **options: object) -> Started:
        """Asks for a verify."""
        answer = await self.engine.act(Verify(caller=self.caller(), **options))  # type: ignore[arg-type]
        assert isinstance(answer, Started)
        return answer

    async def wait(self, started: Started) -> Run:
        """Waits for its end."""
        view = await self.engine.act(WaitRun(run_id=started.run_id, timeout_s=60))
        assert isinstance(view, RunView)
        return view.run

    async def verify(self, **options: object) -> Run:
        """Asks and waits."""
        return await self.wait(await self.start(**options))

    def events(self) -> list[Recorded]:
        """Everything journaled so far."""
        return list(self.journal.read(after=0, limit=10_000))


def git(repo: Path, *arguments: str) -> str:
    """Runs git in a repository of the test."""
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(repo), *arguments]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env={**os.environ, **identity})
    return done.stdout.strip()


@asynccontextmanager
async def open_rig(repo: Path, state: Path) -> AsyncIterator[Rig]:
    """Wires an engine as the composition root does, but for toolchain and interpreters."""
    toolchain, interpreters, clock = ScriptedToolchain(), ScriptedInterpreters(), SystemClock()
    complaints: list[str] = []
    folder = StateFolder.open(str(state))
    journal, vcs = SqliteJournal(folder.journal, clock), LocalVcs(folder.root)
    logs = LogFolder(folder.logs)
    sandboxes = LocalSandboxes(
        trees=os.path.join(folder.root, "trees"),
        substrates=os.path.join(folder.root, "substrates"),
        hidden=(folder.root,),
        worker=os.path.dirname(BOOT),
    )

    def site(runner: Runner) -> Site:
        return Site(
            clock=clock,
            runner=runner,
            vcs=vcs,
            logs=logs,
            sandboxes=sandboxes,
            toolchain=toolchain,
            bytecode=TreeBytecode(worker=os.path.dirname(BOOT)),
            backends=BackendFolder(folder.root),
            new_task=lambda: TaskId(secrets.token_hex(6)),
        )

    settings = FileSettings(user_file=None)
    world = World(
        clock=clock,
        journal=journal,
        bus=JournalBus(journal),
        logs=logs,
        watcher=FolderWatcher(),
        sandboxes=sandboxes,
        surveyor=Surveyor(vcs=vcs, toolchain=toolchain, interpreters=interpreters, settings=settings),
        storage=StateStorage(state=folder, vcs=vcs, journal=journal, cap_bytes=10**9),
        keep_runs=50,
        new_id=lambda: secrets.token_hex(6),
        complain=complaints.append,
        version="0",
    )
    tools = Tools(ruff=(), ty=(), ruff_version="0", worker=os.path.dirname(BOOT))
    kit = Kit(clock=clock, journal=journal, toolchain=toolchain, tools=tools)
    engine = Engine(world=world, kit=kit, site=site, cap=2)
    engine.recover()
    try:
        yield Rig(engine, journal, toolchain, interpreters, repo, state)
        assert not complaints, complaints
    finally:
        await engine.close()
        vcs.close()
        journal.close()
