"""Which part of `pyproject.toml` changed: what any test may notice, or what only other tools read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from glideslope.model.paths import RepoPath
from glideslope.ports.toolchain import Tree
from glideslope.toolchains.python.layout import read_text, table

APART = frozenset(
    [
        "autopep8",
        "bandit",
        "basedpyright",
        "black",
        "bumpversion",
        "check-manifest",
        "cibuildwheel",
        "codespell",
        "commitizen",
        "deptry",
        "docformatter",
        "flake8",
        "interrogate",
        "isort",
        "mypy",
        "poe",
        "pydocstyle",
        "pylint",
        "pyright",
        "ruff",
        "semantic_release",
        "taskipy",
        "towncrier",
        "ty",
        "typos",
        "vulture",
        "yapf",
    ]
)
"""Tables of tools that run with a test only where it starts them or a plug-in does. A table of anything else may be a pytest plug-in's."""

_DESCRIPTION = frozenset(
    [
        "authors",
        "classifiers",
        "description",
        "keywords",
        "license",
        "license-files",
        "maintainers",
        "readme",
        "urls",
    ]
)
"""Keys of `[project]` that only go into metadata."""


def concerns_tests(before: Tree, now: Tree, path: RepoPath) -> bool:
    """Whether two versions of a `pyproject.toml` differ in what a test may notice without opening it.

    Args:
        before: The base's tree.
        now: The tree under test.
        path: The file; where one side lacks it or does not parse, the answer is True.
    """
    sides = [_concerning(tree, path) for tree in (before, now)]
    return sides[0] is None or sides[0] != sides[1]


def _concerning(tree: Tree, path: RepoPath) -> Mapping[str, object] | None:
    if path not in tree.entries:
        return None
    text = read_text(tree, path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    if not text and tree.entries[path].size_bytes:
        return None  # its content is not at hand
    tools = {name: value for name, value in table(data, "tool").items() if name not in APART}
    project = {key: value for key, value in table(data, "project").items() if key not in _DESCRIPTION}
    return {**data, "tool": tools, "project": project}
