"""An edit of the same size within the same second runs the new code, in every tier."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.desk import Desk, Repo

from glideslope.adapters.settings import user_settings_file

pytestmark = pytest.mark.process

STAMP_NS = 1_700_000_000 * 1_000_000_000


def edit(path: Path, text: str) -> None:
    """Writes with a time of change that never differs, as a rewrite within one second may."""
    path.write_text(text)
    os.utime(path, ns=(STAMP_NS, STAMP_NS))


def rounds(repo: Repo, tier: str, count: int) -> None:
    """Edits module and test again and again; both say which of their contents ran."""
    for number in range(count):
        module, test = 100 + number, 500 + number
        edit(repo.root / "tiny.py", f"VALUE = {module}\n")
        edit(
            repo.root / "test_tiny.py",
            f"from tiny import VALUE\n\n\ndef test_tiny():\n    assert 0, ('ran', VALUE, {test})\n",
        )

        answer = repo.verify().expect("red")

        assert answer.data["isolation"] == tier
        failing = answer.rung("test.scoped")["tests"]["failing"]
        ran = re.search(r"\('ran', (\d+), (\d+)\)", failing[0]["message"])
        assert ran is not None, failing
        assert (int(ran[1]), int(ran[2])) == (module, test)


@pytest.fixture(params=["snapshot", "copy", "live"])
def tier(desk: Desk, request: pytest.FixtureRequest) -> Iterator[str]:
    """A tier, chosen in the user's own settings: a repository may not choose to be less isolated."""
    file = Path(user_settings_file(desk.environ))
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'[agent.environment]\nisolation = "{request.param}"\n')
    yield request.param
    file.unlink()


def test_an_edit_within_the_second_runs_the_new_code(repo: Repo, tier: str) -> None:
    rounds(repo, tier, 3)


@pytest.mark.long
def test_twenty_edits_within_the_second_run_the_new_code_twenty_times(repo: Repo, tier: str) -> None:
    rounds(repo, tier, 20)
