"""What of the operator's pip the one task with the index gets to see."""

from __future__ import annotations

import pytest

from glideslope.machines.index_access import is_index_variable, plan_access, without_credentials


def test_files_give_way_to_stronger_files_and_those_to_variables() -> None:
    files = [{"index-url": "https://one", "find-links": "/a\n/b"}, {"index-url": "https://two"}]
    found = plan_access(files, {"PIP_FIND_LINKS": "/c"}).variables
    assert (found["PIP_INDEX_URL"], found["PIP_FIND_LINKS"]) == ("https://two", "/c")
    assert plan_access(files, {}).variables["PIP_FIND_LINKS"] == "/a /b"


@pytest.mark.parametrize(
    "option", ["python", "keyring-provider", "no-binary", "target", "requirement", "editable", "log", "user"]
)
def test_what_is_not_on_the_list_does_not_pass(option: str) -> None:
    name = "PIP_" + option.replace("-", "_").upper()
    plain = plan_access([], {})
    assert plan_access([{option: "x"}], {name: "x", "PYTHONPATH": "x"}) == plain
    assert not is_index_variable(name)


def test_no_file_is_left_for_the_task_to_read_and_no_program_is_asked_for_passwords() -> None:
    found = plan_access(
        [{"config-file": "/x"}], {"PIP_CONFIG_FILE": "/x", "PIP_KEYRING_PROVIDER": "subprocess"}
    )
    assert (found.variables["PIP_CONFIG_FILE"], found.variables["PIP_KEYRING_PROVIDER"]) == (
        "/dev/null",
        "disabled",
    )
    assert is_index_variable("PIP_CONFIG_FILE"), "a caller's file is read, though"


def test_what_the_variables_name_on_disk_is_visible() -> None:
    variables = {
        "PIP_FIND_LINKS": "/wheels https://example.org/w /more",
        "PIP_INDEX_URL": "file:///index/simple",
        "PIP_CERT": "/ca.pem",
        "https_proxy": "http://proxy:3128",
    }
    assert sorted(plan_access([], variables).visible) == ["/ca.pem", "/index/simple", "/more", "/wheels"]


def test_environments_of_different_indexes_are_told_apart_but_not_by_a_new_password() -> None:
    def key(**variables: str) -> str:
        return plan_access([], variables).key

    one = key(PIP_INDEX_URL="https://u:p@one/simple")
    assert key(PIP_INDEX_URL="https://u:q@one/simple", PIP_RETRIES="9") == one
    assert len({one, key(PIP_INDEX_URL="https://two/simple"), key()}) == 3


def test_patience_is_ours_unless_the_operator_has_a_word_about_it() -> None:
    assert plan_access([], {}).variables["PIP_RETRIES"] == "2"
    assert "PIP_DEFAULT_TIMEOUT" not in plan_access([{"timeout": "60"}], {}).variables


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://u:p@host/x", "https://host/x"),
        ("https://token@host https://host/a@b", "https://host https://host/a@b"),
        ("u:p@proxy:8080", "proxy:8080"),
        ("/path/a@b", "/path/a@b"),
    ],
)
def test_credentials_are_what_stands_before_the_host(text: str, left: str) -> None:
    assert without_credentials(text) == left
