"""A repository that ships an environment of its own: nothing in it runs outside the sandbox."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from glideslope.adapters.bytecode import TreeBytecode
from glideslope.adapters.environments.launch import BOOT
from glideslope.adapters.interpreter import LocalInterpreters, outside_program
from glideslope.errors import NoInterpreter
from glideslope.model.ids import EnvironmentKey
from glideslope.model.project import Interpreter
from glideslope.ports.vcs import TreeLease

WORKER = os.path.dirname(BOOT)
REAL = os.path.realpath(sys.executable)
LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = pytest.mark.process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "workspace"
    folder.mkdir()
    return folder


def poisoned(environment: Path, canary: Path) -> Path:
    """A genuine interpreter, linked, beside a configuration that names a library of its own."""
    home = environment / "home" / "bin"
    library = environment / "home" / LIBRARY
    (environment / "bin").mkdir(parents=True)
    home.mkdir(parents=True)
    (library / "encodings").mkdir(parents=True)
    (library / "lib-dynload").mkdir()
    (library / "os.py").touch()
    (library / "encodings" / "__init__.py").write_text(f"import posix\nposix.mkdir({str(canary)!r})\n")
    (environment / "pyvenv.cfg").write_text(f"home = {home}\n")
    (environment / "bin" / "python").symlink_to(REAL)
    return environment / "bin" / "python"


def find(root: Path, foreign: frozenset[str] = frozenset(), setting: str = "") -> Interpreter:
    return LocalInterpreters(worker=WORKER, own_prefix="/nowhere").find(
        workspace_root=str(root),
        project_root=str(root),
        argument=None,
        setting=setting,
        virtual_env=None,
        is_foreign=lambda path: path in foreign,
    )


def test_a_shipped_configuration_cannot_bring_its_own_library_to_the_question_what_it_is(root: Path) -> None:
    canary = root / "canary"
    program = poisoned(root / ".venv", canary)

    found = find(root)

    assert not canary.exists()
    assert (found.executable, found.version) == (str(program), sys.version_info[:3])


@pytest.mark.parametrize("detour", ["/proc/self/root", "", "linked folder"])
def test_no_detour_to_a_shipped_environment_makes_a_difference(root: Path, detour: str) -> None:
    canary = root / "canary"
    program = poisoned(root / ".venv", canary)
    if detour == "linked folder":
        os.rename(root / ".venv" / "bin" / "python", root / "python")
        os.rmdir(root / ".venv" / "bin")
        (root / ".venv" / "bin").symlink_to(os.path.dirname(REAL))
        program = root / ".venv" / "bin" / os.path.basename(REAL)

    find(root, setting=detour + str(program) if detour.startswith("/") else str(program))

    assert not canary.exists()


async def _compile(root: Path, executable: str) -> None:
    tree = root.parent / "tree"
    tree.mkdir()
    (tree / "module.py").write_text("x = 1\n")
    lease = TreeLease(id="1", tree=str(tree), git_layer=None, objects=None, objects_at=None)
    interpreter = Interpreter(
        executable=executable,
        prefix=os.path.dirname(os.path.dirname(executable)),
        version=sys.version_info[:3],
        implementation="cpython",
        how=".venv",
        distributions={},
        key=EnvironmentKey("k"),
    )
    await TreeBytecode(worker=WORKER).refresh(lease, interpreter, root=str(root))


def test_a_shipped_configuration_cannot_bring_its_own_library_to_the_compiling(root: Path) -> None:
    canary = root / "canary"
    program = poisoned(root / ".venv", canary)

    asyncio.run(_compile(root, str(program)))

    assert not canary.exists()
    assert list((root.parent / "tree").glob("__pycache__/module.*.pyc"))


def test_a_copied_interpreter_among_files_of_the_repository_is_refused(root: Path) -> None:
    program = root / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    with pytest.raises(NoInterpreter, match="lies among such"):
        find(root, foreign=frozenset({str(root / ".venv")}))


def test_a_copy_of_the_repository_in_the_state_folder_holds_no_interpreter(
    root: Path, tmp_path: Path
) -> None:
    program = tmp_path / "state" / "trees" / "0" / "tree" / "evil"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nmkdir '{root}/canary'\n")
    program.chmod(0o755)
    finder = LocalInterpreters(worker=WORKER, own_prefix="/nowhere", trees=str(tmp_path / "state"))

    with pytest.raises(NoInterpreter, match="file of the repository"):
        finder.find(
            workspace_root=str(root),
            project_root=str(root),
            argument=None,
            setting=str(program),
            virtual_env=None,
            is_foreign=lambda _: False,
        )
    assert not (root / "canary").exists()


def test_an_interpreter_elsewhere_is_started_as_it_was_named(root: Path, tmp_path: Path) -> None:
    # What picks a version by its own name (a shim) must keep that name.
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.symlink_to(REAL)

    assert outside_program(str(shim), str(root)) == str(shim)
