"""Set-up on machines where something is missing, and skips in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.process


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "check out"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    return folder


def make(checkout: Path, *, without: str = "", python3: str | None = None, **variables: str) -> str:
    """Runs `make setup` with a PATH of few programs; returns what it said when it failed."""
    programs = checkout.parent / "programs"
    programs.mkdir()
    for name in {"sh", "git"} - {without}:
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
    if python3 is not None:
        (programs / "python3").write_text(f"#!/bin/sh\n{python3}\n")
        (programs / "python3").chmod(0o755)
    command = [
        shutil.which("make") or "make",
        "setup",
        *(f"{key}={value}" for key, value in variables.items()),
    ]
    done = subprocess.run(
        command, cwd=checkout, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert not (checkout / ".venv").exists()
    return done.stderr


def test_missing_git_is_named_with_its_package(checkout: Path) -> None:
    assert "apt-get install git" in make(checkout, without="git")


def test_missing_python_is_named_with_its_packages(checkout: Path) -> None:
    assert "apt-get install python3 python3-venv" in make(checkout)


def test_python_that_is_too_old_is_told_from_one_without_venv(checkout: Path) -> None:
    assert "no Python 3.11 or later" in make(checkout, python3="exit 1")


def test_missing_venv_is_named_with_its_package(checkout: Path) -> None:
    without_venv = 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac'
    assert "apt-get install python3-venv" in make(checkout, python3=without_venv)


def test_an_interpreter_given_by_hand_that_does_not_do_is_named(checkout: Path) -> None:
    assert "PYTHON=false is not" in make(checkout, PYTHON="false")


@pytest.mark.parametrize(
    ("text", "in_ci"),
    [
        ("import pytest\ndef test_it(): pytest.skip('no postgres here')\n", 1),
        ("import pytest\npytest.skip('no postgres here', allow_module_level=True)\n", 2),
        ("import pytest\n@pytest.mark.skipif(True, reason='no postgres here')\ndef test_it(): pass\n", 1),
        ("import pytest\n@pytest.mark.xfail(reason='no postgres here')\ndef test_it(): assert False\n", 0),
    ],
)
def test_in_ci_a_skip_fails_with_its_reason_and_an_expected_failure_does_not(
    tmp_path: Path, text: str, in_ci: int
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path)]
    variables = {name: value for name, value in os.environ.items() if name != "GLIDESLOPE_CI"}
    plain = subprocess.run(command, env=variables, capture_output=True, text=True)
    strict = subprocess.run(command, env={**variables, "GLIDESLOPE_CI": "1"}, capture_output=True, text=True)
    assert (plain.returncode, strict.returncode) == (0, in_ci), strict.stdout
    assert "no postgres here" in strict.stdout
