"""Standard streams that are closed, or that cannot be written: never a traceback, never exit 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SRC = Path(__file__).parents[2] / "src"
ARGUMENTS = [["config", "schema"], ["config", "show", "--json"], ["completion", "bash"]]


def run(arguments: list[str], redirection: str, folder: Path) -> tuple[int, bytes]:
    """The exit code of a command with a stream redirected, and what it says on the other one."""
    script = f'exec "$0" -m glideslope "$@" {redirection}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SRC),
            "HOME": str(folder),
            "GLIDESLOPE_STATE_DIR": str(folder / "state"),
        },
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_command_with_a_closed_stream_does_what_it_is_asked(
    tmp_path: Path, arguments: list[str], closed: str
) -> None:
    code, said = run(arguments, closed, tmp_path)

    assert (code, b"Traceback" in said) == (0, False)
    assert bool(said) == (not closed.startswith(">"))


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_an_output_that_cannot_be_written_is_not_taken_for_a_verdict(
    tmp_path: Path, arguments: list[str]
) -> None:
    code, said = run(arguments, ">/dev/full", tmp_path)

    assert (code, b"Traceback" in said) == (5, False)
    assert b"internal" not in said


def test_nobody_is_told_that_nobody_can_be_told(tmp_path: Path) -> None:
    assert run(["config", "schema"], "2>/dev/full", tmp_path)[0] == 0
    assert run(["no-such-command"], "2>/dev/full", tmp_path)[0] == 2
