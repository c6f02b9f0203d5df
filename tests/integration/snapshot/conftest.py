"""A real repository, and snapshots of it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from glideslope.adapters.vcs import LocalVcs
from glideslope.model.paths import RepoPath
from glideslope.model.settings import EnvironmentSettings
from glideslope.model.snapshot import Entry, Snapshot
from glideslope.ports.vcs import TreeLease

CARRY = (".venv", "node_modules")
CARRY_FILES = EnvironmentSettings().carry_files


@dataclass(frozen=True)
class Repository:
    """A folder and the user's own git in it."""

    root: Path

    def git(self, *arguments: str, ok: bool = True) -> str:
        """Runs git as the user would; returns what it printed."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout

    def write(self, path: str, content: str | bytes) -> Path:
        """Writes a file, its folders included."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "a commit") -> str:
        """Commits everything; returns the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()


@dataclass
class Bench:
    """One state folder and everything a test asks of it."""

    folder: Path
    vcs: LocalVcs = field(init=False)

    def __post_init__(self) -> None:
        self.vcs = LocalVcs(str(self.state))

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    def restart(self) -> None:
        """What the next process would see."""
        self.vcs.close()
        self.vcs = LocalVcs(str(self.state))

    def snapshot(self, root: Path, carry_files: tuple[str, ...] = CARRY_FILES) -> Snapshot:
        """A snapshot of the workspace at a folder."""
        workspace = self.vcs.locate(str(root), explicit=True)
        return self.vcs.snapshot(workspace, carry=CARRY, carry_files=carry_files)

    def lease(
        self, root: Path, snapshot: Snapshot, entries: Mapping[RepoPath, Entry] | None = None
    ) -> TreeLease:
        """The tree of a snapshot, or of other entries."""
        workspace = self.vcs.locate(str(root), explicit=True)
        return self.vcs.lease(workspace, snapshot.entries if entries is None else entries, snapshot)

    def text(self, snapshot: Snapshot, path: str) -> str:
        """What a snapshot holds at a path."""
        entry = snapshot.entry(RepoPath(path))
        assert entry is not None, sorted(snapshot.entries)
        return self.vcs.read(entry.blob).decode()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, so that nobody's git settings count."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        '[protocol "file"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n'
    )
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[str], Repository]:
    """Makes empty repositories by name."""

    def make(name: str) -> Repository:
        repository = Repository(tmp_path / "wörk" / name)
        repository.root.mkdir(parents=True)
        repository.git("init", "-q")
        return repository

    return make


@pytest.fixture
def repository(make_repository: Callable[[str], Repository]) -> Repository:
    """A repository with one commit."""
    made = make_repository("my project")
    made.write("pkg/a.py", "a = 1\n")
    made.write("pkg/b.py", "b = 1\n")
    made.write("README", "read me\n")
    made.write(".gitignore", "*.so\n.env\n_version.py\nbuild/\n")
    made.commit()
    return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A state folder."""
    made = Bench(tmp_path)
    yield made
    made.vcs.close()


@pytest.fixture
def seen() -> Callable[[Path], dict[str, tuple[int, int, int, bytes]]]:
    """Reads every path below a folder: mode, size, modification time, content."""

    def read(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
        found = {}
        for path in sorted(folder.rglob("*")):
            looks = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(looks.st_mode) else b""
            found[str(path.relative_to(folder))] = (looks.st_mode, looks.st_size, looks.st_mtime_ns, content)
        return found

    return read


@pytest.fixture
def content_of() -> Callable[[str], dict[str, tuple[str, bytes]]]:
    """Reads what a folder holds, in the terms of a snapshot: mode and content of every file and link."""
    return _content_of


def _content_of(tree: str) -> dict[str, tuple[str, bytes]]:
    """What a folder holds, in the terms of a snapshot: mode and content of every file and link."""
    found = {}
    for above, folders, files in os.walk(os.fsencode(tree)):
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(above, name)))]:
            path = os.path.join(above, name)
            looks = os.lstat(path)
            key = os.path.relpath(path, os.fsencode(tree)).decode("utf-8", "surrogateescape")
            if stat.S_ISLNK(looks.st_mode):
                found[key] = ("120000", os.readlink(path))
            else:
                with open(path, "rb") as file:
                    found[key] = ("100755" if looks.st_mode & 0o100 else "100644", file.read())
    return found
