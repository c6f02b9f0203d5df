"""Settings: layers, their order, what may tighten, and what is said about a mistake."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

import glideslope.errors
from glideslope.adapters.settings import (
    FileSettings,
    folder_reader,
    load_settings,
    merge_settings,
    user_settings_file,
)
from glideslope.errors import InvalidInput, RequestError
from glideslope.machines.settings.key import ALIASES, ANY, BY_NAME, KEYS, UNREAD, find_key
from glideslope.machines.settings.layer import Source, read_file, read_variables
from glideslope.machines.settings.locate import locate
from glideslope.machines.settings.merge import Merged, allows, by_default, merge
from glideslope.model.rung import VerifyPolicy
from glideslope.model.settings import (
    EnvironmentSettings,
    LadderSettings,
    Network,
    SandboxProfile,
    Settings,
    TestProfile,
    TimeAccountingSettings,
)

ENV = "agent.environment."


def merged(
    *,
    user: str = "",
    own: str | None = None,
    project: str | None = None,
    variables: Mapping[str, str] | None = None,
    tmp_path: Path,
) -> Merged:
    user_file = tmp_path / "user.toml"
    user_file.write_text(user)
    files = {"glideslope.toml": own, "pyproject.toml": project}

    def read(name: str) -> bytes | None:
        text = files.get(name)
        return None if text is None else text.encode("utf-8", "surrogateescape")

    return merge_settings(user_file=str(user_file), variables=variables or {}, read=read)


def test_without_any_layer_the_defaults_hold(tmp_path: Path) -> None:
    found = merge_settings(user_file=None, variables={"HOME": "/h"}, read=lambda name: None)
    assert found.settings == Settings()
    assert not found.problems
    assert not found.warnings
    assert set(found.sources.values()) == {"default"}


def test_every_field_of_the_model_is_a_key_and_every_key_a_field() -> None:
    def names(prefix: str, kind: type[object]) -> set[str]:
        tables = {"ladder": LadderSettings, "time_accounting": TimeAccountingSettings}
        found: set[str] = set()
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name in tables:
                found |= names(f"{prefix}{field.name}.", tables[field.name])
            else:
                found.add(prefix + field.name)
        return found

    profile = {f"test_profiles.{ANY}.{field.name}" for field in dataclasses.fields(TestProfile)}
    expected = names(ENV, EnvironmentSettings) | (profile - {f"test_profiles.{ANY}.name"})
    assert {key.name for key in KEYS} == expected


@pytest.mark.parametrize("key", [key for key in KEYS if ANY not in key.name], ids=lambda key: key.name)
def test_each_key_reaches_its_field_from_a_file_and_from_a_variable(key: object, tmp_path: Path) -> None:
    from glideslope.machines.settings.key import Key

    assert isinstance(key, Key)
    text, value = _other_value(key.name)
    table, _, name = key.name.rpartition(".")
    by_file = merged(user=f"[{table}]\n{name} = {text}\n", tmp_path=tmp_path)
    assert not by_file.problems
    assert _field(by_file.settings, key.name) == value != by_default(key)
    raw = text.strip('"') if isinstance(value, str) else text
    variable = "GLIDESLOPE__" + key.name.replace(".", "__").upper()
    by_variable = merged(variables={variable: raw}, tmp_path=tmp_path)
    assert not by_variable.problems
    if key.strictness is None or not by_variable.warnings:
        assert _field(by_variable.settings, key.name) == value
        assert by_variable.sources[key.name] == variable


def _other_value(name: str) -> tuple[str, object]:
    texts: dict[str, tuple[str, object]] = {
        "default_verify_policy": ('"strict"', VerifyPolicy.STRICT),
        "default_sandbox_profile": ('"read_only"', SandboxProfile.READ_ONLY),
        "runner_max_concurrency": ("5", 5),
        "coalesce_window_ms": ("0", 0),
        "network": ('"host"', Network.HOST),
        "allow_index": ("false", False),
        "carry": ('["env"]', ("env",)),
        "carry_files": ('["a/*.dat"]', ("a/*.dat",)),
        "python": ('"bin/python"', "bin/python"),
        "isolation": ('"copy"', "copy"),
        "task_timeout_s": ("12.5", 12.5),
        "task_idle_s": ("7", 7.0),
        "state_max_bytes": ("200000000", 200_000_000),
        "keep_runs": ("3", 3),
        "daemon_idle_s": ("60", 60.0),
        "diagnose_files_enabled": ("false", False),
        "test_full_require_explicit": ("false", False),
        "main_branches": ('["trunk"]', ("trunk",)),
        "show_in_chat": ("false", False),
    }
    return texts[name.rpartition(".")[2]]


def _field(settings: Settings, name: str) -> object:
    here: object = settings
    for part in name.split(".")[1:]:
        here = getattr(here, part)
    return here


def test_the_repository_file_wins_over_the_user_file_and_a_variable_over_both(tmp_path: Path) -> None:
    user = "[agent.environment]\ncoalesce_window_ms = 1\nrunner_max_concurrency = 1\nkeep_runs = 1\n"
    own = "[agent.environment]\ncoalesce_window_ms = 2\nrunner_max_concurrency = 2\n"
    variables = {"GLIDESLOPE__AGENT__ENVIRONMENT__COALESCE_WINDOW_MS": "3"}
    found = merged(user=user, own=own, variables=variables, tmp_path=tmp_path)
    environment = found.settings.environment
    assert (environment.coalesce_window_ms, environment.runner_max_concurrency, environment.keep_runs) == (
        3,
        2,
        1,
    )
    assert found.sources[ENV + "runner_max_concurrency"] == "glideslope.toml"


def test_a_glideslope_toml_stands_alone_and_pyproject_is_then_not_looked_at(tmp_path: Path) -> None:
    project = "[tool.glideslope.agent.environment]\nkeep_runs = 9\nno_such_key = 1\n"
    assert merged(project=project, tmp_path=tmp_path).problems
    found = merged(own="", project=project, tmp_path=tmp_path)
    assert not found.problems
    assert found.settings == Settings()


def test_pyproject_tables_are_read_and_mistakes_in_them_found_with_file_and_line(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\n\n[tool.glideslope.agent.environment]\nkeep_runs = 9\n\nkeep_run = 2\n'
    found = merged(project=project, tmp_path=tmp_path)
    assert found.settings.environment.keep_runs == 9
    assert [problem.where for problem in found.problems] == ["pyproject.toml:7"]
    assert "did you mean agent.environment.keep_runs?" in found.problems[0].message


@pytest.mark.parametrize("broken", ["[tool", "a = [" * 3000, "a = 1\na = 2", "\udcff = 1"])
def test_a_project_file_that_does_not_parse_is_no_error_of_the_settings(broken: str, tmp_path: Path) -> None:
    found = merged(project=broken, tmp_path=tmp_path)
    assert not found.problems
    assert found.settings == Settings()


@pytest.mark.parametrize("broken", ["[agent", "a = [" * 3000, "a = 1\na = 2", "\udcff = 1"])
def test_an_own_file_that_does_not_parse_is_a_request_error(broken: str) -> None:
    content = broken.encode("utf-8", "surrogateescape")
    files = {"glideslope.toml": content}
    with pytest.raises(InvalidInput, match=r"glideslope\.toml is not TOML"):
        load_settings(user_file=None, variables={}, read=files.get)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('network = "lopback"', "did you mean loopback?"),
        ("network = true", "expects one of loopback, host, not True"),
        ("runner_max_concurrency = 0", "expects a whole number, from 1 to 256, not 0"),
        ("runner_max_concurrency = true", "expects a whole number, from 1 to 256, not True"),
        ("runner_max_concurrency = 1.5", "expects a whole number"),
        ("task_timeout_s = nan", "expects a number"),
        ("task_timeout_s = inf", "expects a number"),
        ("daemon_idle_s = inf", "expects a number"),
        ("allow_index = 1", "expects true or false, not 1"),
        ('carry = "venv"', "expects a list of paths"),
        ("carry = [1]", "expects a list of paths"),
        ('carry = ["/etc"]', "holds '/etc', which is no path below the workspace root"),
        ('carry_files = ["../secret"]', "holds '../secret'"),
        ('carry = [".git"]', "holds '.git'"),
        ('python = "a\\u0000b"', "holds a NUL"),
        ("ladder = 3", "expects a table: write [agent.environment.ladder]"),
        ('default_verify_policy = "Strict"', "did you mean strict?"),
        ('default_verify_policy = "wild"', "expects one of minimal, standard, strict, ci_parity, not 'wild'"),
        ("coalesce_window = 3", "unknown key: did you mean agent.environment.coalesce_window_ms?"),
        ("main_branches = []", "did you mean agent.environment.ladder.main_branches?"),
        ("qqq = 3", "unknown key: see `glideslope config schema`"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_to_do(line: str, said: str, tmp_path: Path) -> None:
    own = f"# about\n\n[agent.environment]\nkeep_runs = 3\n\n# more\n{line}\n"
    found = merged(own=own, tmp_path=tmp_path)
    assert [problem.where for problem in found.problems] == ["glideslope.toml:7"]
    assert found.problems[0].message.startswith("glideslope.toml:7: agent.environment.")
    assert said in found.problems[0].message
    assert found.settings == merged(own="[agent.environment]\nkeep_runs = 3", tmp_path=tmp_path).settings


@pytest.mark.parametrize("name", sorted(UNREAD))
def test_a_key_that_nothing_reads_is_unknown_and_the_message_says_so(name: str, tmp_path: Path) -> None:
    found = merged(own=f'{name} = "deny"\n', tmp_path=tmp_path)
    assert "nothing in this version reads this key: remove it" in found.problems[0].message
    assert name not in BY_NAME


def test_a_quoted_table_name_is_not_taken_for_a_dotted_one(tmp_path: Path) -> None:
    found = merged(own='["agent.environment"]\nkeep_runs = 3\n', tmp_path=tmp_path)
    assert found.problems
    assert found.settings == Settings()


LOOSER = [
    ("default_sandbox_profile", '"operator"'),
    ("network", '"host"'),
    ("allow_index", "true"),
    ("isolation", '"live"'),
]
TIGHTER = [
    ("default_sandbox_profile", '"read_only"'),
    ("network", '"loopback"'),
    ("allow_index", "false"),
    ("isolation", '"snapshot"'),
]


def test_the_cases_of_loosening_cover_every_safety_key() -> None:
    safety = {key.name.removeprefix(ENV) for key in KEYS if key.strictness is not None}
    assert {name for name, _ in LOOSER} == {name for name, _ in TIGHTER} == safety
    for key in KEYS:
        assert key.strictness is None or set(key.strictness) == (set(key.choices) or {True, False})


@pytest.mark.parametrize(("name", "value"), LOOSER)
@pytest.mark.parametrize("layer", ["own", "project", "variable"])
def test_only_the_user_file_can_loosen_a_safety_key(
    name: str, value: str, layer: str, tmp_path: Path
) -> None:
    strict = dict(TIGHTER)[name]
    line = f"{name} = {value}\n"
    kept = merged(user=f"[agent.environment]\n{name} = {strict}\n", tmp_path=tmp_path)
    found = merged(
        user=f"[agent.environment]\n{name} = {strict}\n",
        own=f"[agent.environment]\n{line}" if layer == "own" else None,
        project=f"[tool.glideslope.agent.environment]\n{line}" if layer == "project" else None,
        variables={f"GLIDESLOPE__AGENT__ENVIRONMENT__{name.upper()}": value.strip('"')}
        if layer == "variable"
        else {},
        tmp_path=tmp_path,
    )
    assert found.settings == kept.settings
    assert len(found.warnings) == 1
    assert "would allow more" in found.warnings[0]
    assert str(tmp_path / "user.toml") in found.warnings[0]
    loosened = merged(user=f"[agent.environment]\n{line}", tmp_path=tmp_path)
    assert not loosened.warnings
    assert loosened.settings != kept.settings


@pytest.mark.parametrize(("name", "value"), TIGHTER)
def test_any_layer_can_tighten_a_safety_key_and_no_later_one_undoes_it(
    name: str, value: str, tmp_path: Path
) -> None:
    loose = dict(LOOSER)[name]
    user = f"[agent.environment]\n{name} = {loose}\n"
    own = f"[agent.environment]\n{name} = {value}\n"
    variable = {f"GLIDESLOPE__AGENT__ENVIRONMENT__{name.upper()}": loose.strip('"')}
    tight = merged(user=user, own=own, tmp_path=tmp_path)
    assert not tight.warnings
    assert tight.settings == merged(user=own, tmp_path=tmp_path).settings
    assert merged(user=user, own=own, variables=variable, tmp_path=tmp_path).settings == tight.settings


def test_a_wrong_value_of_a_safety_key_leaves_the_closed_choice(tmp_path: Path) -> None:
    found = merged(own='[agent.environment]\nnetwork = "hosts"\n', tmp_path=tmp_path)
    assert found.problems
    assert found.settings.environment.network is Network.LOOPBACK


def test_a_call_may_ask_for_a_profile_that_forbids_as_much_or_more() -> None:
    assert allows(SandboxProfile.OPERATOR, SandboxProfile.AGENT_EPHEMERAL)
    assert allows(SandboxProfile.AGENT_EPHEMERAL, SandboxProfile.READ_ONLY)
    assert allows(SandboxProfile.AGENT_EPHEMERAL, SandboxProfile.AGENT_WORKTREE)
    assert not allows(SandboxProfile.AGENT_EPHEMERAL, SandboxProfile.OPERATOR)


@pytest.mark.parametrize(("old", "new"), sorted(ALIASES.items()))
def test_an_old_name_is_read_with_a_warning_that_names_the_new_one(
    old: str, new: str, tmp_path: Path
) -> None:
    table, _, name = old.rpartition(".")
    found = merged(own=f"[{table}]\n{name} = false\n", tmp_path=tmp_path)
    assert _field(found.settings, new) is False
    assert found.warnings == (
        f"glideslope.toml:2: {old} is an old name, read until version 1.0: write {new}",
    )
    both = f"[{table}]\n{new.rpartition('.')[2]} = true\n{name} = false\n"
    assert _field(merged(own=both, tmp_path=tmp_path).settings, new) is True


def test_test_profiles_are_named_by_the_user(tmp_path: Path) -> None:
    own = '[test_profiles.unit]\ncommand = ["pytest", "{selection}"]\n[test_profiles."a.b"]\ncommand = ["x"]\ntimeout_s = 5\n'
    found = merged(own=own, tmp_path=tmp_path)
    assert not found.problems
    assert found.settings.test_profiles == (
        TestProfile(name="a.b", command=("x",), timeout_s=5.0),
        TestProfile(name="unit", command=("pytest", "{selection}")),
    )


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("[test_profiles.unit]\ntimeout_s = 5\n", "glideslope.toml", "has no command"),
        ("[test_profiles.unit]\ncommand = []\n", "glideslope.toml:2", "it is empty"),
        (
            "[test_profiles.unit]\ncomand = ['x']\n",
            "glideslope.toml:2",
            "did you mean test_profiles.unit.command?",
        ),
        ("test_profiles = 3\n", "glideslope.toml:1", "expects a table"),
        ("[test_profiles]\nunit = 3\n", "glideslope.toml:2", "expects a table: write [test_profiles.unit]"),
    ],
)
def test_a_test_profile_that_is_wrong_is_named(text: str, where: str, said: str, tmp_path: Path) -> None:
    found = merged(own=text, tmp_path=tmp_path)
    assert [problem.where for problem in found.problems] == [where]
    assert said in found.problems[0].message
    assert found.settings.test_profiles == ()


def test_variables_are_read_by_kind_and_a_mistake_names_the_variable(tmp_path: Path) -> None:
    prefix = "GLIDESLOPE__AGENT__ENVIRONMENT__"
    good = {
        prefix + "ALLOW_INDEX": "False",
        prefix + "CARRY": '["a b", "c"]',
        prefix + "PYTHON": "3",
        prefix + "LADDER__MAIN_BRANCHES": '["trunk"]',
    }
    found = merged(variables={**good, "GLIDESLOPE_STATE_DIR": "/s"}, tmp_path=tmp_path)
    assert not found.problems
    assert found.settings.environment.carry == ("a b", "c")
    assert found.settings.environment.python == "3"
    assert found.settings.environment.ladder.main_branches == ("trunk",)
    bad = read_variables({prefix + "CARRY": "a,b", prefix + "NETWROK": "host", "GLIDESLOPE__": "x"})
    assert [problem.where for problem in bad.problems] == [
        "GLIDESLOPE__",
        prefix + "CARRY",
        prefix + "NETWROK",
    ]
    assert "did you mean agent.environment.network?" in bad.problems[2].message


def test_the_digest_follows_what_a_pass_depends_on_and_nothing_else(tmp_path: Path) -> None:
    plain = merged(tmp_path=tmp_path).digest
    for key in KEYS:
        if ANY in key.name:
            continue
        text, _ = _other_value(key.name)
        table, _, name = key.name.rpartition(".")
        found = merged(user=f"[{table}]\n{name} = {text}\n", tmp_path=tmp_path)
        assert (found.digest != plain) == key.proof, key.name
    profile = '[test_profiles.unit]\ncommand = ["x"]\n'
    assert merged(own=profile, tmp_path=tmp_path).digest != plain
    comment = merged(own="# only a comment\n", tmp_path=tmp_path)
    assert comment.digest == plain


def test_the_line_of_a_key_is_that_of_its_statement() -> None:
    text = b'a = 1\n\n[t]\n# c\nb = [\n  1,\n  2,\n]\nc = """\nx = 1\n"""\nd.e = 2\n[[u]]\nv = 1\n'
    places = {("a",): 1, ("t",): 3, ("t", "b"): 5, ("t", "c"): 9, ("t", "d", "e"): 12, ("u",): 13}
    assert {path: locate(text, path) for path in places} == places
    assert locate(text, ("t", "x")) is None
    assert locate(text, ()) is None


def test_files_that_cannot_be_read_are_a_request_error_and_missing_ones_are_nothing(tmp_path: Path) -> None:
    import os

    read = folder_reader(str(tmp_path))
    assert read("glideslope.toml") is None
    assert folder_reader(None)("glideslope.toml") is None
    (tmp_path / "glideslope.toml").symlink_to("nowhere")
    assert read("glideslope.toml") is None
    os.mkfifo(tmp_path / "pyproject.toml")
    assert read("pyproject.toml") is None
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RequestError, match="cannot be read"):
        read("loop")
    (tmp_path / "folder").mkdir()
    assert read("folder") is None


def test_the_engine_source_reads_from_the_disk_and_raises_on_the_first_mistake(tmp_path: Path) -> None:
    (tmp_path / "glideslope.toml").write_text("[agent.environment]\nkeep_runs = 7\n")
    source = FileSettings(user_file=str(tmp_path / "absent" / "user.toml"))
    loaded = source.load(workspace_root=str(tmp_path), variables={})
    assert loaded.settings.environment.keep_runs == 7
    assert source.load(workspace_root=None, variables={}).settings == Settings()
    (tmp_path / "glideslope.toml").write_text("[agent.environment]\nkeep = 7\nalso = 2\n")
    with pytest.raises(InvalidInput, match=r"^glideslope\.toml:2: .* \(and 1 more\)$") as caught:
        source.load(workspace_root=str(tmp_path), variables={})
    assert caught.value.next == "glideslope config check"


def test_the_user_file_lies_in_the_configuration_folder() -> None:
    assert user_settings_file({"XDG_CONFIG_HOME": "/c"}, home="/h") == "/c/glideslope/settings.toml"
    assert user_settings_file({}, home="/h").startswith("/h/")
    assert user_settings_file({"XDG_CONFIG_HOME": "relative"}, home="/h").startswith("/h/")


def test_a_broken_user_file_is_a_problem_too() -> None:
    layer = read_file(b"[", file="/c/settings.toml", source=Source.USER)
    assert merge([layer], user_file="/c/settings.toml").problems[0].where == "/c/settings.toml"
    assert find_key(("agent",)) is None


SRC = Path(glideslope.errors.__file__).parent
HOLDERS = {"environment", "settings", "_settings", "own", "ladder", "time_accounting", "profile", "found"}


def _holder(node: ast.expr) -> str:
    """The name of what an attribute is read from."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_every_key_is_read_by_some_code() -> None:
    read: set[str] = set()
    for file in SRC.rglob("*.py"):
        if "settings" in file.relative_to(SRC).parts or file.name == "settings.py":
            continue  # what defines, parses and merges them does not obey them
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and _holder(node.value) in HOLDERS:
                read.add(node.attr)
    assert {key.name for key in KEYS if key.name.rpartition(".")[2] not in read} == set()
    assert "test_profiles" in read
