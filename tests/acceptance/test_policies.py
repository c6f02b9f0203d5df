"""Which rungs each policy runs for which change, and what the verdict then speaks of."""

from __future__ import annotations

import pytest
from tests.acceptance.desk import TINY, Answer, Repo

pytestmark = pytest.mark.process

STATIC = ("diagnose.files", "compile.project", "build.affected")
HARMLESS = TINY["tiny.py"].replace("x * 2", "2 * x")


@pytest.fixture
def changed(repo: Repo) -> Repo:
    """A branch with a commit of its own that a test reaches; its base is where it left main."""
    repo.commit({"lonely.py": "def lonely():\n    return 1\n"})
    repo.git("switch", "-q", "-c", "topic")
    return repo.commit({"tiny.py": HARMLESS})


def executed(answer: Answer) -> tuple[str, ...]:
    """Rungs that ended in a pass, and none of them from before."""
    assert not any(rung["cached"] for rung in answer.data["rungs"])
    return tuple(name for name, state in answer.states().items() if state == "pass")


def reach(answer: Answer) -> tuple[str, str]:
    return answer.data["required_rung"], answer.data["max_rung_reached"]


def test_minimal_runs_the_first_rung_and_starts_no_build_and_no_test(changed: Repo) -> None:
    answer = changed.verify("quick").expect("green")

    assert answer.data["verify_policy"] == "minimal"
    assert answer.states() == {"diagnose.files": "pass"}
    assert executed(answer) == ("diagnose.files",)
    assert reach(answer) == ("diagnose.files", "diagnose.files")
    assert set(changed.tasks(answer.data["run_id"])) == {"python.diagnose"}


def test_standard_runs_the_tests_that_the_change_reaches(changed: Repo) -> None:
    answer = changed.verify().expect("green")

    assert executed(answer) == (*STATIC, "test.scoped") == tuple(answer.states())
    assert reach(answer) == ("test.scoped", "test.scoped")


def test_standard_ends_at_the_build_where_no_test_reaches_the_change(changed: Repo) -> None:
    changed.write(TINY | {"lonely.py": "def lonely():\n    return 2\n"})

    answer = changed.verify().expect("green")

    assert executed(answer) == STATIC == tuple(answer.states())
    assert reach(answer) == ("build.affected", "build.affected")
    assert "no test reaches this change" in answer.data["note"]


def test_standard_skips_the_tests_of_a_change_of_comments(changed: Repo) -> None:
    changed.write({"tiny.py": "# Twice as much.\n" + TINY["tiny.py"]})

    answer = changed.verify().expect("green")

    assert executed(answer) == STATIC
    assert answer.rung("test.scoped")["state"] == "skipped"
    assert answer.rung("test.scoped")["reason_code"] == "no_code_change"
    assert reach(answer) == ("build.affected", "build.affected")
    assert "pytest.run" not in changed.tasks(answer.data["run_id"])


def test_strict_runs_the_tests_on_a_branch_and_all_of_them_on_main(changed: Repo) -> None:
    branch = changed.verify("strict").expect("green")
    changed.git("switch", "-q", "main")
    main = changed.verify("strict").expect("green")

    assert executed(branch) == (*STATIC, "test.scoped") == tuple(branch.states())
    assert reach(branch) == ("test.scoped", "test.scoped")
    assert executed(main) == (*STATIC, "test.scoped", "test.full") == tuple(main.states())
    assert reach(main) == ("test.full", "test.full")


def test_strict_runs_the_tests_of_a_change_of_comments_too(changed: Repo) -> None:
    changed.write({"tiny.py": "# Twice as much.\n" + TINY["tiny.py"]})

    answer = changed.verify("strict").expect("green")

    assert executed(answer) == (*STATIC, "test.scoped")


def test_strict_proves_nothing_where_no_test_reaches_the_change(changed: Repo) -> None:
    changed.write(TINY | {"lonely.py": "def lonely():\n    return 2\n"})

    answer = changed.verify("strict").expect("inconclusive")

    assert executed(answer) == STATIC
    assert answer.rung("test.scoped")["state"] == "inconclusive"
    assert answer.rung("test.scoped")["reason_code"] == "no_covering_test"
    assert answer.rung("test.scoped")["next"]


def test_ci_parity_runs_all_tests_in_place_of_the_chosen_ones(changed: Repo) -> None:
    answer = changed.verify("ci").expect("green")

    assert answer.data["verify_policy"] == "ci_parity"
    assert executed(answer) == (*STATIC, "test.full")
    assert answer.rung("test.scoped")["state"] == "skipped"
    assert answer.rung("test.scoped")["reason_code"] == "covered_by_full"
    assert reach(answer) == ("test.full", "test.full")
    assert changed.tasks(answer.data["run_id"]).count("pytest.run") == 1


@pytest.mark.parametrize("policy", ["ci_parity", "strict"])
def test_a_policy_from_the_settings_does_not_permit_all_tests(changed: Repo, policy: str) -> None:
    changed.git("branch", "-f", "main")
    changed.git("switch", "-q", "main")
    changed.write({"glideslope.toml": f'[agent.environment]\ndefault_verify_policy = "{policy}"\n'})

    answer = changed.verify().expect("refused")

    assert answer.data["verify_policy"] == policy
    assert answer.rung("test.full")["state"] == "not_permitted"
    assert answer.rung("test.full")["reason_code"] == "needs_explicit"
    assert answer.rung("test.full")["next"] == f"glideslope verify {policy}"
    assert answer.data["max_rung_reached"] == ("build.affected" if policy == "ci_parity" else "test.scoped")


def test_the_settings_may_permit_all_tests(changed: Repo) -> None:
    changed.write(
        {
            "glideslope.toml": '[agent.environment]\ndefault_verify_policy = "ci_parity"\n'
            "[agent.environment.ladder]\ntest_full_require_explicit = false\n"
        }
    )

    assert reach(changed.verify().expect("green")) == ("test.full", "test.full")


@pytest.mark.parametrize(("rung", "count"), [("diagnose.files", 1), ("build.affected", 3)])
def test_a_named_rung_ends_the_climb_and_adds_none(changed: Repo, rung: str, count: int) -> None:
    answer = changed.verify("--rung", rung).expect("green")

    assert tuple(answer.states()) == (*STATIC, "test.scoped")[:count]
    assert reach(answer) == (tuple(answer.states())[-1],) * 2


def test_some_paths_prove_at_most_themselves(changed: Repo) -> None:
    alone = changed.verify("--paths", "tiny.py").expect("green")
    changed.write({"lonely.py": "def lonely():\n    return 3\n"})
    beside = changed.verify("--paths", "tiny.py").expect("inconclusive")

    assert "test.scoped" in alone.states()
    assert "lonely.py" in beside.data["changed_paths"]
    assert (beside.data["note"], beside.data["next"]) == (
        "other paths changed too and were not looked at",
        "glideslope verify",
    )


def test_equal_content_is_shown_again_and_no_cache_runs_it(changed: Repo) -> None:
    first = changed.verify().expect("green")
    again = changed.verify().expect("green")
    fresh = changed.verify("--no-cache").expect("green")

    assert [rung["cached_from"] for rung in again.data["rungs"]] == [first.data["run_id"]] * 4
    assert changed.tasks(again.data["run_id"]) == []
    assert executed(fresh) == (*STATIC, "test.scoped")
