"""New failures and known ones: what fails now is run again on the base."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from glideslope.model.paths import RepoPath, is_beneath
from glideslope.model.result import FailureClass
from glideslope.ports.toolchain import Command, Context, Output, Side
from glideslope.toolchains.python.endings import Case, Ending, Session, read_ending, read_session
from glideslope.toolchains.python.runs import files_command
from glideslope.toolchains.python.units import PytestConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One process of tests and what it came to."""

    output: Output
    session: Session
    ending: Ending

    @classmethod
    def of(cls, output: Output) -> Ran:
        """Reads how a process ended."""
        session = read_session(output.report)
        return cls(output=output, session=session, ending=read_ending(output, session))

    @property
    def cases(self) -> tuple[Case, ...]:
        """All that failed, a run that failed as a whole included."""
        fault = self.ending.fault
        return self.session.failing if fault is None else (*self.session.failing, fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What failing files came to on the base. Paths and node ids as they are called now."""

    compared: bool = False  # whether there is a base at all
    files: frozenset[str] = frozenset()  # those that were run there
    failing: frozenset[str] = frozenset()  # node ids
    broken: frozenset[str] = frozenset()  # files that could not be collected
    ending: Ending | None = None

    @property
    def timed_out(self) -> bool:
        """Whether the base did not come to an end either."""
        return self.ending is not None and self.ending.reason == "timed_out"


def on_base(
    context: Context, config: PytestConfig, ran: Iterable[Ran]
) -> Generator[tuple[Command, ...], tuple[Output, ...], Before]:
    """Runs the files of failing tests on the base; a part of a script.

    Args:
        context: What is verified.
        config: How the project configures pytest now.
        ran: What ran on the snapshot.

    Returns:
        What the same files came to before.
    """
    if context.base is None:
        return Before()
    wanted = {
        file
        for one in ran
        for case in one.cases
        if case.nodeid not in context.known_failures
        for file in _files(context, one, case)
    }
    origins = {change.path: change.origin for change in context.changes if change.origin is not None}
    names = {file: origins.get(file, file) for file in wanted}
    names = {now: before for now, before in names.items() if before in context.base.entries}
    if not names:
        return Before(compared=True)
    label = f"{len(names)} failing test files, on the base"
    outputs = yield (files_command(context, config, sorted(names.values()), label=label, side=Side.BASE),)
    return _before(context, Ran.of(outputs[0]), names)


def _before(context: Context, ran: Ran, names: dict[RepoPath, RepoPath]) -> Before:
    back = {before: now for now, before in names.items()}
    failing: set[str] = set()
    broken: set[str] = set()
    for case in ran.session.failing:
        file = file_of(context, ran.session, case)
        now = back.get(RepoPath(file), RepoPath(file))
        if case.collecting:
            broken.add(now)
        else:
            failing.add(
                _renamed(
                    case.nodeid, _from_root(context, ran.session, file), _from_root(context, ran.session, now)
                )
            )
    return Before(
        compared=True,
        files=frozenset(names),
        failing=frozenset(failing),
        broken=frozenset(broken),
        ending=ran.ending,
    )


def _renamed(nodeid: str, before: str, now: str) -> str:
    return now + nodeid[len(before) :] if nodeid.startswith(before) else nodeid


def classify(context: Context, ran: Ran, case: Case, before: Before) -> FailureClass:
    """Whether a failure was already there on an older tree."""
    if case.nodeid in context.known_failures:
        return FailureClass.KNOWN
    if case is ran.ending.fault:
        then = before.ending
        same = then is not None and then.reason == ran.ending.reason == "config_error"
        return (
            FailureClass.KNOWN
            if same and then is not None and then.text == ran.ending.text
            else FailureClass.NEW
        )
    if case.collecting:
        known = file_of(context, ran.session, case) in before.broken
    else:
        known = case.nodeid in before.failing
    return FailureClass.KNOWN if known else FailureClass.NEW


def is_denied(context: Context, ran: Ran, case: Case, before: Before) -> bool:
    """Whether a failure only shows that the network is closed, with nothing to compare it with."""
    if context.network_open or not case.unreachable:
        return False
    return file_of(context, ran.session, case) not in before.files


def _files(context: Context, ran: Ran, case: Case) -> tuple[RepoPath, ...]:
    """The test files to run on the base for one failure."""
    file = RepoPath(file_of(context, ran.session, case))
    if file in context.now.entries and not (case is ran.ending.fault and file.endswith("conftest.py")):
        return (file,)
    if case is not ran.ending.fault:
        return ()
    # The run failed as a whole: its own files tell whether it did so before.
    chosen = ran.output.command.stdin.decode("utf-8", "surrogateescape").split("\0")
    root = context.project.root
    return tuple(RepoPath(f"{root}/{line}" if root else line) for line in chosen[:1] if line)


def file_of(context: Context, session: Session, case: Case) -> str:
    """The test file a case belongs to, relative to the workspace root."""
    if case.file:
        return relative(context, case.file)
    inside = case.nodeid.split("::")[0]
    root = session.rootdir or context.workspace_root
    return relative(context, inside if inside.startswith("/") else f"{root.rstrip('/')}/{inside}")


def relative(context: Context, path: str) -> str:
    """A path as a run saw it, relative to the workspace root; outside of it, unchanged."""
    root = context.workspace_root.rstrip("/")
    if path.startswith(root + "/"):
        return path[len(root) + 1 :]
    if path.startswith("/") or not path:
        return path
    return f"{context.project.root}/{path}" if context.project.root else path


def _from_root(context: Context, session: Session, path: str) -> str:
    """A path of the workspace as node ids begin with it."""
    rootdir = relative(context, session.rootdir) if session.rootdir != context.workspace_root else ""
    return path[len(rootdir) + 1 :] if rootdir and is_beneath(path, rootdir) else path
