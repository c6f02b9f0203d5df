"""Real projects, brought here once per version: `prepare(project)` gives a folder to verify.

Everything lies in a cache folder outside this repository: `GLIDESLOPE_TEST_CACHE`, else the user's
cache folder. A folder there is a git repository with one commit, the project's source distribution,
and an ignored `.venv` with pinned tools in which the project is installed in place.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent
IGNORED = (".venv/", "__pycache__/", "*.egg-info/", "*.so", "build/", ".pytest_cache/", ".ruff_cache/")
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One row of `projects.toml`."""

    name: str
    version: str
    sdist_sha256: str
    packages: tuple[str, ...]  # folders of its modules, relative to its root
    tests_in: tuple[str, ...]  # folders below them that hold tests
    require: tuple[str, ...]  # pinned requirements of its .venv
    seed: int

    @property
    def key(self) -> str:
        """What everything computed from it depends on: its row, this interpreter, this user's rights."""
        fields = (self.version, self.sdist_sha256, self.require, sys.version, os.geteuid() == 0)
        return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        return cache() / f"{self.name}-{self.version}"

    @property
    def python(self) -> Path:
        return self.folder / ".venv" / "bin" / "python"

    def modules(self) -> tuple[Path, ...]:
        """Every module of its packages, tests left out, sorted."""
        found = (path for package in self.packages for path in (self.folder / package).rglob("*.py"))
        apart = tuple(self.folder / tests for tests in self.tests_in)
        return tuple(sorted(p for p in found if not any(p.is_relative_to(tests) for tests in apart)))

    def tests(self) -> tuple[Path, ...]:
        """Every file that pytest would take for a test file by its name, sorted."""
        found = (p for p in self.folder.rglob("*.py") if re.fullmatch(r"test_.*|.*_test", p.stem))
        return tuple(sorted(p for p in found if ".venv" not in p.relative_to(self.folder).parts))


def projects() -> dict[str, Project]:
    """All rows of `projects.toml`, by name."""
    rows = tomllib.loads((DATA / "projects.toml").read_text(encoding="utf-8"))
    return {
        name: Project(
            name=name,
            version=row["version"],
            sdist_sha256=row["sdist_sha256"],
            packages=tuple(row["packages"]),
            tests_in=tuple(row.get("tests_in", ())),
            require=tuple(row["require"]),
            seed=row["seed"],
        )
        for name, row in rows.items()
    }


def chosen(default: Sequence[str] = ()) -> tuple[Project, ...]:
    """The projects of `GLIDESLOPE_TEST_PROJECTS` (names, commas or spaces), else `default`, else all."""
    known = projects()
    names = re.split(r"[,\s]+", os.environ.get("GLIDESLOPE_TEST_PROJECTS", "").strip(", \n"))
    named = [name for name in names if name] or list(default) or list(known)
    unknown = [name for name in named if name not in known]
    if unknown:
        raise SystemExit(f"no such project: {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(known[name] for name in named)


def cache() -> Path:
    """The folder of downloads, prepared projects and results of plain pytest. Made if missing."""
    given = os.environ.get("GLIDESLOPE_TEST_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(given) if given else Path(base, "glideslope-test-projects")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@contextmanager
def prepare(project: Project) -> Iterator[Path]:
    """The project's folder, as committed, for this process alone until the block ends."""
    with (cache() / f"{project.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = cache() / f"{project.name}-{project.version}.ready"
        if not ready.exists() or ready.read_text() != project.key:
            ready.unlink(missing_ok=True)
            _make(project)
            ready.write_text(project.key)
        restore(project.folder)
        yield project.folder


def restore(folder: Path) -> None:
    """Takes back every edit of tracked files and removes what is untracked and not ignored."""
    _call((*GIT, "checkout", "--quiet", "--force", "main", "--", "."), folder)
    _call((*GIT, "clean", "--quiet", "--force", "-d"), folder)


def _make(project: Project) -> None:
    folder = project.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _call((sys.executable, "-m", "venv", ".venv"), folder)
    pip = (str(project.python), "-m", "pip")
    _call((*pip, "install", "--quiet", "--no-deps", *project.require), folder)
    _unpack(_download(project, pip), folder)
    ignore = folder / ".gitignore"
    there = ignore.read_text() if ignore.exists() else ""
    ignore.write_text(there + "\n".join(("", *IGNORED, "")))
    _call((*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", "."), folder)
    _call((*GIT, "init", "--quiet", "--initial-branch", "main"), folder)
    _call((*GIT, "add", "--all"), folder)
    _call((*GIT, "commit", "--quiet", "--message", f"{project.name} {project.version}"), folder)


def _download(project: Project, pip: tuple[str, ...]) -> Path:
    target = cache() / "sdists" / f"{project.name}-{project.version}"
    if not any(target.glob("*.tar.gz")):
        what = f"{project.name}=={project.version}"
        how = ("--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(target))
        _call((*pip, "download", *how, what), project.folder)
    (sdist,) = target.glob("*.tar.gz")
    found = hashlib.sha256(sdist.read_bytes()).hexdigest()
    if found != project.sdist_sha256:
        raise SystemExit(f"{sdist.name} has sha256 {found}, projects.toml says {project.sdist_sha256}")
    return sdist


def _unpack(sdist: Path, folder: Path) -> None:
    with tarfile.open(sdist) as archive:
        for member in archive:
            _, _, inner = member.name.partition("/")
            if inner:
                member.name = inner
                archive.extract(member, folder, filter="data")


def _call(argv: Sequence[str], folder: Path) -> None:
    """Runs a tool there; its output is shown only where it fails."""
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, env=clean_environment())
    if ended.returncode:
        raise SystemExit(
            f"{' '.join(argv)}\nended {ended.returncode} in {folder}\n{ended.stdout}{ended.stderr}"
        )


def clean_environment() -> dict[str, str]:
    """This process's variables without those that name another Python environment or repository."""
    unwanted = re.compile(r"VIRTUAL_ENV|PYTHON(PATH|HOME|WARNINGS)|PYTEST_.*|GIT_.*|GLIDESLOPE.*")
    return {name: value for name, value in os.environ.items() if not unwanted.fullmatch(name)}
