"""Where a project's interpreter is found, and when its key changes."""

from __future__ import annotations

import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from glideslope.adapters.environment_places import kept_environments
from glideslope.adapters.interpreter import LocalInterpreters
from glideslope.errors import NoInterpreter
from glideslope.model.project import Interpreter

pytestmark = pytest.mark.process

WORKER = str(Path(__file__).parents[2] / "src" / "glideslope" / "worker")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made once") / "env ü"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    folder = tmp_path / "work space ü" / "packages" / "a"
    folder.mkdir(parents=True)
    return folder


def find(
    project: Path,
    *,
    own_prefix: str = "/nowhere",
    finder: LocalInterpreters | None = None,
    foreign: bool = False,
    **where: str | None,
) -> Interpreter:
    finder = finder or LocalInterpreters(worker=WORKER, own_prefix=own_prefix)
    return finder.find(
        workspace_root=str(project.parents[1]),
        project_root=str(project),
        argument=where.get("argument"),
        setting=where.get("setting") or "",
        virtual_env=where.get("virtual_env"),
        is_foreign=lambda _: foreign,
    )


def copy(made: Path, to: Path) -> Path:
    shutil.copytree(made, to, symlinks=True)
    return to


def install(environment: Path, name: str, version: str, record: str = "") -> Path:
    folder = next(environment.glob("lib/python*/site-packages")) / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text(record)
    return folder


def test_places_are_asked_in_order(project: Path, made: Path, tmp_path: Path) -> None:
    workspace = project.parents[1]
    active = str(copy(made, tmp_path / "active"))
    assert find(project, virtual_env=active).how == "VIRTUAL_ENV"
    copy(made, workspace / "venv")
    assert find(project, virtual_env=active).how == "workspace venv"
    copy(made, workspace / ".venv")
    assert find(project, virtual_env=active).how == "workspace .venv"
    copy(made, project / "venv")
    assert find(project, virtual_env=active).how == "venv"
    own = copy(made, project / ".venv")
    found = find(project, virtual_env=active)
    assert (found.how, found.executable, found.prefix) == (".venv", str(own / "bin" / "python"), str(own))
    assert found.version == sys.version_info[:3]
    assert find(project, setting=active).prefix == active
    by_argument = find(project, argument=f"{active}/bin/python", setting="nowhere")
    assert (by_argument.how, by_argument.prefix) == ("argument", active)


def test_a_relative_name_starts_at_the_workspace(project: Path, made: Path) -> None:
    copy(made, project.parents[1] / "env")
    assert find(project, setting="env").prefix == str(project.parents[1] / "env")


def test_a_command_on_the_path_is_found(project: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(made / "bin"))
    assert find(project, argument="python").prefix == str(made)


def test_what_was_named_is_used_or_fails(project: Path, made: Path) -> None:
    copy(made, project / ".venv")
    with pytest.raises(NoInterpreter, match=r"missing \(argument\)"):
        find(project, argument="missing/")


def test_nothing_found_lists_the_places_and_says_what_to_do(project: Path) -> None:
    with pytest.raises(NoInterpreter) as caught:
        find(project, virtual_env="/gone")
    for place in (f"{project}/.venv", f"{project}/venv", f"{project.parents[1]}/.venv", "/gone"):
        assert place in caught.value.message
    assert caught.value.next == "python3 -m venv .venv && .venv/bin/python -m pip install -e . pytest"
    (project / "uv.lock").touch()
    with pytest.raises(NoInterpreter) as caught:
        find(project)
    assert caught.value.next == "uv sync"


@pytest.mark.parametrize("damage", ["link", "bin", "program"])
def test_a_broken_environment_is_an_error_and_not_passed_over(project: Path, made: Path, damage: str) -> None:
    own = copy(made, project / ".venv")
    copy(made, project / "venv")
    for name in ("python", "python3"):
        (own / "bin" / name).unlink()
    if damage == "link":
        (own / "bin" / "python").symlink_to("/nowhere/python3")
    if damage == "program":
        (own / "bin" / "python").write_text("#!/nowhere/interpreter\n")
        (own / "bin" / "python").chmod(0o755)
    with pytest.raises(NoInterpreter, match="is broken") as caught:
        find(project)
    assert str(own) in caught.value.message
    assert caught.value.next == "glideslope verify --python PATH"


def test_our_own_environment_serves_only_where_it_can_test(project: Path, made: Path, tmp_path: Path) -> None:
    ours = copy(made, tmp_path / "ours")
    assert find(project, own_prefix=str(ours), virtual_env=str(ours)).prefix == str(ours)
    (project / "conftest.py").touch()
    with pytest.raises(NoInterpreter, match="glideslope's own, without pytest"):
        find(project, own_prefix=str(ours), virtual_env=str(ours))
    install(ours, "pytest", "9.0.0")
    assert find(project, own_prefix=str(ours), virtual_env=str(ours)).has("pytest")


