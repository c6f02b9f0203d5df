"""However a suite is split over processes, each test is run and named once."""

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
