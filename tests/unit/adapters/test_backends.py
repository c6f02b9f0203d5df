"""Build environments on disk: complete or not there, whoever is killed and whoever comes second."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from glideslope.adapters.backends import ABANDONED_S, IDLE_S, BackendFolder, drop_backend, idle_backends
from glideslope.adapters.pip_settings import read_pip_settings
from glideslope.errors import SubstrateUnavailable
from glideslope.machines.index_access import IndexAccess
from glideslope.ports.backends import HeldBackend

ACCESS = IndexAccess(variables={}, key="abc")
DIGEST = "0123456789ab"


def fill(backends: BackendFolder, text: str = "one", digest: str = DIGEST) -> HeldBackend:
    held = backends.begin(digest, ACCESS)
    Path(held.folder, "module.py").write_text(text)
    return held


def content(backends: BackendFolder) -> str:
    held = backends.hold(DIGEST, ACCESS)
    try:
        return Path(held.folder, "module.py").read_text()
    finally:
        backends.release(held)


def names(state: Path) -> list[str]:
    return sorted(os.listdir(state / "backends"))


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_one_is_there_once_its_filling_has_ended_well(tmp_path: Path) -> None:
    backends = BackendFolder(str(tmp_path))
    assert backends.complete(ACCESS) == frozenset()
    held = fill(backends)
    assert backends.complete(ACCESS) == frozenset()
    with pytest.raises(SubstrateUnavailable):
        backends.hold(DIGEST, ACCESS)
    backends.finish(held, filled=True)
    assert backends.complete(ACCESS) == {DIGEST}
    assert content(backends) == "one"
    assert backends.complete(IndexAccess(variables={}, key="def")) == frozenset()


def test_nothing_is_left_of_a_filling_that_failed(tmp_path: Path) -> None:
    backends = BackendFolder(str(tmp_path))
    backends.finish(fill(backends), filled=False)
    assert names(tmp_path) == []


def test_the_first_of_two_at_once_wins_and_the_second_leaves_nothing(tmp_path: Path) -> None:
    one, two = BackendFolder(str(tmp_path)), BackendFolder(str(tmp_path))
    first, second = fill(one, "first"), fill(two, "second")
    two.finish(second, filled=True)
    one.finish(first, filled=True)
    assert content(one) == "second"
    assert names(tmp_path) == [f"{DIGEST}-abc"]


def test_what_a_killed_process_was_filling_is_never_used_and_goes_after_a_while(tmp_path: Path) -> None:
    killed = fill(BackendFolder(str(tmp_path)))  # nobody will finish it
    again = BackendFolder(str(tmp_path))
    assert again.complete(ACCESS) == frozenset()
    again.finish(fill(again, "two"), filled=True)
    assert content(again) == "two"
    left = Path(killed.folder).parent
    age(left, ABANDONED_S + 60)
    assert idle_backends(str(tmp_path)) == [], "its lock is still held"


def test_a_removal_that_was_cut_short_leaves_nothing_that_counts(tmp_path: Path) -> None:
    backends = BackendFolder(str(tmp_path))
    backends.finish(fill(backends), filled=True)
    (tmp_path / "backends" / f"{DIGEST}-abc" / "marker").unlink()
    assert backends.complete(ACCESS) == frozenset()
    backends.finish(fill(backends, "two"), filled=True)
    assert content(backends) == "two"


def test_prune_takes_what_nobody_used_for_a_week_and_nobody_holds(tmp_path: Path) -> None:
    backends = BackendFolder(str(tmp_path))
    for digest in ("aa", "bb", "cc"):
        backends.finish(fill(backends, digest=digest), filled=True)
    half = tmp_path / "backends" / "filling-dead"
    half.mkdir()
    for folder in (half, *(tmp_path / "backends" / f"{digest}-abc" for digest in ("aa", "bb"))):
        age(folder, IDLE_S + 60)
    age(tmp_path / "backends" / "cc-abc", IDLE_S - 3600)
    held = backends.hold("aa", ACCESS)
    age(tmp_path / "backends" / "aa-abc", IDLE_S + 60)
    assert idle_backends(str(tmp_path)) == ["bb-abc", "filling-dead"]
    assert not drop_backend(str(tmp_path), "aa-abc")
    backends.release(held)
    assert all(drop_backend(str(tmp_path), name) for name in idle_backends(str(tmp_path)))
    assert names(tmp_path) == ["cc-abc"]
    assert not drop_backend(str(tmp_path), "cc-gone")


def test_use_makes_young(tmp_path: Path) -> None:
    backends = BackendFolder(str(tmp_path))
    backends.finish(fill(backends), filled=True)
    age(tmp_path / "backends" / f"{DIGEST}-abc", IDLE_S + 60)
    assert idle_backends(str(tmp_path)) == [f"{DIGEST}-abc"]
    content(backends)
    assert idle_backends(str(tmp_path)) == []


def test_pips_files_are_read_in_its_order_of_strength(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {
        "xdg/pip/pip.conf": "[global]\nindex-url = https://system\n",
        "home/.pip/pip.conf": "[global]\nindex_url = https://old\n",
        "home/.config/pip/pip.conf": "[global]\nindex-url = https://user\n[install]\nfind-links =\n  /a\n  /b\n",
        "venv/pip.conf": "[list]\nindex-url = https://not-for-install\n",
        "named.conf": "[install]\ntrusted-host = h\n[global]\ntrusted-host = weaker\n",
    }
    for name, text in places.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    named = {"PIP_CONFIG_FILE": str(tmp_path / "named.conf")}
    found = read_pip_settings(named, prefix=str(tmp_path / "venv"))
    urls = [options["index-url"] for options in found if "index-url" in options]
    assert (urls[0], urls[-2:]) == ("https://system", ["https://old", "https://user"])
    assert found[-3]["find-links"].split() == ["/a", "/b"]
    assert found[-1] == {"trusted-host": "h"}
    assert read_pip_settings({"PIP_CONFIG_FILE": os.devnull}, prefix="/x") == []


def test_a_configuration_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("index-url = https://user:secret@host\n")
    with pytest.raises(SubstrateUnavailable) as caught:
        read_pip_settings({}, prefix=str(tmp_path))
    assert "secret" not in str(caught.value)
    assert str(tmp_path / "pip.conf") in str(caught.value)
