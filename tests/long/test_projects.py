"""Real projects: what `verify` says of them is what plain pytest says.

`GLIDESLOPE_TEST_PROJECTS` chooses projects, `GLIDESLOPE_TEST_EDITS` how many of the ten behaviour
bugs and of the ten comment-only edits of each are tried.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.long.draw import MUTANTS, at_rest, bug_limit_s, identity
from tests.long.mutation import Edit, comments
from tests.long.plain import Plain, cached
from tests.long.product import Product, Verified, product
from tests.long.project import Project, chosen, prepare, restore

pytestmark = [pytest.mark.long, pytest.mark.process]

EDITS = range(int(os.environ.get("GLIDESLOPE_TEST_EDITS", "10")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """One project, what plain pytest says of it, and the product, which has verified it once."""

    project: Project
    rest: Plain
    glideslope: Product
    first: Verified

    @property
    def base(self) -> tuple[str, ...]:
        """A project that fails at rest has no green snapshot to compare with: its commit is named."""
        return () if self.rest.green else ("--base", "HEAD")


@pytest.fixture(scope="module", params=chosen(), ids=lambda project: project.name)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    project: Project = request.param
    with prepare(project) as folder:
        rest = at_rest(project)
        with product(tmp_path_factory.mktemp("state"), folder) as ours:
            yield Real(project=project, rest=rest, glideslope=ours, first=ours.verify("standard"))


@pytest.fixture
def folder(real: Real) -> Iterator[Path]:
    yield real.project.folder
    restore(real.project.folder)


def test_a_first_verify_of_a_clean_main_is_green_or_red_as_plain_pytest_is(real: Real) -> None:
    assert real.first.verdict == ("green" if real.rest.green else "red"), real.first.story()
    assert set(real.first.failing("test.scoped", "new", "known")) == set(real.rest.failing)


def test_ci_parity_counts_what_plain_pytest_counts(real: Real) -> None:
    run = real.glideslope.verify("ci_parity")
    counts = run.rung("test.full")["tests"]
    assert counts is not None, run.story()
    assert {outcome: counts[outcome] for outcome in real.rest.counts} == real.rest.counts, run.story()
    assert set(run.failing("test.full", "new", "known")) == set(real.rest.failing)


@pytest.mark.parametrize("number", EDITS)
def test_a_behaviour_bug_is_red_by_exactly_the_failures_that_plain_pytest_adds(
    real: Real, folder: Path, number: int
) -> None:
    edit = bug(real.project, number)
    edit.apply(folder)
    plain = cached(real.project, identity(edit), limit_s=bug_limit_s(real.rest))
    added = set(plain.failing) - set(real.rest.failing)
    assert added, "no bug on this interpreter: draw again"
    run = real.glideslope.verify("standard", *real.base)
    states = run.states()
    below = {rung: states[rung] for rung in ("diagnose.files", "compile.project", "build.affected")}
    assert set(below.values()) <= {"pass", "skipped"}, run.story()
    assert (run.verdict, run.exit_code, states["test.scoped"]) == ("red", 1, "fail"), run.story()
    assert set(run.failing("test.scoped", "new")) == added


@pytest.mark.parametrize("number", EDITS)
def test_a_comment_only_edit_is_green_and_runs_no_test(real: Real, folder: Path, number: int) -> None:
    comments(folder, real.project.modules(), real.project.seed, 10)[number].apply(folder)
    run = real.glideslope.verify("standard", *real.base)
    assert (run.verdict, run.exit_code) == ("green", 0), run.story()
    assert run.states()["test.scoped"] == "skipped", run.story()
    assert run.run["max_rung_reached"] == "build.affected"


def bug(project: Project, number: int) -> Edit:
    """The kept bug of that number.

    Raises:
        AssertionError: the bugs were drawn for another version or seed.
    """
    row = json.loads((MUTANTS / f"{project.name}.json").read_text(encoding="utf-8"))
    assert (row["version"], row["seed"]) == (project.version, project.seed), "draw again"
    return Edit(**row["kept"][number])
