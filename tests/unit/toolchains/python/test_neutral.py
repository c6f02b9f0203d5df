"""Changes that change no code."""

from __future__ import annotations

import pytest
from tests.unit.toolchains.python.world import context_of

from glideslope.toolchains.python.neutral import is_neutral, same_code

CODE = '"""Doc."""\n\n\ndef f(a):\n    return a + 1  # noqa: E501\n'


@pytest.mark.parametrize(
    "after",
    [
        CODE + "# a comment\n",
        CODE.replace("a + 1", "a  +  1"),
        CODE.replace("\n\n\n", "\n\n\n\n"),
        CODE.replace("return a + 1", "return (a + 1)"),
    ],
)
def test_layout_and_comments_are_no_code(after: str) -> None:
    assert same_code(CODE.encode(), after.encode())


@pytest.mark.parametrize(
    "after",
    [
        CODE.replace("Doc", "Dok"),
        CODE.replace("a + 1", "a + 2"),
        CODE.replace("  # noqa: E501", ""),
        CODE + "x = 1  # type: ignore\n",
        CODE + "# pragma: no cover\n",
        "# coding: latin-1\n" + CODE,
        CODE + "def f(:\n",
        CODE.replace(
            "def f(a):\n    return a + 1  # noqa: E501", "def f(a):  # noqa: E501\n    return a + 1"
        ),
    ],
)
def test_docstrings_pragmas_encodings_and_code_are(after: str) -> None:
    assert not same_code(CODE.encode(), after.encode())


def neutral(base: dict[str, str] | None, now: dict[str, str]) -> bool:
    context = context_of(now, base)
    return is_neutral(context.changes, context.base, context.now)


def test_a_comment_is_neutral_and_a_file_that_comes_or_goes_is_not() -> None:
    assert neutral({"a.py": "x = 1\n"}, {"a.py": "x = 1  # one\n"})
    assert not neutral({"a.py": ""}, {"a.py": "", "b.py": ""})
    assert not neutral({"a.py": "", "b.py": ""}, {"a.py": ""})
    assert not neutral({"a.py": "x = 1"}, {"b.py": "x = 1"})
    assert not neutral({"data.json": "1"}, {"data.json": "2"})


def test_without_a_base_nothing_is_neutral() -> None:
    assert not neutral(None, {"a.py": ""})


def test_documents_are_neutral_unless_something_reads_them() -> None:
    for path in (
        "README.md",
        "docs/index.txt",
        ".github/workflows/ci.yml",
        "LICENSE.txt",
        "deep/CHANGES.rst",
    ):
        assert neutral({path: "1"}, {path: "2"}), path
    reads = {"t.py": "open('README.md')"}
    assert not neutral({**reads, "README.md": "1"}, {**reads, "README.md": "2"})
    globs = {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--doctest-glob=*.md'"}
    assert not neutral({**globs, "x.md": "1"}, {**globs, "x.md": "2"})
    metadata = {"pyproject.toml": '[project]\nreadme = "README.md"'}
    assert neutral({**metadata, "README.md": "1"}, {**metadata, "README.md": "2"})


def test_code_in_the_documentation_folder_is_code() -> None:
    assert not neutral({"docs/conf.py": "x = 1"}, {"docs/conf.py": "x = 2"})
