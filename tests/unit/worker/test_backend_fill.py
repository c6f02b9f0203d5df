"""Filling a build environment: which pip, and what of its words is passed on."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glideslope.worker import backend_fill

BOOT = Path(backend_fill.__file__).with_name("boot.py")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "Looking in indexes: https://ann:pa%24s@host/simple",
            "Looking in indexes: https://****@host/simple",
        ),
        ("password pa$s refused for ann:pa%24s", "password **** refused for ****"),
        ("proxy bob:w0rd@gate:80", "proxy ****@gate:80"),
        ("other https://x:y@elsewhere", "other https://****@elsewhere"),
        ("Collecting hatchling", "Collecting hatchling"),
    ],
)
def test_no_credential_is_passed_on(line: str, shown: str) -> None:
    secrets = backend_fill.secrets_of(
        {"PIP_INDEX_URL": "https://ann:pa%24s@host/simple", "https_proxy": "bob:w0rd@gate:80", "X": "/a/b@c"}
    )
    assert backend_fill.redact(line, secrets) == shown


def fill(folder: Path, *requirements: str, **env: str) -> tuple[int, list[dict[str, object]], str]:
    read_fd, write_fd = os.pipe()
    program = [sys.executable, "-I", "-S", str(BOOT), "backend_fill"]
    argv = [*program, str(write_fd), sys.prefix, str(folder), *requirements]
    variables = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", **env}
    with subprocess.Popen(argv, pass_fds=[write_fd], env=variables, stderr=subprocess.PIPE) as process:
        os.close(write_fd)
        with os.fdopen(read_fd) as stream:
            records = [json.loads(line) for line in stream]
        _, words = process.communicate()
    return process.returncode, records, words.decode()


@pytest.mark.process
def test_pips_own_words_tell_why_it_failed_without_the_password(tmp_path: Path) -> None:
    links = {"PIP_FIND_LINKS": "http://ann:hush@127.0.0.1:9/none", "PIP_RETRIES": "0"}
    code, records, words = fill(tmp_path / "site", "surely-not-there", **links)
    assert (code, records[-1]["ok"]) == (1, False)
    assert "No matching distribution found for surely-not-there" in str(records[-1]["message"])
    assert "hush" not in words + json.dumps(records)


@pytest.mark.process
def test_an_option_among_the_requirements_is_none(tmp_path: Path) -> None:
    code, records, _ = fill(tmp_path / "site", "--version")
    assert (code, records[-1]["ok"]) == (1, False)


def test_an_environment_without_pip_uses_the_one_for_new_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_fill, "site_folders", lambda prefix: [])
    command = backend_fill.pip_command(str(tmp_path))
    if not command:
        pytest.skip("this interpreter has no bundled pip")
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("pip ")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert backend_fill.pip_command(str(tmp_path)) == []
