"""`verify standard` against `ruff check && ty check && python -m pytest`, on one project.

Alternating, so that both meet the same load. Plain tools run as a user runs them, each to its end
whatever the one before said, with the caches they keep for themselves.
"""

from __future__ import annotations

import ast
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.long.draw import at_rest
from tests.long.product import Product, Verified, product
from tests.long.project import Project, clean_environment, restore

from benchmarks.reach import reach

TOOLS = Path(sysconfig.get_path("scripts"))
FEW = 1 / 3  # a leaf reaches at most this share of the test files


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One edit, verified and then checked with the plain tools."""

    what: str  # first, leaf, hub
    path: str
    verified: Verified
    ruff_s: float
    ty_s: float
    pytest_s: float

    @property
    def plain_s(self) -> float:
        return self.ruff_s + self.ty_s + self.pytest_s

    @property
    def ratio(self) -> float:
        return self.verified.wall_s / self.plain_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """The modules of a project that can be edited, by how many test files they reach; most first."""

    leaves: tuple[Path, ...]  # reach a third of the test files or fewer, and at least one
    hubs: tuple[Path, ...]  # reach all


def modules(project: Project) -> Modules:
    """Sorts the modules that hold a function; where no hub does, hubs are taken without."""
    shares = reach(project)
    by_share = sorted(shares, key=lambda path: (-shares[path], path))
    hubs = [path for path in by_share if shares[path] == 1]
    return Modules(
        leaves=tuple(path for path in by_share if 0 < shares[path] <= FEW and _function(path)),
        hubs=tuple(path for path in hubs if _function(path)) or tuple(hubs),
    )


def measure(project: Project, found: Modules, *, rounds: int) -> tuple[Round, ...]:
    """First verify, leaf edits and hub edits, `rounds` of each; the project is left as it was.

    Edits are made one upon the other, as a person makes them: each is compared with the green
    snapshot before it. Where tests fail at rest there is none, so each is made on the commit.
    """
    base = () if at_rest(project).green else ("--base", "HEAD")
    done: list[Round] = []
    for _ in range(rounds):
        with _fresh(project) as ours:
            done.append(_round(project, ours.verify("standard"), "first", ()))
    with _fresh(project) as ours:
        ours.verify("standard", *base)
        for number in range(rounds):
            for what, paths in (("leaf", found.leaves), ("hub", found.hubs)):
                path = paths[number * len(paths) // rounds]
                edit(path, number)
                verified = ours.verify("standard", *base)
                done.append(_round(project, verified, what, (path,)))
                if base:
                    restore(project.folder)
    restore(project.folder)
    return tuple(done)


def edit(path: Path, number: int) -> None:
    """Changes the module's first function, or adds one, without effect. Never the same text twice."""
    lines = path.read_bytes().splitlines(keepends=True)
    found = _function(path)
    if found is None:
        lines.append(f"\n\ndef _edited_{number}() -> int:\n    return {number}\n".encode())
    else:
        line, indent = found
        lines.insert(line - 1, f"{indent}assert {1000 + number}\n".encode())
    path.write_bytes(b"".join(lines))


def _function(path: Path) -> tuple[int, str] | None:
    """The line of the first statement in a function's body, and its indent; a docstring is passed over."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[ast.get_docstring(node) is not None :]
            if body and body[0].lineno > node.lineno and not getattr(body[0], "decorator_list", None):
                return body[0].lineno, " " * body[0].col_offset
    return None


@contextmanager
def _fresh(project: Project) -> Iterator[Product]:
    with tempfile.TemporaryDirectory() as state, product(Path(state), project.folder) as ours:
        yield ours


def _round(project: Project, verified: Verified, what: str, edited: Sequence[Path]) -> Round:
    python = str(project.python)
    return Round(
        what=what,
        path=" ".join(path.relative_to(project.folder).as_posix() for path in edited),
        verified=verified,
        ruff_s=_timed(project, (str(TOOLS / "ruff"), "check", "--no-fix")),
        ty_s=_timed(project, (str(TOOLS / "ty"), "check", "--python", ".venv")),
        pytest_s=_timed(project, (python, "-m", "pytest")),
    )


def _timed(project: Project, argv: Sequence[str]) -> float:
    """Seconds from start to end; findings and failures are no reason to stop."""
    began = time.monotonic()
    subprocess.run(argv, cwd=project.folder, capture_output=True, env=clean_environment())
    return time.monotonic() - began
