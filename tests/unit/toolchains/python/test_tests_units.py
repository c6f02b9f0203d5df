"""Which files are test files, by names and configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.project import Project
from glideslope.model.snapshot import Entry, FileMode
from glideslope.toolchains.python.units import PytestConfig, find_units, find_unittest_units, read_config


class TextTree:
    """A tree of given texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {RepoPath(path): text.encode() for path, text in files.items()}
        self.entries = {
            path: Entry(
                FileMode.REGULAR, BlobId(hashlib.sha1(data, usedforsecurity=False).hexdigest()), len(data)
            )
            for path, data in self._files.items()
        }

    def read(self, path: RepoPath) -> bytes:
        return self._files[path]


def config_of(files: Mapping[str, str], root: str = "") -> PytestConfig:
    return read_config(TextTree(files), Project(name=root or ".", root=root, toolchain="python"))


def units_of(files: Mapping[str, str], root: str = "") -> list[str]:
    tree, project = TextTree(files), Project(name=root or ".", root=root, toolchain="python")
    return list(find_units(tree, project, read_config(tree, project)))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", "[pytest]\npython_files = check_*.py\naddopts = -q -p shop.plugin -pno:doctest\n"),
        (".pytest.ini", "[pytest]\npython_files = check_*.py\naddopts = -q -p shop.plugin -pno:doctest\n"),
        ("tox.ini", "[tox]\n[pytest]\npython_files = check_*.py\naddopts = -q -p shop.plugin -pno:doctest\n"),
        ("setup.cfg", "[tool:pytest]\npython_files = check_*.py\naddopts = -q -p shop.plugin -pno:doctest\n"),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\npython_files = "check_*.py"\naddopts = "-q -p shop.plugin -pno:doctest"\n',
        ),
        (
            "pyproject.toml",
            '[tool.pytest]\npython_files = ["check_*.py"]\naddopts = ["-q", "-p", "shop.plugin", "-pno:doctest"]\n',
        ),
        (
            "pytest.toml",
            '[pytest]\npython_files = ["check_*.py"]\naddopts = ["-q", "-p", "shop.plugin", "-pno:doctest"]\n',
        ),
    ],
)
def test_configuration_is_read_from_every_file_that_pytest_reads(file: str, text: str) -> None:
    config = config_of({file: text})
    assert (config.source, config.rootdir) == (file, "")
    assert config.python_files == ("check_*.py",)
    assert config.plugins == ("shop.plugin",)


def test_the_first_file_that_configures_pytest_wins() -> None:
    files = {"pytest.ini": "[pytest]\n", "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["x"]\n'}
    assert config_of(files).source == "pytest.ini"
    assert config_of({"tox.ini": "[tox]\n", "setup.cfg": "[tool:pytest]\n"}).source == "setup.cfg"
    assert config_of({"pyproject.toml": "[project]\n"}).source is None


def test_a_project_without_configuration_takes_that_of_a_folder_above() -> None:
    files = {"pytest.ini": "[pytest]\ntestpaths = nowhere\n", "a/b/test_x.py": ""}
    assert config_of(files, "a/b").rootdir == ""
    assert units_of(files, "a/b") == ["a/b/test_x.py"]


def test_broken_configuration_reads_as_defaults() -> None:
    assert config_of({"pyproject.toml": "[tool.pytest\n"}) == PytestConfig()


FILES = {
    "app.py": "",
    "test_top.py": "",
    "tests/test_a.py": "",
    "tests/b_test.py": "",
    "tests/other.py": "",
    "tests/test_notes.txt": "",
    "tests/build/test_never.py": "",
    ".hidden/test_never.py": "",
    "docs/guide.rst": "",
    "src/pkg/mod.py": "",
    "setup.py": "",
}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", ["test_top.py", "tests/b_test.py", "tests/test_a.py", "tests/test_notes.txt"]),
        ("testpaths = tests", ["tests/b_test.py", "tests/test_a.py", "tests/test_notes.txt"]),
        (
            "testpaths = t*s test_top.py",
            ["test_top.py", "tests/b_test.py", "tests/test_a.py", "tests/test_notes.txt"],
        ),
        (
            "testpaths = nowhere",
            ["test_top.py", "tests/b_test.py", "tests/test_a.py", "tests/test_notes.txt"],
        ),
        (
            "python_files = tests/*.py",
            ["tests/b_test.py", "tests/other.py", "tests/test_a.py", "tests/test_notes.txt"],
        ),
        ("norecursedirs = tests .hidden", ["test_top.py"]),
        ("addopts = --ignore=tests", ["test_top.py"]),
        (
            "addopts = --ignore-glob tests/*_test.py",
            ["test_top.py", "tests/test_a.py", "tests/test_notes.txt"],
        ),
        (
            "addopts = --doctest-glob='*.rst'\ntestpaths = docs tests",
            ["docs/guide.rst", "tests/b_test.py", "tests/test_a.py"],
        ),
        ("addopts = --doctest-modules\ntestpaths = src", ["src/pkg/mod.py"]),
    ],
)
def test_units_are_the_files_that_pytest_collects(options: str, found: list[str]) -> None:
    assert units_of({**FILES, "pytest.ini": f"[pytest]\n{options}\n"}) == found


def test_unittest_takes_its_own_names() -> None:
    tree = TextTree(FILES)
    project = Project(name=".", root="", toolchain="python")
    assert list(find_unittest_units(tree, project)) == ["test_top.py", "tests/test_a.py"]
