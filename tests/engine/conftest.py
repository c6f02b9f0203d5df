"""A small repository, and an engine on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glideslope.testing.rig import Rig, git, open_rig


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small repository with one commit on main."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    (folder / "value.py").write_text("VALUE = 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
async def rig(repo: Path, tmp_path: Path) -> AsyncIterator[Rig]:
    """An engine on the small repository."""
    async with open_rig(repo, tmp_path / "state") as made:
        yield made
