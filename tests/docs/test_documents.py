"""Documents that are wrong in a way a program can see."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from glideslope.machines.settings.key import KEYS
from glideslope.model.result import Verdict
from glideslope.model.rung import POLICY_ALIASES, Rung, VerifyPolicy
from glideslope.model.settings import Settings

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
FRAGMENT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(breaking|feature|fix|deprecated|doc|internal)\.md")
RECORD = re.compile(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def test_changelog_fragments_are_named_subject_dot_type_and_begin_with_a_sentence() -> None:
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert fragments
    for fragment in fragments:
        assert FRAGMENT.fullmatch(fragment.name), fragment.name
        first = fragment.read_text().splitlines()[0]
        assert re.fullmatch(r"[A-Z`].*\.", first), f"{fragment.name}: {first}"


def test_decision_records_are_numbered_without_gaps_and_all_in_the_index() -> None:
    records = sorted(path.name for path in DECISIONS.iterdir() if path.name != "README.md")
    assert [name for name in records if not RECORD.fullmatch(name)] == []
    assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))
    index = (DECISIONS / "README.md").read_text()
    assert re.findall(r"\]\((\d{4}[^)]*)\)", index) == records


@pytest.mark.process
def test_links_between_documents_lead_somewhere() -> None:
    documents = tracked("*.md")
    assert ROOT / "README.md" in documents
    for document in documents:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} -> {target}"


def test_the_readme_gives_every_verdict_its_exit_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {verdict: int(code) for verdict, code in rows} == {
        verdict.value: verdict.exit_code for verdict in Verdict
    }


def test_the_readme_names_every_policy_alias_and_rung() -> None:
    named = set(re.findall(r"`([\w.]+)`", (ROOT / "README.md").read_text()))
    assert {*VerifyPolicy, *POLICY_ALIASES, *Rung} <= named


def test_the_documented_settings_are_all_settings_with_their_defaults() -> None:
    block = re.search(r"```toml\n(\[agent\.environment\].*?)```", SETTINGS, re.DOTALL)
    assert block is not None
    documented = tomllib.loads(block[1])["agent"]["environment"]
    assert documented == json.loads(json.dumps(dataclasses.asdict(Settings().environment)))


def test_the_documented_safety_keys_are_those_that_can_only_be_tightened() -> None:
    paragraph = re.search(r"the safety keys (.*?) take the user's value", SETTINGS, re.DOTALL)
    assert paragraph is not None
    guarded = sorted(key.name.rpartition(".")[2] for key in KEYS if key.strictness is not None)
    assert re.findall(r"`(\w+)`", paragraph[1]) == guarded


def test_every_key_a_user_may_set_is_documented() -> None:
    names = {key.name.rpartition(".")[2] for key in KEYS}
    assert {name for name in names if not re.search(rf"^{name} = ", SETTINGS, re.MULTILINE)} == set()