def test_distributions_have_canonical_names(project: Path, made: Path) -> None:
    own = copy(made, project / ".venv")
    install(own, "Pytest_Cov", "7.1.0")
    install(own, "zope.interface", "5.0")
    site = next(own.glob("lib/python*/site-packages"))
    (site / "old_style.egg-info").mkdir()
    (site / "old_style.egg-info" / "PKG-INFO").write_text("Name: old-style\nVersion: 1.2\n")
    (site / "older-0.1-py3.9.egg-info").write_text("Name: older\n")
    found = find(project).distributions
    assert dict(found) == {"pytest-cov": "7.1.0", "zope-interface": "5.0", "old-style": "1.2", "older": "0.1"}


def test_the_key_changes_with_all_that_is_installed_and_with_nothing_else(project: Path, made: Path) -> None:
    own = copy(made, project / ".venv")
    site = next(own.glob("lib/python*/site-packages"))
    finder = LocalInterpreters(worker=WORKER, own_prefix="/nowhere")

    def key() -> str:
        again = find(project, finder=finder).key
        assert again == find(project).key
        return again

    keys = [key()]
    (project / "anything.py").touch()
    (site / "loose.py").touch()
    assert key() == keys[-1]
    folder = install(own, "thing", "1.0", "a.py,sha256=1,1\n")
    keys.append(key())
    (folder / "RECORD").write_text("a.py,sha256=2,1\n")
    keys.append(key())
    (site / "extra.pth").write_text("/somewhere\n")
    keys.append(key())
    (site / "extra.pth").write_text("/elsewhere\n")
    keys.append(key())
    folder.rename(site / "thing-1.1.dist-info")
    keys.append(key())
    shutil.rmtree(site / "thing-1.1.dist-info")
    keys.append(key())
    configuration = own / "pyvenv.cfg"
    configuration.write_text(configuration.read_text() + "x = y\n")
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_environments_with_the_system_site_hold_its_distributions(project: Path, made: Path) -> None:
    own = copy(made, project / ".venv")
    before = find(project)
    text = (own / "pyvenv.cfg").read_text()
    (own / "pyvenv.cfg").write_text(
        text.replace("include-system-site-packages = false", "include-system-site-packages = true")
    )
    after = find(project)
    assert set(after.distributions) >= set(before.distributions)
    assert (
        find(project, argument=os.path.realpath(own / "bin" / "python")).distributions == after.distributions
    )


def test_nothing_of_the_project_runs_while_looking(project: Path, made: Path) -> None:
    own = copy(made, project / ".venv")
    site = next(own.glob("lib/python*/site-packages"))
    for folder in (site, project):
        (folder / "sitecustomize.py").write_text("open('/proc/self/cwd/ran', 'w'); raise SystemExit(3)\n")
    (site / "run.pth").write_text("import sitecustomize\n")
    (project / "json.py").write_text("raise SystemExit(3)\n")
    assert find(project).prefix == str(own)


def hashed(folder: Path) -> str:
    import base64
    import hashlib

    return base64.urlsafe_b64encode(hashlib.sha256(str(folder).encode()).digest()).decode()[:8]


def test_poetry_and_hatch_environments_are_found_by_their_names(
    project: Path, home: Path, made: Path
) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "My.App"\n[tool.poetry]\n[tool.hatch]\n')
    folder = home / ".cache/pypoetry/virtualenvs"
    folder.mkdir(parents=True)
    stem = f"my.app-{hashed(project)}"
    copy(made, folder / f"{stem}-py3.9")
    copy(made, folder / f"{stem}-py3.11")
    assert find(project).prefix == str(folder / f"{stem}-py3.11")
    (folder / "envs.toml").write_text(f'["{stem}"]\nminor = "3.9"\n')
    found = find(project)
    assert (found.how, found.prefix) == ("poetry", str(folder / f"{stem}-py3.9"))
    shutil.rmtree(folder)
    kept = home / ".local/share/hatch/env/virtual/my-app" / hashed(project) / "my-app"
    copy(made, kept)
    assert (find(project).how, find(project).prefix) == ("hatch", str(kept))


def test_a_uv_member_shares_the_environment_of_its_workspace(project: Path, home: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.uv]\n")
    (project.parents[1] / "uv.lock").touch()
    assert list(kept_environments(project, home)) == [("uv", project.parents[1] / ".venv")]


def test_a_program_of_the_repository_is_never_run_to_ask_what_it_is(project: Path) -> None:
    canary = project / "canary"
    program = project / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch '{canary}'\n")
    program.chmod(0o755)
    for where in ({}, {"setting": str(program)}):
        with pytest.raises(NoInterpreter, match="file of the repository"):
            find(project, foreign=True, **where)
    assert not canary.exists()
