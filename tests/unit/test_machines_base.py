"""Which proof may serve as base, and which answers on equal content."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glideslope.machines.base import LIVE, Terms, rank_bases, same_content, shown_again
from glideslope.model.ids import CommitId, EnvironmentKey, RunId, Scope, SnapshotId
from glideslope.model.proof import FULL_COVER, RungProof
from glideslope.model.result import ProjectRung, RungState, TestCounts
from glideslope.model.rung import Rung

TERMS = Terms(
    snapshot=SnapshotId("s1-now"),
    environment_key=EnvironmentKey("py"),
    settings_digest="d",
    selector="1",
    isolation="snapshot",
)
PROOF = RungProof(
    run=RunId("r1"),
    scope=Scope("/here"),
    repository="repo",
    snapshot=SnapshotId("s1-then"),
    rung=Rung.SCOPED,
    project=".",
    environment_key=EnvironmentKey("py"),
    settings_digest="d",
    selector="1",
    isolation="snapshot",
    git_head="c1",
    covered="some",
)
INCOMPARABLE = [
    replace(PROOF, environment_key=EnvironmentKey("other")),
    replace(PROOF, settings_digest="other"),
    replace(PROOF, selector="2"),
]


@pytest.mark.parametrize(
    "proof", [*INCOMPARABLE, replace(PROOF, isolation=LIVE), replace(PROOF, snapshot=TERMS.snapshot)]
)
def test_what_proves_something_else_is_no_base(proof: RungProof) -> None:
    assert rank_bases([proof, PROOF], TERMS, ()) == (PROOF,)


def test_proofs_of_ancestors_go_first_and_the_newest_within_each_group() -> None:
    newest, middle, oldest = (replace(PROOF, run=RunId(name), git_head=name) for name in ("n", "m", "o"))
    assert rank_bases([newest, middle, oldest], TERMS, {CommitId("m"), CommitId("o")}) == (
        middle,
        oldest,
        newest,
    )


@pytest.mark.parametrize("proof", [*INCOMPARABLE, replace(PROOF, isolation="copy")])
def test_what_was_proved_on_other_terms_answers_nothing(proof: RungProof) -> None:
    assert same_content([replace(proof, snapshot=TERMS.snapshot)], TERMS, "some") is None


def test_the_newest_proof_of_this_content_that_covers_as_much_answers() -> None:
    here = replace(PROOF, snapshot=TERMS.snapshot)
    less, full = replace(here, covered="less"), replace(here, covered=FULL_COVER)
    assert same_content([PROOF, less, full, here], TERMS, "some") is full
    assert same_content([PROOF, less], TERMS, "some") is None


def test_a_pass_is_shown_again_as_it_was_with_every_test_counted_as_cached() -> None:
    counts = TestCounts(passed=5, failed=1, errors=1, skipped=3, xfailed=1, xpassed=1)
    end = ProjectRung(state=RungState.PASS, summary="5 passed", tests=counts)
    assert shown_again(replace(PROOF, end=end)) == replace(end, tests=replace(counts, cached=9))
    silent = ProjectRung(state=RungState.PASS, summary="3 files")
    assert shown_again(replace(PROOF, end=silent)) == silent


def test_a_proof_that_did_not_keep_its_end_is_shown_as_a_bare_pass() -> None:
    proof = replace(PROOF, known_failures=("t.py::test_old",))
    assert shown_again(proof) == ProjectRung(
        state=RungState.PASS, covered="some", known_failures=("t.py::test_old",)
    )
