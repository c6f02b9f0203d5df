"""What a workspace declares."""

from __future__ import annotations

import pytest
from tests.unit.toolchains.python.world import TextTree, project

from glideslope.toolchains.python.detect import (
    Checkers,
    broken_configuration,
    find_checkers,
    find_projects,
    ruff_config,
)

PROJECT = "[project]\nname = 'x'\n"


def names(files: dict[str, str]) -> list[str]:
    return [found.name for found in find_projects(TextTree(files))]


def test_a_workspace_without_a_project_file_is_one_project() -> None:
    assert names({"a.py": ""}) == ["."]
    assert names({"deep/a.py": ""}) == ["."]
    assert names({"README.md": ""}) == []


def test_folders_with_a_project_file_are_projects_outermost_first() -> None:
    files = {
        "pyproject.toml": PROJECT,
        "libs/b/setup.py": "",
        "libs/a/pyproject.toml": PROJECT,
        "z/setup.cfg": "[metadata]\n",
    }
    assert names({**files, "a.py": ""}) == [".", "z", "libs/a", "libs/b"]


def test_the_root_of_a_monorepo_is_a_project_only_with_sources_of_its_own() -> None:
    files = {"libs/b/setup.py": "", "libs/b/b.py": "", "libs/a/pyproject.toml": PROJECT, "README.md": ""}
    assert names(files) == ["libs/a", "libs/b"]
    assert names({**files, "scripts/x.py": ""}) == [".", "libs/a", "libs/b"]


def test_a_file_that_only_configures_tools_makes_no_project() -> None:
    files = {"a.py": "", "sub/setup.cfg": "[flake8]\n", "sub2/pyproject.toml": "[tool.ruff]\n"}
    assert names(files) == ["."]


@pytest.mark.parametrize(
    "folder", ["tests/data", "vendor/x", ".venv/lib", "examples/shop", "a/testdata/b", "docs"]
)
def test_projects_that_are_data_or_not_ours_are_passed_over(folder: str) -> None:
    assert names({"a.py": "", f"{folder}/pyproject.toml": PROJECT, f"{folder}/setup.py": ""}) == ["."]


@pytest.mark.parametrize(
    ("file", "text", "wanted"),
    [
        ("pyproject.toml", "[tool.mypy]\nstrict = true", Checkers(mypy=True)),
        ("mypy.ini", "[mypy]\n", Checkers(mypy=True)),
        (".mypy.ini", "[mypy]\n", Checkers(mypy=True)),
        ("setup.cfg", "[mypy]\n", Checkers(mypy=True)),
        ("pyproject.toml", "[tool.pyright]\nstrict = []", Checkers(pyright=True)),
        ("pyrightconfig.json", "{}", Checkers(pyright=True)),
        ("pyproject.toml", "[tool.basedpyright]\nstrict = []", Checkers(basedpyright=True)),
        ("pyproject.toml", "[tool.ty.rules]\nx = 'error'", Checkers(ty=True)),
        ("ty.toml", "", Checkers(ty=True)),
        ("setup.cfg", "[flake8]\n", Checkers()),
        ("pyproject.toml", PROJECT, Checkers()),
        ("pyproject.toml", "[tool.mypy", Checkers()),
    ],
)
def test_configured_type_checkers_are_found(file: str, text: str, wanted: Checkers) -> None:
    assert find_checkers(TextTree({file: text}), project()) == wanted
    assert find_checkers(TextTree({file: text}), project("sub/folder")) == wanted


def test_the_nearest_file_configures_ruff() -> None:
    tree = TextTree({"pyproject.toml": "[tool.ruff]", "a/ruff.toml": "", "b/pyproject.toml": PROJECT})
    assert [ruff_config(tree, path) for path in ("x.py", "a/x.py", "b/c/x.py")] == [
        "pyproject.toml", "a/ruff.toml", "pyproject.toml",
    ]  # fmt: skip
    assert ruff_config(TextTree({"pyproject.toml": PROJECT}), "x.py") is None


def test_configuration_that_does_not_parse_is_a_finding_with_its_place() -> None:
    tree = TextTree({"pyproject.toml": "[project]\nname = 1 2\n", "sub/ruff.toml": b"a = '\xff'"})
    (found,) = broken_configuration(tree, project())
    assert (found.path, found.line, found.code, found.gates) == ("pyproject.toml", 2, "config_error", True)
    assert found.column > 1
    (found,) = broken_configuration(tree, project("sub"))
    assert (found.path, found.line, found.column, found.message) == ("sub/ruff.toml", 1, 6, "not UTF-8")
    (found,) = broken_configuration(TextTree({"pyproject.toml": "x = 1\ny = '''"}), project())
    assert (found.line, found.column) == (2, 1)
