"""What is selected is run, once and nothing else, however a suite is split or collected."""

from __future__ import annotations

import pytest
from tests.acceptance.desk import TINY, Repo

pytestmark = pytest.mark.process

FILES = 12
TEST = "import tiny\n\n\ndef test_it():\n    assert tiny.double({number}) == {twice}\n"


def test_a_change_that_reaches_all_of_many_files_runs_each_once(repo: Repo) -> None:
    repo.commit({f"test_{n:02}.py": TEST.format(number=n, twice=2 * n) for n in range(1, FILES)})
    repo.write({"tiny.py": TINY["tiny.py"].replace("x * 2", "x * 2 + (x in (1, 11))")})

    answer = repo.verify("standard", "--base", "HEAD").expect("red")

    counts = answer.rung("test.scoped")["tests"]
    assert [test["nodeid"] for test in counts["failing"]] == ["test_01.py::test_it", "test_11.py::test_it"]
    assert (counts["selected"], counts["passed"], counts["failed"]) == (FILES, FILES - 2, 2)


def test_a_conftest_that_decides_for_every_path_does_not_widen_the_selection(repo: Repo) -> None:
    ignores_nothing = "def pytest_ignore_collect(collection_path, config):\n    return False\n"
    other = "def test_it():\n    pass\n"
    repo.commit(
        {"conftest.py": ignores_nothing, "other.py": "", "test_other.py": "import other\n\n\n" + other}
    )
    repo.verify().expect("green")
    repo.write({"other.py": "CHANGED = 1\n"})

    counts = repo.verify().expect("green").rung("test.scoped")["tests"]

    assert (counts["selected"], counts["units"], counts["passed"]) == (1, 2, 1)
