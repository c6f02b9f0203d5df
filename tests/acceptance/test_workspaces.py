"""Workspaces of every shape."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.desk import PROJECT, TINY, Desk, Repo

pytestmark = pytest.mark.process

UNITTEST = """import unittest

from tiny import double


class TestDouble(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(4), 8)
"""
BUG = TINY["tiny.py"].replace("x * 2", "x * 3")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with nothing installed."""
    environment = tmp_path_factory.mktemp("bare") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    return str(environment / "bin" / "python")


def member(name: str) -> dict[str, str]:
    return {
        f"{name}/pyproject.toml": PROJECT.replace("tiny", name),
        f"{name}/{name}.py": TINY["tiny.py"],
        f"{name}/test_{name}.py": TINY["test_tiny.py"]
        .replace("tiny", name)
        .replace("test_double", f"test_{name}"),
    }


def projects(answer_rung: dict[str, object]) -> list[str]:
    found = answer_rung["projects"]
    assert isinstance(found, list)
    return [project["name"] for project in found]


def test_of_two_projects_only_the_touched_one_is_verified(folder: Repo) -> None:
    folder.commit(member("alpha") | member("beta"))
    first = folder.verify().expect("green")
    folder.write({"beta/beta.py": BUG})

    answer = folder.verify().expect("red")

    assert projects(first.rung("test.scoped")) == ["alpha", "beta"]
    assert projects(answer.rung("test.scoped")) == ["beta"]
    assert list(answer.failing("test.scoped").values()) == ["new"]
    assert answer.rung("test.scoped")["tests"]["failing"][0]["path"] == "beta/test_beta.py"


def test_a_named_project_proves_at_most_itself(folder: Repo) -> None:
    folder.commit(member("alpha") | member("beta")).verify().expect("green")
    folder.write({"alpha/alpha.py": TINY["tiny.py"].replace("x * 2", "2 * x"), "beta/beta.py": BUG})

    alpha = folder.verify("--project", "alpha").expect("inconclusive")
    beta = folder.verify("--project", "beta").expect("red")

    assert alpha.rung("test.scoped")["state"] == "pass"
    assert projects(beta.rung("test.scoped")) == ["beta"]


def test_a_project_that_imports_another_one_is_verified_with_it(folder: Repo) -> None:
    files = member("alpha") | member("beta")
    files["beta/test_beta.py"] = (
        "import os\nimport sys\n\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'alpha'))\n"
        "from alpha import double  # noqa: E402\n\n\ndef test_beta():\n    assert double(4) == 8\n"
    )
    folder.commit(files).verify().expect("green")
    folder.write({"alpha/alpha.py": BUG})

    answer = folder.verify().expect("red")

    paths = {test["path"] for test in answer.rung("test.scoped")["tests"]["failing"]}
    assert paths == {"alpha/test_alpha.py", "beta/test_beta.py"}


def test_a_project_of_unittest_tests_needs_no_pytest(repo: Repo, bare_python: str) -> None:
    repo.commit({"test_tiny.py": UNITTEST})

    green = repo.call("verify", "--python", bare_python).expect("green")
    repo.write({"tiny.py": BUG})
    red = repo.call("verify", "--python", bare_python).expect("red")

    assert green.rung("test.scoped")["tests"]["passed"] == 1
    failing = red.rung("test.scoped")["tests"]["failing"]
    assert [(test["path"], test["line"], test["class"]) for test in failing] == [("test_tiny.py", 8, "new")]


def test_tests_for_pytest_without_pytest_prove_nothing_and_say_how_to_get_it(
    repo: Repo, bare_python: str
) -> None:
    answer = repo.call("verify", "--python", bare_python).expect("inconclusive")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("inconclusive", "tool_missing")
    assert bare_python in rung["summary"]
    assert rung["next"] == f"{bare_python} -m pip install pytest"


def test_the_environment_in_the_project_is_found_and_carried(folder: Repo) -> None:
    folder.commit(TINY | {"test_tiny.py": UNITTEST, ".gitignore": ".venv\n"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder.root / ".venv"], check=True)

    answer = folder.call("verify").expect("green")

    assert answer.rung("test.scoped")["tests"]["passed"] == 1


def test_a_nested_repository_is_part_of_the_content(repo: Repo, tmp_path: Path) -> None:
    nested = Repo(desk=repo.desk, root=repo.root / "vendor" / "inner")
    nested.root.mkdir(parents=True)
    nested.commit({"inner.py": "VALUE = 8\n"})
    repo.write(
        {
            "test_inner.py": "import sys\n\nsys.path.insert(0, 'vendor/inner')\n"
            "from inner import VALUE  # noqa: E402\n\n\ndef test_inner():\n    assert VALUE == 8\n"
        }
    )
    repo.git("add", "test_inner.py")  # the nested repository itself stays untracked
    repo.git("commit", "-q", "-m", "a test of what is nested")
    first = repo.verify().expect("green")
    nested.write({"inner.py": "VALUE = 9\n"})

    second = repo.verify()

    assert second.data["verify_snapshot_id"] != first.data["verify_snapshot_id"]
    assert second.data["changed_paths"] == ["vendor/inner/inner.py"]
    assert second.expect("red").failing("test.scoped") == {"test_inner.py::test_inner": "new"}


def test_a_linked_worktree_is_a_scope_of_its_own_with_the_proofs_of_its_repository(repo: Repo) -> None:
    first = repo.verify().expect("green")
    root = repo.root.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "topic", str(root))
    linked = Repo(desk=repo.desk, root=root)
    linked.write({"tiny.py": BUG})

    answer = linked.verify().expect("red")

    assert answer.data["scope"] == str(root)
    assert answer.data["base_snapshot_id"] == first.data["verify_snapshot_id"]
    assert answer.failing("test.scoped") == {"test_tiny.py::test_double": "new"}
    assert repo.call("last", "--exit-code").exit_code == 0


def test_a_folder_without_git_is_verified_by_its_project_file(folder: Repo) -> None:
    folder.write(TINY)
    first = folder.verify().expect("green")
    folder.write({"tiny.py": BUG})

    answer = folder.verify().expect("red")

    assert answer.data["git_head"] is None
    assert answer.data["base_snapshot_id"] == first.data["verify_snapshot_id"]
    assert answer.data["changed_paths"] == ["tiny.py"]


def test_a_folder_below_the_root_means_the_whole_workspace(desk: Desk, repo: Repo) -> None:
    below = repo.root / "deep" / "down"
    below.mkdir(parents=True)

    answer = desk.call(*repo.named("verify", "minimal"), cwd=below).expect("green")

    assert answer.data["scope"] == str(repo.root)
