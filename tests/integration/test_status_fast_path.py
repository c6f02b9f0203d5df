"""`status --json` with the daemon up: what is loaded for it, and when it gives way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glideslope.surfaces.client import connect, find, wait_stopped
from glideslope_fast import VERSION
from glideslope_fast.status import try_status

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
HEAVY = {
    "anyio",
    "asyncio",
    "click",
    "glideslope.codec",
    "glideslope.engine",
    "msgspec",
    "subprocess",
    "typing",
}


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    made = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "GLIDESLOPE_STATE_DIR": str(tmp_path / "state"),
    }
    yield made
    client = find(environ=made)
    if client is not None:
        os.kill(client.daemon.pid, signal.SIGKILL)
        client.close()
        assert wait_stopped(client.state_dir, timeout_s=20)


def start_daemon(environ: dict[str, str], **variables: str) -> None:
    fake = str(ROOT / "tests" / "integration" / "fake_daemon.py")
    command = ("/usr/bin/env", f"PYTHONPATH={ROOT / 'src'}", sys.executable, fake)
    client = connect(command=command, environ={**environ, **variables})
    client.close()


def in_a_fresh_process(environ: dict[str, str], *arguments: str) -> tuple[bool, str, set[str]]:
    """Whether the fast path took it, what it printed, and which modules it loaded."""
    program = (
        "import sys, glideslope.__main__\n"
        "from glideslope_fast.status import try_status\n"
        "import os\n"
        "taken = try_status(sys.argv[1:], os.environ)\n"
        "sys.stderr.write(repr((taken, sorted(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        env=environ,
        cwd=environ["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    taken, modules = eval(done.stderr)
    return taken, done.stdout, set(modules)


def test_it_prints_one_envelope_and_loads_nothing_heavy(environ: dict[str, str]) -> None:
    start_daemon(environ)
    taken, printed, modules = in_a_fresh_process(environ, "status", "--json")

    assert taken
    envelope: dict[str, Any] = json.loads(printed)
    assert printed.count("\n") == 1
    assert (envelope["schema"], envelope["ok"], envelope["error"]) == ("glideslope/1", True, None)
    assert envelope["data"]["workspace"] == environ["HOME"]
    assert not modules & HEAVY


@pytest.mark.parametrize(
    "arguments", [[], ["status"], ["status", "--json", "--repo", "x"], ["verify", "--json"]]
)
def test_other_arguments_are_left_to_the_command_line_at_once(
    environ: dict[str, str], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    start_daemon(environ)

    assert not try_status(arguments, environ)
    assert capsys.readouterr().out == ""


def test_without_a_daemon_it_gives_way_and_starts_none(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not try_status(["status", "--json"], environ)
    assert capsys.readouterr().out == ""
    assert not os.path.exists(environ["GLIDESLOPE_STATE_DIR"])


def test_a_daemon_of_another_version_is_left_to_the_command_line(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    start_daemon(environ)
    assert try_status(["status", "--json"], environ)
    assert capsys.readouterr().out != ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glideslope_fast.status.VERSION", "9.9.9")
        assert not try_status(["status", "--json"], environ)
    assert capsys.readouterr().out == ""


def test_a_name_that_needs_an_escape_is_left_to_the_command_line(environ: dict[str, str]) -> None:
    start_daemon(environ)
    odd = {**environ, "GLIDESLOPE__AGENT__ENVIRONMENT__PYTHON": "/odd/\udcff"}

    assert not try_status(["status", "--json"], odd)


def test_what_the_daemon_refuses_is_left_to_the_command_line(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start_daemon(environ)
    monkeypatch.setattr("glideslope_fast.status._caller", lambda environ: {"folder": 5})

    assert not try_status(["status", "--json"], environ)
    assert capsys.readouterr().out == ""


def test_the_version_that_is_spoken_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project.get("version", VERSION) == VERSION
