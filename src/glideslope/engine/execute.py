"""Runs the commands of one run: leases their trees, opens their environments, keeps their logs.

Each command is one task of the queue. It runs in a fresh environment over the tree it names, so
nothing one command writes is seen by the next.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from glideslope.engine.backing import Backing, RunBackends
from glideslope.engine.runner import JobEnd, Runner, Tell
from glideslope.engine.survey import Survey
from glideslope.errors import InternalError
from glideslope.model.ids import LogRef, RunId, SnapshotId, TaskId
from glideslope.model.project import Interpreter, Project
from glideslope.model.result import CancelReason
from glideslope.model.rung import Rung
from glideslope.model.sandbox import ExecOutcome, ExecResult, ExecSpec, Isolation, NetworkAccess, OutputPolicy
from glideslope.model.settings import Network, SandboxProfile
from glideslope.model.snapshot import Base, Entries
from glideslope.model.task import Lane, TaskKey, TaskSpec
from glideslope.model.timeslice import Phase, TimeSlice
from glideslope.ports.backends import Backends
from glideslope.ports.bytecode import Bytecode
from glideslope.ports.clock import Clock
from glideslope.ports.environment import ExecWatch
from glideslope.ports.logs import Logs
from glideslope.ports.sandbox import Sandboxes, View
from glideslope.ports.toolchain import Command, Context, Output, Side, Toolchain
from glideslope.ports.vcs import TreeLease, Vcs

ANSWER_BYTES = 32 * 1024 * 1024  # how much of a tool's answer is kept to be parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What every executor needs."""

    clock: Clock
    runner: Runner
    vcs: Vcs
    logs: Logs
    sandboxes: Sandboxes
    toolchain: Toolchain
    bytecode: Bytecode
    backends: Backends
    new_task: Callable[[], TaskId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A command with everything its job needs."""

    command: Command
    interpreter: Interpreter
    base: Base
    lane: Lane


class Executor:
    """The commands of one run."""

    def __init__(
        self,
        *,
        run: RunId,
        survey: Survey,
        site: Site,
        profile: SandboxProfile,
        isolation: Isolation,
        lane: Lane,
    ) -> None:
        self._run = run
        self._survey = survey
        self._site = site
        self._profile = profile
        self._lane = lane
        self._leases: dict[Side, TreeLease] = {}
        self._leasing = asyncio.Lock()
        self._settings = survey.loaded.settings.environment
        self._backends = RunBackends(backends=site.backends, survey=survey, isolation=isolation)
        self.isolation = isolation
        self.processes = self._settings.runner_max_concurrency if isolation is not Isolation.LIVE else 1
        self.slices: list[TimeSlice] = []
        self.queued_s = 0.0
        self.survivors = 0
        self.stopped: CancelReason | None = None  # set once the run is ended early

    @property
    def network_open(self) -> bool:
        """Whether tasks reach beyond the loopback."""
        return self._settings.network is Network.HOST or self.isolation is Isolation.LIVE

    @property
    def index_allowed(self) -> bool:
        """Whether a task may ask for the package index."""
        return self._settings.allow_index

    def backends(self, interpreter: Interpreter) -> frozenset[str]:
        """Digests of the build environments there are for an interpreter. Blocks."""
        return self._backends.complete(interpreter)

    async def run(
        self, batch: tuple[Command, ...], *, rung: Rung, project: Project, context: Context, base: Base
    ) -> tuple[Output, ...]:
        """Runs commands side by side, as far as the queue lets them.

        Returns:
            Their outputs in the same order. A command of a run that was stopped is `cancelled`.
        """
        orders = [
            _Order(command=command, interpreter=context.interpreter, base=base, lane=self._lane)
            for command in batch
        ]
        return tuple(await asyncio.gather(*(self._submit(order, rung) for order in orders)))

    async def _submit(self, order: _Order, rung: Rung) -> Output:
        command = order.command
        if self.stopped is not None:
            return Output(command=command, outcome=ExecOutcome.CANCELLED, detail=self.stopped)
        spec = TaskSpec(
            id=self._site.new_task(),
            key=self._key(order),
            lane=order.lane,
            run=self._run,
            rung=rung,
            label=command.label,
        )
        end = await self._site.runner.submit(spec, partial(self._job, spec, order))
        self.queued_s += end.result.queued_ms / 1000
        now_s = self._site.clock.monotonic_s()
        self.slices.append(
            TimeSlice(
                phase=Phase.ENVIRONMENT,
                started_s=now_s - end.result.duration_ms / 1000,
                ended_s=now_s,
                detail=command.kind,
            )
        )
        if end.output is not None:
            return end.output
        cancelled = end.result.state == "cancelled"
        return Output(
            command=command,
            outcome=ExecOutcome.CANCELLED if cancelled else ExecOutcome.INFRASTRUCTURE,
            detail=end.result.summary,
        )

    def _key(self, order: _Order) -> TaskKey:
        command = order.command
        snapshot = self._survey.snapshot.id if command.side is Side.NOW else order.base.snapshot
        # Which files to look at is often told on stdin: without it, two halves of a suite are one task.
        told: list[object] = [command.argv, command.cwd, sorted(command.env.items()), command.stdin.hex()]
        told += [command.side, command.report, command.index, command.wall_s, command.idle_s]
        told.append(command.backend)
        told += [order.interpreter.key, order.interpreter.executable]
        target = hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        sandbox = f"{self._profile}/{self.isolation}/{self._settings.network}/{self._survey.workspace.scope}"
        return TaskKey(
            kind=command.kind, target=target, sandbox_id=sandbox, snapshot=snapshot or SnapshotId("")
        )

    async def _job(self, spec: TaskSpec, order: _Order, tell: Tell) -> JobEnd:
        async with self._backends.back(order.command, order.interpreter) as backing:
            output = await self._exec(spec, order, tell, backing)
            backing.filled = output.outcome == ExecOutcome.EXITED and output.code == 0
        return JobEnd(result=self._site.toolchain.ending(output), output=output)

    async def _exec(self, spec: TaskSpec, order: _Order, tell: Tell, backing: Backing) -> Output:
        command = order.command
        view = await self._view(order, backing)
        environment = self._site.sandboxes.open(view)
        ref, path = self._site.logs.new(spec.id)
        report: list[bytes] = []

        def on_report(line: bytes) -> None:
            report.append(line)
            sentence = self._site.toolchain.progress(command, line)
            if sentence is not None:
                tell(sentence)

        try:
            result = await environment.exec(
                self._exec_spec(order, view, path, backing), watch=ExecWatch(on_report=on_report)
            )
        finally:
            await environment.stop()
        self.survivors += result.survivors.left or 0
        return _output(command, result, tuple(report), ref)

    def _exec_spec(self, order: _Order, view: View, log_path: str, backing: Backing) -> ExecSpec:
        command, settings = order.command, self._settings
        env = self._site.sandboxes.variables(
            view,
            executable=order.interpreter.executable,
            caller=self._survey.question.variables,
            run=self._run,
        )
        host = self._settings.network is Network.HOST or (command.index and settings.allow_index)
        return ExecSpec(
            argv=backing.arguments(command),
            cwd=command.cwd,
            env={**backing.variables(env), **command.env},
            stdin=command.stdin,
            wall_s=command.wall_s if command.wall_s is not None else settings.task_timeout_s,
            idle_s=command.idle_s if command.idle_s is not None else settings.task_idle_s,
            network=NetworkAccess.HOST if host else NetworkAccess.LOOPBACK,
            output=OutputPolicy(head_bytes=64 * 1024 if command.report else ANSWER_BYTES),
            log_path=log_path,
            report=command.report,
            binds=backing.binds,
        )

    # Trees

    async def _view(self, order: _Order, backing: Backing) -> View:
        lease = None if self.isolation is Isolation.LIVE else await self._lease(order)
        return View(
            root=self._survey.workspace.scope,
            lease=lease,
            carry=self._carried(order),
            visible=(order.interpreter.prefix, order.interpreter.executable, *backing.access.visible),
            profile=self._profile,
            isolation=self.isolation,
        )

    def _carried(self, order: _Order) -> tuple[str, ...]:
        """Folders to bind from the live tree: none in which the content under test has files.

        Bound over them, the live files would stand in for those of the snapshot, and of the base.
        """
        contents = [self._survey.snapshot.entries]
        if order.command.side is Side.BASE and order.base.entries is not None:
            contents.append(order.base.entries)
        return tuple(
            name
            for name in self._survey.carried
            if not any(path.startswith(f"{name}/") for content in contents for path in content)
        )

    async def _lease(self, order: _Order) -> TreeLease:
        side = order.command.side
        async with self._leasing:  # the second command of a batch finds the tree of the first
            if side not in self._leases:
                entries = self._entries(order)
                lease = await asyncio.to_thread(
                    self._site.vcs.lease, self._survey.workspace, entries, self._survey.snapshot
                )
                self._leases[side] = lease
                await self._site.bytecode.refresh(lease, order.interpreter, root=self._survey.workspace.scope)
            return self._leases[side]

    def _entries(self, order: _Order) -> Entries:
        if order.command.side is Side.NOW:
            return self._survey.tree.entries
        if order.base.entries is None:
            raise InternalError("a script asked for a base where there is none")
        inputs = order.base.inputs if order.base.inputs is not None else self._survey.snapshot.inputs
        return {**inputs, **order.base.entries}

    def release(self) -> None:
        """Gives every tree back."""
        leases, self._leases = self._leases, {}
        for lease in leases.values():
            self._site.vcs.release(lease)

    def moved_large_files(self) -> tuple[str, ...]:
        """Files that were bound instead of stored and are not what they were. Blocks."""
        if self._survey.snapshot.complete:
            return ()
        return self._site.vcs.large_unchanged(self._survey.workspace, self._survey.snapshot)


def _output(command: Command, result: ExecResult, report: tuple[bytes, ...], ref: LogRef) -> Output:
    outcome = result.outcome
    lost = outcome in (ExecOutcome.INFRASTRUCTURE, ExecOutcome.DIED)
    return Output(
        command=command,
        outcome=ExecOutcome.INFRASTRUCTURE if lost else outcome,
        code=result.code,
        signal=result.signal,
        limit=result.limit,
        stdout=result.stdout.complete,
        stderr=result.stderr.complete,
        stdout_omitted=result.stdout.omitted_bytes,
        report=report,
        changes=result.changes.paths if result.changes else (),
        detail=result.reason,
        log_ref=ref,
    )
