"""One daemon for all acceptance tests, and repositories made on the fly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.desk import TINY, Desk, Repo, a_desk, check_journal


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The command line on a private state folder; whatever was done, its journal must be whole."""
    with a_desk(tmp_path_factory.mktemp("desk")) as made:
        yield made
        check_journal(made.events())


@pytest.fixture
def repo(desk: Desk, tmp_path: Path) -> Repo:
    """A committed project of one module and one test."""
    root = tmp_path / "tiny"
    root.mkdir()
    return Repo(desk=desk, root=root).commit(TINY)


@pytest.fixture
def folder(desk: Desk, tmp_path: Path) -> Repo:
    """An empty folder that is no repository."""
    root = tmp_path / "folder"
    root.mkdir()
    return Repo(desk=desk, root=root)
