"""Failures that were there before, beside those that are new."""

from __future__ import annotations

import pytest
from tests.acceptance.desk import TINY, Repo

pytestmark = pytest.mark.process

HARMLESS = TINY["tiny.py"].replace("x * 2", "2 * x")
BUG = TINY["tiny.py"].replace("x * 2", "x * 3")
OLD = "test_old.py::test_old"
NEW = "test_tiny.py::test_double"


@pytest.fixture
def failing(repo: Repo) -> Repo:
    """A project with a test that fails at rest."""
    return repo.commit(
        {"test_old.py": "import tiny\n\n\ndef test_old():\n    assert tiny.double(1) == 'two'\n"}
    )


def test_a_failure_with_nothing_to_compare_with_is_new_and_a_base_is_offered(failing: Repo) -> None:
    answer = failing.verify().expect("red")

    assert answer.failing("test.scoped") == {OLD: "new"}
    assert (
        answer.rung("test.scoped")["next"]
        == "glideslope verify --base HEAD~1  # to see whether it failed before"
    )
    failing.verify().expect("red")  # twice launders nothing


def test_a_failure_at_rest_is_known_under_standard(failing: Repo) -> None:
    failing.write({"tiny.py": HARMLESS})

    answer = failing.verify("--base", "HEAD").expect("green")

    assert answer.data["base_reason"] == "given"
    assert answer.failing("test.scoped") == {OLD: "known"}
    assert "1 known failure" in answer.rung("test.scoped")["summary"]


@pytest.mark.parametrize(("policy", "rung"), [("strict", "test.scoped"), ("ci_parity", "test.full")])
def test_a_failure_at_rest_is_red_under_the_demanding_policies(failing: Repo, policy: str, rung: str) -> None:
    failing.git("switch", "-q", "-c", "topic")
    failing.write({"tiny.py": HARMLESS})

    answer = failing.verify(policy, "--base", "HEAD").expect("red")

    assert answer.failing(rung) == {OLD: "known"}
    assert answer.rung(rung)["state"] == "fail"


def test_a_failure_at_rest_is_red_under_ci_parity_on_a_clean_tree(failing: Repo) -> None:
    answer = failing.verify("ci_parity", "--base", "HEAD").expect("red")

    assert list(answer.failing("test.full")) == [OLD]


def test_a_new_failure_beside_a_known_one_is_red_and_alone_called_new(failing: Repo) -> None:
    failing.write({"tiny.py": BUG})

    answer = failing.verify("--base", "HEAD").expect("red")

    assert answer.failing("test.scoped") == {OLD: "known", NEW: "new"}
    new = next(test for test in answer.rung("test.scoped")["tests"]["failing"] if test["class"] == "new")
    assert (new["path"], new["line"]) == ("test_tiny.py", 5)


def test_a_proof_with_a_known_failure_becomes_the_next_base(failing: Repo) -> None:
    failing.write({"tiny.py": HARMLESS})
    proved = failing.verify("--base", "HEAD").expect("green")
    failing.write({"tiny.py": HARMLESS + "\n\ndef triple(x):\n    return x * 3\n"})

    good = failing.verify().expect("green")
    failing.write({"tiny.py": BUG})
    bad = failing.verify().expect("red")

    assert good.data["base_reason"] == "last_green"
    assert good.data["base_snapshot_id"] == proved.data["verify_snapshot_id"]
    assert good.failing("test.scoped") == {OLD: "known"}
    assert bad.failing("test.scoped") == {OLD: "known", NEW: "new"}


def test_a_cached_pass_with_a_known_failure_is_red_for_a_demanding_policy(failing: Repo) -> None:
    failing.git("switch", "-q", "-c", "topic")
    failing.write({"tiny.py": HARMLESS})
    failing.verify("--base", "HEAD").expect("green")

    answer = failing.verify("strict").expect("red")

    assert answer.failing("test.scoped") == {OLD: "known"}


def test_a_known_failure_that_was_mended_and_comes_back_is_new(failing: Repo) -> None:
    failing.write({"tiny.py": HARMLESS})
    failing.verify("--base", "HEAD").expect("green")
    failing.write({"test_old.py": "import tiny\n\n\ndef test_old():\n    assert tiny.double(1) == 2\n"})
    failing.verify().expect("green")
    failing.write({"test_old.py": "import tiny\n\n\ndef test_old():\n    assert tiny.double(1) == 3\n"})

    assert failing.verify().expect("red").failing("test.scoped") == {OLD: "new"}


def test_a_deleted_module_is_red_at_its_importers_before_any_test(failing: Repo) -> None:
    failing.commit({"test_old.py": "def test_old():\n    pass\n"}).verify().expect("green")
    (failing.root / "tiny.py").unlink()

    answer = failing.verify().expect("red")

    rung = next(rung for rung in answer.data["rungs"] if rung["state"] == "fail")
    assert rung["verify_rung"] in ("diagnose.files", "compile.project")
    assert {found["path"] for found in rung["diagnostics"] if found["blocking"]} == {"test_tiny.py"}
