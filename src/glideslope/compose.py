"""The composition root: from a state folder to a wired engine. Only here are concrete classes named."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from glideslope.adapters.backends import BackendFolder
from glideslope.adapters.bus import JournalBus
from glideslope.adapters.bytecode import TreeBytecode
from glideslope.adapters.clock import SystemClock
from glideslope.adapters.environments.launch import BOOT
from glideslope.adapters.environments.sandboxes import LocalSandboxes
from glideslope.adapters.interpreter import LocalInterpreters
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.lock import Owner, StateLock
from glideslope.adapters.logs import LogFolder
from glideslope.adapters.settings import FileSettings, user_settings_file
from glideslope.adapters.state import StateFolder
from glideslope.adapters.storage import StateStorage
from glideslope.adapters.vcs import LocalVcs
from glideslope.adapters.watch import FolderWatcher
from glideslope.engine.climb import Kit
from glideslope.engine.engine import Engine, World
from glideslope.engine.execute import Site
from glideslope.engine.runner import Runner
from glideslope.engine.survey import Surveyor
from glideslope.model.ids import TaskId
from glideslope.ports.toolchain import Tools
from glideslope.toolchains.python import PythonToolchain

_LOGGER = logging.getLogger("glideslope")
WORKER = os.path.dirname(BOOT)


@asynccontextmanager
async def build(state_dir: str, *, socket: str | None = None) -> AsyncIterator[Engine]:
    """Wires an engine on a state folder, owns the folder for as long, and recovers what was left.

    Args:
        state_dir: Host path of the state folder; made where it is missing.
        socket: Where clients reach the engine; None for an engine inside a program.

    Raises:
        EngineBusy: Another engine owns the folder.
        StateUnavailable: The folder cannot be written.
    """
    state = StateFolder.open(state_dir)
    lock = StateLock.acquire(state.root, Owner(pid=os.getpid(), version=version("glideslope"), socket=socket))
    try:
        clock = SystemClock()
        journal = SqliteJournal(state.journal, clock)
        vcs = LocalVcs(state.root)
        try:
            engine = _engine(state, clock, journal, vcs, socket)
            engine.recover()
            tidying = asyncio.create_task(engine.keep_tidy())
            try:
                yield engine
            finally:
                tidying.cancel()
                await asyncio.gather(tidying, return_exceptions=True)
                await engine.close()
        finally:
            vcs.close()
            journal.close()
    finally:
        lock.release()


def _engine(
    state: StateFolder, clock: SystemClock, journal: SqliteJournal, vcs: LocalVcs, socket: str | None
) -> Engine:
    settings = FileSettings(user_file=user_settings_file(os.environ))
    toolchain = PythonToolchain()
    own = settings.load(workspace_root=None, variables={}).settings.environment
    logs = LogFolder(state.logs)
    sandboxes = LocalSandboxes(
        trees=os.path.join(state.root, "trees"),
        substrates=os.path.join(state.root, "substrates"),
        hidden=(state.root, *((os.path.dirname(socket),) if socket else ())),
        worker=WORKER,
    )
    interpreters = LocalInterpreters(worker=WORKER, own_prefix=sys.prefix, trees=state.root)

    def site(runner: Runner) -> Site:
        return Site(
            clock=clock,
            runner=runner,
            vcs=vcs,
            logs=logs,
            sandboxes=sandboxes,
            toolchain=toolchain,
            bytecode=TreeBytecode(worker=WORKER),
            backends=BackendFolder(state.root),
            new_task=lambda: TaskId(f"t-{secrets.token_hex(6)}"),
        )

    world = World(
        clock=clock,
        journal=journal,
        bus=JournalBus(journal),
        logs=logs,
        watcher=FolderWatcher(),
        sandboxes=sandboxes,
        surveyor=Surveyor(vcs=vcs, toolchain=toolchain, interpreters=interpreters, settings=settings),
        storage=StateStorage(state=state, vcs=vcs, journal=journal, cap_bytes=own.state_max_bytes),
        keep_runs=own.keep_runs,
        new_id=lambda: secrets.token_hex(6),
        complain=_LOGGER.error,
        version=version("glideslope"),
    )
    kit = Kit(clock=clock, journal=journal, toolchain=toolchain, tools=_tools())
    return Engine(world=world, kit=kit, site=site, cap=own.runner_max_concurrency)


def _tools() -> Tools:
    return Tools(ruff=(_program("ruff"),), ty=(_program("ty"),), ruff_version=version("ruff"), worker=WORKER)


def _program(name: str) -> str:
    """A tool of our own installation: beside our interpreter, wherever PATH points."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name) or name
