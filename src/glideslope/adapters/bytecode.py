"""Writes checked-hash bytecode into a verify tree with the project's own interpreter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from glideslope.adapters.interpreter import outside_program
from glideslope.model.project import Interpreter
from glideslope.ports.vcs import TreeLease

LIMIT_S = 60.0
REWRITTEN = ("test_", "conftest")  # the test tool compiles these itself, rewritten


class TreeBytecode:
    """Compiles the modules of pool trees, once per tree content and interpreter."""

    def __init__(self, *, worker: str) -> None:
        self._program = os.path.join(worker, "compile_tree.py")
        self._done: dict[tuple[str, str], frozenset[str]] = {}

    async def refresh(self, lease: TreeLease, interpreter: Interpreter, *, root: str) -> None:
        """Compiles what the tree's last refresh does not cover; see the port."""
        key = (lease.tree, interpreter.executable)
        paths = await asyncio.to_thread(lambda: frozenset(_modules(lease.tree)))
        wanted = paths if key not in self._done else (paths - self._done[key]) | set(lease.fresh_paths)
        self._done[key] = paths
        chosen = sorted(path for path in wanted if not path.rpartition("/")[2].startswith(REWRITTEN))
        if chosen:
            await self._compile(lease.tree, root, interpreter, chosen)

    async def _compile(self, tree: str, root: str, interpreter: Interpreter, paths: list[str]) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                outside_program(interpreter.executable, root),
                "-I",
                "-S",
                self._program,
                tree,
                root,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        except OSError:
            return
        names = b"\0".join(os.fsencode(path) for path in paths)
        try:
            await asyncio.wait_for(process.communicate(names), LIMIT_S)
        except TimeoutError:
            pass
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _modules(tree: str) -> Iterator[str]:
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name != "__pycache__"]
        inside = os.path.relpath(folder, tree)
        for name in files:
            if name.endswith(".py"):
                yield name if inside == "." else f"{inside}/{name}"
