"""What every watcher must do: say soon that something may have changed, whoever changed it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from watchfiles._rust_notify import WatchfilesRustInternalError

from glideslope.adapters import watch
from glideslope.adapters.watch import FolderWatcher
from glideslope.model.ids import Scope

SOON_S = 10.0  # only so that a missing hint is a failure and not a hang
NEVER_S = 3600.0


class Hints:
    """Hints as they come, with the first ones out of the way."""

    def __init__(self, hints: AsyncIterator[None]) -> None:
        self._hints = hints

    async def quiet(self) -> None:
        """Returns when no more hints are on their way."""
        while not await self.none_for(0.45):
            pass

    async def none_for(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await anext(self._hints)
            return False
        return True

    async def soon(self) -> None:
        with anyio.fail_after(SOON_S):
            await anext(self._hints)


@asynccontextmanager
async def watching(folder: Path, *, pulse_s: float = NEVER_S) -> AsyncIterator[Hints]:
    async with FolderWatcher(pulse_s=pulse_s).watch(Scope(str(folder))) as hints:
        told = Hints(hints)
        await told.quiet()
        yield told


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for folder in (
        ".git/objects/ab",
        ".git/refs/heads",
        "src/shop",
        ".venv/lib/python3.11/site-packages",
        "old",
    ):
        (root / folder).mkdir(parents=True)
    for file in ("src/shop/cart.py", ".git/HEAD", "old/a.txt"):
        (root / file).write_text("1")
    return root


def by_sed(root: Path) -> None:
    subprocess.run(["sed", "-i", "s/1/2/", "src/shop/cart.py"], cwd=root, check=True)


EDITS: dict[str, Callable[[Path], object]] = {
    "a write in place": lambda root: (root / "src/shop/cart.py").write_text("2"),
    "a write by rename, as editors do": lambda root: (
        (root / "src/shop/.cart.tmp").write_text("2"),
        os.replace(root / "src/shop/.cart.tmp", root / "src/shop/cart.py"),
    ),
    "another program": by_sed,
    "a new file": lambda root: (root / "src/new.py").touch(),
    "a removal": lambda root: (root / "src/shop/cart.py").unlink(),
    "a mode": lambda root: (root / "src/shop/cart.py").chmod(0o755),
    "a link": lambda root: (root / "link").symlink_to("src"),
    "a branch switch": lambda root: (root / ".git/HEAD").write_text("2"),
    "a moved branch": lambda root: (root / ".git/refs/heads/main").write_text("2"),
    "an installed distribution": lambda root: (
        root / ".venv/lib/python3.11/site-packages/x.dist-info"
    ).mkdir(),
    "a folder that went": lambda root: shutil.rmtree(root / "old"),
}


@pytest.mark.process
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_a_change_is_hinted_at(tree: Path, edit: Callable[[Path], object]) -> None:
    async with watching(tree) as hints:
        edit(tree)
        await hints.soon()


NOTHINGS: dict[str, Callable[[Path], object]] = {
    "git's own objects": lambda root: (root / ".git/objects/ab/cdef").touch(),
    "bytecode": lambda root: (root / "src/shop/__pycache__").mkdir(),
    "a cache": lambda root: (root / ".mypy_cache").mkdir(),
    "the depths of an environment": lambda root: (root / ".venv/lib/x").touch(),
}


@pytest.mark.parametrize("edit", NOTHINGS.values(), ids=NOTHINGS.keys())
async def test_what_cannot_matter_is_not_hinted_at(tree: Path, edit: Callable[[Path], object]) -> None:
    async with watching(tree) as hints:
        edit(tree)
        assert await hints.none_for(0.6)


async def test_what_happens_in_a_folder_that_is_new_or_came_back_is_hinted_at(tree: Path) -> None:
    async with watching(tree) as hints:
        (tree / "fresh/deep").mkdir(parents=True)
        await hints.soon()
        await hints.quiet()
        (tree / "fresh/deep/file").touch()
        await hints.soon()
        await hints.quiet()

        shutil.rmtree(tree / "src")
        (tree / "src/shop").mkdir(parents=True)
        await hints.soon()
        await hints.quiet()
        (tree / "src/shop/cart.py").touch()
        await hints.soon()


async def test_a_link_is_not_followed_out_of_the_worktree(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "src/link").symlink_to(outside)
    async with watching(tree) as hints:
        (outside / "file").touch()
        assert await hints.none_for(0.6)


async def test_a_worktree_that_is_gone_and_back_is_watched_again(tree: Path, tmp_path: Path) -> None:
    async with watching(tree, pulse_s=0.05) as hints:
        tree.rename(tmp_path / "away")
        await hints.soon()
        await hints.soon()  # the pulse, while there is nothing to watch
        (tmp_path / "away").rename(tree)
        await hints.quiet()
        (tree / "src/shop/cart.py").write_text("3")
        await hints.soon()


async def test_without_watches_a_pulse_goes_on(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_watches_left(*_: object) -> None:
        raise WatchfilesRustInternalError("OS file watch limit reached")

    monkeypatch.setattr(watch, "RustNotify", no_watches_left)
    async with FolderWatcher(pulse_s=0.02).watch(Scope(str(tree))) as hints:
        with anyio.fail_after(SOON_S):
            for _ in range(10):
                await anext(hints)


async def test_too_many_folders_are_left_to_the_pulse(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_FOLDERS", 2)
    monkeypatch.setattr(watch, "RustNotify", None)
    async with FolderWatcher(pulse_s=0.02).watch(Scope(str(tree))) as hints:
        with anyio.fail_after(SOON_S):
            for _ in range(3):
                await anext(hints)


async def test_a_burst_is_few_hints_and_a_writer_that_never_pauses_is_still_heard(tree: Path) -> None:
    async with watching(tree) as hints:
        for n in range(500):
            (tree / "src" / f"f{n}").touch()
        await hints.soon()
        await hints.quiet()

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:

                async def write_on() -> None:
                    for n in range(100_000):
                        (tree / "src/shop/cart.py").write_text(str(n))
                        await anyio.sleep(0.01)

                group.start_soon(write_on)
                await hints.soon()
                await hints.soon()
                group.cancel_scope.cancel()


async def test_nothing_is_left_when_a_watch_ends(tree: Path) -> None:
    def watches() -> int:
        links = Path("/proc/self/fd").iterdir()
        return sum(os.readlink(link) == "anon_inode:inotify" for link in links if os.path.lexists(link))

    before = watches()
    for _ in range(3):
        async with watching(tree):
            assert watches() > before
    with anyio.fail_after(SOON_S):
        while watches() > before:
            await anyio.sleep(0.01)
