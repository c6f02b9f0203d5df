"""The lock: everything declared is pinned with hashes, and no index address is in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = PROJECT["project"]["dependencies"]
DEV = PROJECT["project"]["optional-dependencies"]["dev"]
BUILD = PROJECT["build-system"]["requires"]


def name_of(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9._-]+", requirement).group().lower().replace("_", "-")


def pins(lock: str) -> dict[str, tuple[str, int]]:
    """Name -> (version, number of hashes)."""
    logical = (ROOT / "requirements" / lock).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    found = {}
    for line in lines:
        pin = re.match(r"([a-z0-9-]+)==(\S+)", line)
        assert pin, f"{lock}: not pinned to one version: {line}"
        found[pin[1]] = (pin[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?!\S)", line)))
    return found


@pytest.mark.parametrize(
    ("lock", "declared"),
    [("runtime.txt", RUNTIME), ("dev.txt", [*RUNTIME, *DEV]), ("build.txt", BUILD)],
)
def test_everything_declared_is_pinned_and_every_pin_has_its_hashes(lock: str, declared: list[str]) -> None:
    locked = pins(lock)
    assert {name_of(requirement) for requirement in declared} <= set(locked)
    assert [name for name, (_, hashes) in locked.items() if hashes == 0] == []


def test_both_locks_agree_on_versions() -> None:
    dev = pins("dev.txt")
    assert {name: dev[name][0] for name in pins("runtime.txt")} == {
        name: version for name, (version, _) in pins("runtime.txt").items()
    }


@pytest.mark.parametrize("name", ["ruff", "ty", "msgspec", "watchfiles", "mypy", "grimp"])
def test_a_compiled_dependency_is_locked_for_more_than_one_platform(name: str) -> None:
    assert pins("dev.txt")[name][1] > 4


def test_no_lock_names_an_index() -> None:
    for lock in (ROOT / "requirements").iterdir():
        assert "://" not in lock.read_text(), lock.name
        assert "index" not in lock.read_text(), lock.name
