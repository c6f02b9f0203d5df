"""Documents that are wrong in a way a program can see."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
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
        assert first[0].isupper() and first.endswith("."), f"{fragment.name}: {first}"


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
