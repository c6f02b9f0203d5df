"""One run's way up the ladder: its bases and changes, its plan, and each rung of it.

A climb decides nothing about verdicts; it lays out facts, drives the scripts of a toolchain, and
reports how each rung ended. What its commands run in is the executor's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from glideslope.engine.base import Bases, ChosenBase
from glideslope.engine.execute import Executor
from glideslope.engine.profile import profile_script
from glideslope.engine.survey import Survey
from glideslope.engine.trees import StoredTree, base_tree
from glideslope.errors import EnvironmentBroken
from glideslope.machines.base import LIVE, Terms, shown_again
from glideslope.machines.ladder import PlanFacts, plan
from glideslope.machines.rungfold import ProjectEnd, fold_projects
from glideslope.model.ids import RunId, SnapshotId
from glideslope.model.paths import is_beneath
from glideslope.model.project import Interpreter, Project, nearest_project
from glideslope.model.proof import RungProof
from glideslope.model.result import RungResult, RungState
from glideslope.model.rung import LadderPlan, Rung, VerifyPolicy
from glideslope.model.settings import TestProfile
from glideslope.model.snapshot import NO_BASE, Change, diff
from glideslope.ports.clock import Clock
from glideslope.ports.journal import Journal
from glideslope.ports.toolchain import (
    ChangeFacts,
    Command,
    Context,
    Output,
    ProjectRung,
    Script,
    Toolchain,
    Tools,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a run was asked to do."""

    action: str  # verify, diagnose or test
    policy: VerifyPolicy
    explicit_policy: bool
    cap: Rung | None = None
    base: str | None = None
    paths: tuple[str, ...] = ()  # relative to the workspace root
    project: str | None = None
    nodeids: tuple[str, ...] = ()
    profile: TestProfile | None = None  # run this command instead of the rung's own
    use_cache: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What every climb needs."""

    clock: Clock
    journal: Journal
    toolchain: Toolchain
    tools: Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """One project at one rung: what it is compared with, and what changed."""

    project: Project
    chosen: ChosenBase
    changes: tuple[Change, ...]
    owns: bool  # the change is the project's own
    reached: bool = False  # tests of the project depend on what changed elsewhere

    @property
    def touched(self) -> bool:
        """Whether the rung has anything to do here."""
        return self.owns or self.reached


class _Lost(Exception):
    """A command ended without an answer: cancelled, or lost to its infrastructure."""

    def __init__(self, output: Output) -> None:
        super().__init__(output.outcome)
        self.output = output


class Climb:
    """The climb of one run."""

    def __init__(
        self, *, run: RunId, errand: Errand, survey: Survey, kit: Kit, bases: Bases, executor: Executor
    ) -> None:
        self._run = run
        self._errand = errand
        self._survey = survey
        self._kit = kit
        self._bases = bases
        self._executor = executor
        self._grounds: dict[tuple[Rung, str], _Ground] = {}
        self._diffs: dict[SnapshotId | None, tuple[Change, ...]] = {}
        self._trees: dict[SnapshotId | None, StoredTree | None] = {}
        self._facts: dict[str, ChangeFacts] = {}
        self.proofs: list[RungProof] = []

    # Laying out

    def prepare(self) -> None:
        """Finds bases, changes and interpreters, so that what cannot work is said before it begins.

        Blocks. Raises:
            NoInterpreter: A touched project has none.
            InvalidInput: No such project, or no such base.
        """
        if self._errand.project is not None:
            self._survey.project(self._errand.project)
        for rung in Rung:
            for project in self._wanted():
                ground = self._ground(rung, project)
                if ground.touched:
                    self._survey.interpreter(project)

    def lay_out(self) -> LadderPlan:
        """Reads the change and asks the ladder for a plan. Blocks."""
        environment = self._survey.loaded.settings.environment
        git = self._survey.snapshot.git
        touched = self._touched(Rung.SCOPED)
        facts = [self._change_facts(project) for project in touched]
        own = [self._change_facts(one) for one in touched if self._ground(Rung.SCOPED, one).owns]
        return plan(
            self._errand.policy,
            PlanFacts(
                explicit=self._errand.explicit_policy,
                on_main_branch=bool(git and git.branch in environment.ladder.main_branches),
                reached_by_tests=any(fact.reached_by_tests for fact in facts),
                neutral=all(fact.neutral for fact in own) and bool(own or not facts),
                cap=self._errand.cap,
                diagnose_enabled=environment.ladder.diagnose_files_enabled,
                test_full_require_explicit=environment.ladder.test_full_require_explicit,
            ),
        )

    @property
    def reached_by_tests(self) -> bool:
        """Whether any test depends on the change, as far as it was laid out."""
        return any(facts.reached_by_tests for facts in self._facts.values())

    def base(self, rung: Rung) -> ChosenBase:
        """The base of a rung, as the run reports it: that of its first touched project."""
        grounds = [self._ground(rung, project) for project in self._wanted()]
        touched = [ground for ground in grounds if ground.touched] or grounds
        return touched[0].chosen if touched else ChosenBase(base=NO_BASE)

    def changed_paths(self, rung: Rung) -> tuple[str, ...]:
        """What differs from the base of a rung; everything where there is no base."""
        found = {change.path for project in self._wanted() for change in self._ground(rung, project).changes}
        return tuple(sorted(found))

    def leaves_out_changes(self) -> bool:
        """Whether changed paths exist that this run was told not to look at."""
        if self._errand.project is None and not self._errand.paths:
            return False
        return any(not self._looked_at(path) for path in self._all_changed())

    def _all_changed(self) -> tuple[str, ...]:
        projects = self._survey.projects
        return tuple(
            change.path for project in projects for change in self._ground(Rung.SCOPED, project).changes
        )

    def _looked_at(self, path: str) -> bool:
        paths = self._errand.paths
        if paths and not any(is_beneath(path, wanted) for wanted in paths):
            return False
        project = nearest_project(self._survey.projects, path)
        return self._errand.project is None or (project is not None and project.name == self._errand.project)

    def _wanted(self) -> tuple[Project, ...]:
        name = self._errand.project
        return tuple(project for project in self._survey.projects if name in (None, project.name))

    def _touched(self, rung: Rung) -> tuple[Project, ...]:
        return tuple(project for project in self._wanted() if self._ground(rung, project).touched)

    def _ground(self, rung: Rung, project: Project) -> _Ground:
        key = (rung, project.name)
        if key not in self._grounds:
            chosen = self._bases.choose(rung, project)
            changes = self._named(self._diff(chosen))
            ground = _Ground(
                project=project, chosen=chosen, changes=changes, owns=self._owns(project, changes)
            )
            self._grounds[key] = replace(ground, reached=self._is_reached(rung, ground))
        return self._grounds[key]

    def _named(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """A diagnose looks at the files it was given, or at all where nothing changed."""
        if self._errand.action != "diagnose" or (changes and not self._errand.paths):
            return changes
        wanted = self._errand.paths or ("",)
        return tuple(
            change
            for change in diff({}, self._survey.tree.entries)
            if any(is_beneath(change.path, path) for path in wanted)
        )

    def _owns(self, project: Project, changes: Sequence[Change]) -> bool:
        paths: list[str] = [
            path for change in changes for path in (change.path, change.origin) if path is not None
        ]
        # What is named and is nowhere is told by the project that would have it.
        entries = self._survey.tree.entries
        paths += [
            path
            for path in self._errand.paths
            if not any(is_beneath(one, path) for one in (*entries, *paths))
        ]
        if self._errand.action == "test":
            paths = [nodeid.partition("::")[0] for nodeid in self._errand.nodeids]
        everything = self._errand.policy is VerifyPolicy.CI_PARITY or self._errand.project is not None
        if everything or (self._errand.action == "test" and not paths):
            return True
        return any(nearest_project(self._survey.projects, path) == project for path in paths)

    def _is_reached(self, rung: Rung, ground: _Ground) -> bool:
        """Whether tests of a project depend on a change that belongs to another one."""
        if rung.height < Rung.SCOPED.height or self._errand.action != "verify":
            return False
        if ground.owns or not ground.changes or ground.chosen.base.entries is None:
            return False
        # Only for what runs tests; if any are reached, the project must have an interpreter of its own.
        found = (self._survey.interpreters[ground.project.name], *self._survey.interpreters.values())
        stand_in = next((one for one in found if isinstance(one, Interpreter)), None)
        if stand_in is None:
            return False
        return self._kit.toolchain.facts(self._context_on(ground, stand_in)).reached_by_tests

    def _diff(self, chosen: ChosenBase) -> tuple[Change, ...]:
        key = chosen.base.snapshot
        if key not in self._diffs:
            snapshot = self._survey.snapshot
            before = {**(chosen.base.inputs or {}), **(chosen.base.entries or {})}
            now = self._survey.tree.entries if chosen.base.inputs is not None else snapshot.entries
            self._diffs[key] = diff(before, now)
        return self._diffs[key]

    def _base_tree(self, chosen: ChosenBase) -> StoredTree | None:
        key = chosen.base.snapshot
        if key not in self._trees:
            self._trees[key] = base_tree(chosen.base, self._survey.tree.read_blob)
        return self._trees[key]

    def _change_facts(self, project: Project) -> ChangeFacts:
        if project.name not in self._facts:
            self._facts[project.name] = self._kit.toolchain.facts(self._context(Rung.SCOPED, project))
        return self._facts[project.name]

    def _context(self, rung: Rung, project: Project) -> Context:
        return self._context_on(self._ground(rung, project), self._survey.interpreter(project))

    def _context_on(self, ground: _Ground, interpreter: Interpreter) -> Context:
        return Context(
            project=ground.project,
            projects=self._survey.projects,
            now=self._survey.tree,
            base=self._base_tree(ground.chosen),
            changes=ground.changes,
            interpreter=interpreter,
            tools=self._kit.tools,
            policy=self._errand.policy,
            workspace_root=self._survey.workspace.scope,
            processes=self._executor.processes,
            isolated=self._executor.isolation != LIVE,
            network_open=self._executor.network_open,
            only_paths=self._errand.paths,
            nodeids=self._errand.nodeids,
            known_failures=ground.chosen.known_failures,
            index_allowed=self._executor.index_allowed,
        )

    # Climbing

    async def rung(self, rung: Rung) -> RungResult:
        """Runs one rung for every touched project and folds the ends.

        Returns:
            How the rung ended; a death or a cancel is a state, not an exception.
        """
        started_s = self._kit.clock.monotonic_s()
        queued_s = self._executor.queued_s
        touched = await asyncio.to_thread(self._touched, rung)
        ends = await asyncio.gather(*(self._project_rung(rung, project) for project in touched))
        result = fold_projects(rung, ends)
        return replace(
            result,
            base_snapshot=self.base(rung).base.snapshot,
            duration_ms=round((self._kit.clock.monotonic_s() - started_s) * 1000),
            queued_ms=round((self._executor.queued_s - queued_s) * 1000),
        )

    async def _project_rung(self, rung: Rung, project: Project) -> ProjectEnd:
        started_s = self._kit.clock.monotonic_s()
        cached = await asyncio.to_thread(self._cached, rung, project)
        if cached is not None:
            end = shown_again(cached)
            self.proofs.append(self._renewed(cached))
            return ProjectEnd(project=project.name, end=end, duration_ms=0, cached_from=cached.run)
        try:
            end = await self._drive(rung, project)
        except _Lost as lost:
            end = _lost(lost.output)
        except EnvironmentBroken as broken:
            end = ProjectRung(
                state=RungState.DIED, reason=broken.code, summary=broken.message, next=broken.next
            )
        took_ms = round((self._kit.clock.monotonic_s() - started_s) * 1000)
        if end.state is RungState.PASS and self._proves(rung):
            self.proofs.append(self._proof(rung, project, end))
        return ProjectEnd(project=project.name, end=end, duration_ms=took_ms)

    async def _drive(self, rung: Rung, project: Project) -> ProjectRung:
        context = await asyncio.to_thread(self._context, rung, project)
        if rung is Rung.BUILD:
            found = await asyncio.to_thread(self._executor.backends, context.interpreter)
            context = replace(context, backends=found)
        if self._errand.profile is not None:
            script = profile_script(self._errand.profile, context)
        else:
            script = await asyncio.to_thread(self._kit.toolchain.script, rung, context)
        base = self._ground(rung, project).chosen.base
        outputs: tuple[Output, ...] | None = None
        while True:
            batch = await asyncio.to_thread(_advance, script, outputs)
            if isinstance(batch, ProjectRung):
                return batch
            outputs = await self._executor.run(batch, rung=rung, project=project, context=context, base=base)
            for output in outputs:
                if output.outcome in ("cancelled", "infrastructure"):
                    raise _Lost(output)

    # Proofs

    def _cached(self, rung: Rung, project: Project) -> RungProof | None:
        if not self._errand.use_cache or self._errand.action != "verify" or self._errand.paths:
            return None
        covered = self._kit.toolchain.covers(rung, self._context(rung, project))
        return self._bases.cached(rung, project, covered)

    def _proves(self, rung: Rung) -> bool:
        return self._errand.action == "verify" and not self._errand.paths and not self._errand.nodeids

    def _renewed(self, proof: RungProof) -> RungProof:
        """The same proof as of now: what was shown again is the newest base."""
        git = self._survey.snapshot.git
        return replace(proof, at=self._kit.clock.utc_now(), git_head=git.head if git else None)

    def _proof(self, rung: Rung, project: Project, end: ProjectRung) -> RungProof:
        snapshot = self._survey.snapshot
        return RungProof(
            run=self._run,
            scope=self._survey.workspace.scope,
            repository=self._survey.workspace.repository,
            snapshot=snapshot.id,
            rung=rung,
            project=project.name,
            environment_key=self._survey.environment_key,
            settings_digest=self._survey.loaded.digest,
            selector=self._kit.toolchain.selector,
            isolation=self._executor.isolation,
            git_head=snapshot.git.head if snapshot.git else None,
            covered=end.covered,
            known_failures=end.known_failures,
            at=self._kit.clock.utc_now(),
            end=end,
        )


def terms(survey: Survey, toolchain: Toolchain, isolation: str) -> Terms:
    """What an older proof must agree with to count for this survey."""
    return Terms(
        snapshot=survey.snapshot.id,
        environment_key=survey.environment_key,
        settings_digest=survey.loaded.digest,
        selector=toolchain.selector,
        isolation=isolation,
    )


def _advance(script: Script, outputs: tuple[Output, ...] | None) -> tuple[Command, ...] | ProjectRung:
    try:
        return next(script) if outputs is None else script.send(outputs)
    except StopIteration as stopped:
        end: ProjectRung = stopped.value
        return end


def _lost(output: Output) -> ProjectRung:
    if output.outcome == "cancelled":
        return ProjectRung(state=RungState.CANCELLED, reason="cancelled", log_ref=output.log_ref)
    return ProjectRung(
        state=RungState.DIED,
        reason="host_died",
        summary=output.detail or "the sandbox was lost while it ran",
        stderr_tail=output.stderr.decode("utf-8", "replace")[-2000:] or None,
        log_ref=output.log_ref,
    )
