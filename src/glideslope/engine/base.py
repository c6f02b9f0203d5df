"""What a rung compares with: the base of each rung, and proofs of equal content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glideslope.engine.survey import Survey
from glideslope.machines.base import Terms, rank_bases, same_content
from glideslope.model.ids import CommitId
from glideslope.model.project import Project
from glideslope.model.proof import RungProof
from glideslope.model.rung import Rung
from glideslope.model.snapshot import NO_BASE, Base, BaseReason
from glideslope.ports.journal import Journal
from glideslope.ports.vcs import Vcs

PROOFS = 25  # how far back proofs are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBase:
    """A base, and the failures that were recorded on it."""

    base: Base
    known_failures: frozenset[str] = frozenset()


class Bases:
    """Finds bases for one survey. Blocks; called in a thread."""

    def __init__(
        self, *, vcs: Vcs, journal: Journal, survey: Survey, terms: Terms, given: str | None
    ) -> None:
        self._vcs = vcs
        self._journal = journal
        self._survey = survey
        self._terms = terms
        self._given = given
        self._proved: dict[tuple[Rung, str], Sequence[RungProof]] = {}
        self._by_commit: dict[str, Base] = {}

    def choose(self, rung: Rung, project: Project) -> ChosenBase:
        """The base of a rung: given, else the best proof, else the merge base, else none.

        Raises:
            InvalidInput: The given revision does not exist.
        """
        if self._given is not None:
            return ChosenBase(base=self._of(self._given))
        proofs = self._proofs(rung, project)
        ancestors = self._ancestors(proofs)
        for proof in rank_bases(proofs, self._terms, ancestors):
            kept = self._journal.snapshot(proof.snapshot)
            if kept is not None:
                base = Base(
                    reason=BaseReason.LAST_GREEN,
                    snapshot=kept.id,
                    entries=kept.entries,
                    inputs=kept.inputs,
                    inputs_digest=kept.inputs_digest,
                    environment_key=proof.environment_key,
                )
                return ChosenBase(base=base, known_failures=frozenset(proof.known_failures))
        return ChosenBase(base=self._fallback(rung))

    def cached(self, rung: Rung, project: Project, covered: str) -> RungProof | None:
        """A proof that this very content passed the rung already."""
        if self._given is not None:
            return None
        return same_content(self._proofs(rung, project), self._terms, covered)

    def _proofs(self, rung: Rung, project: Project) -> Sequence[RungProof]:
        key = (rung, project.name)
        if key not in self._proved:
            repository = self._survey.workspace.repository
            rungs = (Rung.SCOPED, Rung.FULL) if rung is Rung.SCOPED else (rung,)
            found = [
                proof
                for one in rungs
                for proof in self._journal.proofs(
                    repository=repository, rung=one, project=project.name, limit=PROOFS
                )
            ]
            self._proved[key] = sorted(found, key=lambda proof: proof.at, reverse=True)
        return self._proved[key]

    def _ancestors(self, proofs: Sequence[RungProof]) -> frozenset[CommitId]:
        heads = sorted({CommitId(proof.git_head) for proof in proofs if proof.git_head})
        if not heads or self._survey.snapshot.git is None or self._survey.snapshot.git.head is None:
            return frozenset()
        return self._vcs.ancestors(self._survey.workspace, heads)

    def _fallback(self, rung: Rung) -> Base:
        """Without a proof: the merge base; on the main branch itself, HEAD for what only reads code.

        A finding of an uncommitted edit is then new from the first verify on. Tests have no such
        base: what was committed was never seen to pass, so all of them run.
        """
        git = self._survey.snapshot.git
        if git is None or git.head is None:
            return NO_BASE
        branches = self._survey.loaded.settings.environment.ladder.main_branches
        commit = self._vcs.merge_base(self._survey.workspace, branches)
        if commit is None and rung.height < Rung.SCOPED.height:
            commit = git.head
        if commit is None:
            return NO_BASE
        found = self._of(commit)
        if found.entries == self._survey.snapshot.entries:
            return NO_BASE  # a snapshot is never its own base
        return replace(found, reason=BaseReason.MERGE_BASE)

    def _of(self, revision: str) -> Base:
        if revision not in self._by_commit:
            self._by_commit[revision] = self._vcs.base_of_revision(self._survey.workspace, revision)
        return self._by_commit[revision]
