"""Which older proof serves: as the base of a rung, or as its answer on equal content.

A proof is comparable only when all that decides what a pass means is equal: interpreter and
packages, settings, the selector, and an isolated tier. The snapshot under test is never its own
base. Proofs of ancestors of HEAD go first; then the newest, ancestor or not, since a change is
the difference of two trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from glideslope.model.ids import CommitId, EnvironmentKey, SnapshotId
from glideslope.model.proof import FULL_COVER, RungProof
from glideslope.model.result import ProjectRung, RungState

LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a proof must agree with."""

    snapshot: SnapshotId
    environment_key: EnvironmentKey
    settings_digest: str
    selector: str
    isolation: str

    def comparable(self, proof: RungProof) -> bool:
        """Whether a pass recorded there means what a pass would mean here."""
        theirs = (proof.environment_key, proof.settings_digest, proof.selector)
        return theirs == (self.environment_key, self.settings_digest, self.selector)


def rank_bases(
    proofs: Iterable[RungProof], terms: Terms, ancestors: Collection[CommitId]
) -> tuple[RungProof, ...]:
    """Orders the proofs whose snapshot may serve as base, best first.

    Args:
        proofs: Newest first.
        terms: What the run under way is about.
        ancestors: Commits that HEAD descends from, HEAD included.

    Returns:
        Usable proofs: those of ancestors first, newest first within each group.
    """
    usable = [
        proof
        for proof in proofs
        if proof.snapshot != terms.snapshot and proof.isolation != LIVE and terms.comparable(proof)
    ]
    return tuple(sorted(usable, key=lambda proof: proof.git_head not in ancestors))


def same_content(proofs: Iterable[RungProof], terms: Terms, covered: str) -> RungProof | None:
    """Finds a pass of this very snapshot that covers at least what is about to run.

    Args:
        proofs: Newest first.
        terms: What the run under way is about.
        covered: Digest of the selection about to run; empty for rungs that select nothing.

    Returns:
        The newest proof that answers the question, or None.
    """
    return next(
        (
            proof
            for proof in proofs
            if proof.snapshot == terms.snapshot
            and proof.isolation == terms.isolation
            and terms.comparable(proof)
            and proof.covered in (covered, FULL_COVER)
        ),
        None,
    )


def shown_again(proof: RungProof) -> ProjectRung:
    """The end of a rung that an older run executed on equal content.

    Known findings and known failing tests are part of it: a policy that counts them must see them.
    """
    end = proof.end or ProjectRung(
        state=RungState.PASS, covered=proof.covered, known_failures=proof.known_failures
    )
    if end.tests is None:
        return end
    ran = end.tests.passed + end.tests.failed + end.tests.errors + end.tests.xfailed + end.tests.xpassed
    return replace(end, tests=replace(end.tests, cached=ran))
