"""Running static checkers over files on both sides, and what their ends mean.

A `Check` is one tool over some files. It is asked about the tree under test first; the base is
asked only where something was found that would block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from glideslope.model.paths import RepoPath
from glideslope.model.result import Diagnostic, RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Side
from glideslope.toolchains.python.findings import Found, blocking, count_text, judge
from glideslope.toolchains.python.module import Memo

STDERR_TAIL_BYTES = 2000
_KEPT_ANSWERS = 32


class Trouble(StrEnum):
    """Why a tool gave no findings."""

    CONFIG_ERROR = "config_error"
    TOOL_MISSING = "tool_missing"
    TIMED_OUT = "timed_out"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tool's output says."""

    found: tuple[Found, ...] = ()
    trouble: Trouble | None = None
    message: str = ""  # the tool's own words about its trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One tool over some files of one tree."""

    tool: str
    kind: str
    cwd: str  # relative to the workspace root
    files: tuple[RepoPath, ...]  # empty: what the tool's configuration names
    argv: Callable[[tuple[str, ...]], tuple[str, ...]]  # from paths relative to cwd
    read: Callable[[Output], Reading]
    base_argv: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None  # where the base's differs
    report: bool = False  # answers on the report pipe
    backend: str = ""  # build environment it needs
    base_backend: str | None = ""  # that of the base; None: there is none, so the base is not asked

    def command(self, files: Iterable[str], side: Side) -> Command:
        """The command over files of one side."""
        argv = self.argv if side is Side.NOW else self.base_argv or self.argv
        return Command(
            kind=self.kind,
            argv=argv(tuple(relative(path, self.cwd) for path in files)),
            cwd=self.cwd,
            side=side,
            report=self.report,
            backend=self.backend if side is Side.NOW else self.base_backend or "",
            label=self.tool if side is Side.NOW else f"{self.tool} on the base",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What all checks together found."""

    diagnostics: tuple[Diagnostic, ...] = ()
    troubles: tuple[tuple[Check, Reading, Output], ...] = ()
    answers: Mapping[str, Output] = field(default_factory=dict)  # on the tree under test, by tool


CheckScript = Generator[tuple[Command, ...], tuple[Output, ...], Checked]
"""Part of a script: yields commands, is sent outputs, returns what was found."""


def run_checks(
    context: Context,
    checks: tuple[Check, ...],
    origins: Mapping[RepoPath, RepoPath],
    *,
    memo: Memo,
    answers: Mapping[str, Output] | None = None,
) -> CheckScript:
    """Runs checks on the tree under test and, where it matters, on the base.

    Args:
        context: What is verified.
        checks: The tools; they may run at once.
        origins: Paths of now that had another one in the base.
        memo: Keeps what tools answered about a base: it is asked again and again until a change is right.
        answers: What a tool answered already about these files of the tree under test, by tool.

    Returns:
        Findings told new from known, and what went wrong.
    """
    if not checks:
        return Checked()
    had = answers or {}
    asked = tuple(check for check in checks if check.tool not in had)
    fresh = yield from _ask(tuple(check.command(check.files, Side.NOW) for check in asked))
    waiting = iter(fresh)
    outputs = tuple(had[check.tool] if check.tool in had else next(waiting) for check in checks)
    readings = [check.read(output) for check, output in zip(checks, outputs, strict=True)]
    pairs = zip(checks, readings, outputs, strict=True)
    troubles = [(check, reading, output) for check, reading, output in pairs if reading.trouble]
    gating = [
        (check, reading)
        for check, reading in zip(checks, readings, strict=True)
        if any(finding.gates for finding in reading.found)
    ]
    before: dict[str, tuple[Found, ...] | None] = {}
    if context.base is not None and not troubles:
        before, failed = yield from _ask_base(context, memo, [check for check, _ in gating], origins)
        troubles += failed
    diagnostics: list[Diagnostic] = []
    for tool in dict.fromkeys(check.tool for check in checks):
        mine = [f for c, r in zip(checks, readings, strict=True) if c.tool == tool for f in r.found]
        known = before.get(tool, ()) if context.base is not None else None
        diagnostics += judge(mine, known, now=context.now, before=context.base, origins=origins)
    diagnostics.sort(key=lambda found: (found.path, found.line, found.column, found.source))
    return Checked(
        diagnostics=tuple(diagnostics),
        troubles=tuple(troubles),
        answers={check.tool: output for check, output in zip(checks, outputs, strict=True)},
    )


def _ask(
    commands: tuple[Command, ...],
) -> Generator[tuple[Command, ...], tuple[Output, ...], tuple[Output, ...]]:
    if not commands:
        return ()
    return (yield commands)


def _ask_base(
    context: Context, memo: Memo, checks: list[Check], origins: Mapping[RepoPath, RepoPath]
) -> Generator[
    tuple[Command, ...],
    tuple[Output, ...],
    tuple[dict[str, tuple[Found, ...] | None], list[tuple[Check, Reading, Output]]],
]:
    """Findings of the same checks on the base, by tool; None where the tool could not judge it."""
    assert context.base is not None
    asked: list[tuple[Check, Command]] = []
    before: dict[str, tuple[Found, ...] | None] = {}
    for check in checks:
        if check.base_backend is None:
            before[check.tool] = ()  # nothing says that it was so before
            continue
        names = (origins.get(path, path) for path in check.files)
        files = tuple(dict.fromkeys(path for path in names if path in context.base.entries))
        if files or not check.files:
            asked.append((check, check.command(files, Side.BASE)))
    if not asked:
        return before, []
    outputs = yield from ask_base_once(context, memo, tuple(command for _, command in asked))
    failed: list[tuple[Check, Reading, Output]] = []
    for (check, _), output in zip(asked, outputs, strict=True):
        reading = check.read(output)
        if reading.trouble in (Trouble.CONFIG_ERROR, Trouble.TOOL_MISSING):
            # The base cannot be judged with its own configuration, so it is as if there were none.
            before[check.tool] = None
        elif reading.trouble is not None:
            failed.append((check, reading, output))
        else:
            before[check.tool] = (*(before.get(check.tool) or ()), *reading.found)
    return before, failed


def ask_base_once(
    context: Context, memo: Memo, commands: tuple[Command, ...]
) -> Generator[tuple[Command, ...], tuple[Output, ...], tuple[Output, ...]]:
    """Outputs of commands on the base; equal ones on equal content and environment are not run again."""
    assert context.base is not None
    kept = memo.base_answers
    ground = (memo.digest(context.base), context.interpreter.key, context.workspace_root)
    keys = [(ground, command.argv, command.cwd) for command in commands]
    had = {key: kept[key] for key in keys if key in kept}  # others may add and drop meanwhile
    fresh = yield from _ask(tuple(c for key, c in zip(keys, commands, strict=True) if key not in had))
    waiting = iter(fresh)
    outputs = tuple(had[key] if key in had else next(waiting) for key in keys)
    for key, output in zip(keys, outputs, strict=True):
        kept.pop(key, None)
        if output.outcome == "exited":
            kept[key] = output
    for old in list(kept)[:-_KEPT_ANSWERS]:
        kept.pop(old, None)
    return outputs


def conclude(
    context: Context,
    checked: Checked,
    diagnostics: tuple[Diagnostic, ...],
    summary: str,
    *,
    notes: tuple[str, ...] = (),
) -> ProjectRung:
    """How a static rung ends.

    Args:
        context: What was verified; a stricter policy does not accept a missing tool.
        checked: What the tools answered.
        diagnostics: All findings of the rung, sorted.
        summary: What was looked at.
        notes: More to say, after what was found.

    Returns:
        The end: died, fail, inconclusive or pass, whichever comes first.
    """
    troubles = sorted(checked.troubles, key=lambda trouble: _GRAVITY[trouble[1].trouble or Trouble.DIED])
    worst = troubles[0] if troubles else None
    blocks = blocking(diagnostics)
    if worst is not None and not blocks:
        check, reading, output = worst
        state, reason = _STATES[reading.trouble or Trouble.DIED], str(reading.trouble)
        words = f"{check.tool}: {reading.message}"
        if reading.trouble is not Trouble.TOOL_MISSING or is_strict(context):
            return ProjectRung(
                state=state,
                reason=reason,
                summary=words,
                diagnostics=diagnostics,
                exit_code=output.code,
                log_ref=output.log_ref,
                stderr_tail=stderr_tail(output) or None,
                next=f"install {check.tool} as the project asks for it" if reason == "tool_missing" else None,
            )
        notes = (*notes, words)
    text = "; ".join([f"{summary}, {count_text(diagnostics)}", *notes])
    if blocks:
        broken = worst is not None and worst[1].trouble is Trouble.CONFIG_ERROR
        reason = Trouble.CONFIG_ERROR if broken else ""
        return ProjectRung(state=RungState.FAIL, reason=reason, summary=text, diagnostics=diagnostics)
    reason = "checker_missing" if worst is not None else ""
    return ProjectRung(state=RungState.PASS, reason=reason, summary=text, diagnostics=diagnostics)


def is_strict(context: Context) -> bool:
    """Whether the policy wants the repository's own tools, and nothing in their place."""
    return context.policy in (VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY)


_STATES = {
    Trouble.CONFIG_ERROR: RungState.FAIL,
    Trouble.TOOL_MISSING: RungState.INCONCLUSIVE,
    Trouble.TIMED_OUT: RungState.DIED,  # a slow tool says nothing about the code
    Trouble.DIED: RungState.DIED,
}
_GRAVITY = {Trouble.DIED: 0, Trouble.TIMED_OUT: 1, Trouble.CONFIG_ERROR: 2, Trouble.TOOL_MISSING: 3}


def infrastructure_trouble(output: Output) -> Reading | None:
    """What an output says that is not the end of an ordinary process; None for an exit."""
    if output.outcome == "timed_out":
        return Reading(trouble=Trouble.TIMED_OUT, message=f"over its {output.limit or 'time'} limit")
    if output.outcome != "exited":
        name = f"signal {output.signal}" if output.signal else output.outcome
        return Reading(trouble=Trouble.DIED, message=output.detail or name)
    if output.stdout_omitted:
        return Reading(trouble=Trouble.DIED, message="its answer is too long to be read whole")
    return None


def stderr_tail(output: Output) -> str:
    """The last of what a process wrote to its error stream."""
    return output.stderr[-STDERR_TAIL_BYTES:].decode("utf-8", "replace").strip()


def cause(words: str) -> str:
    """The last cause that ruff or ty names on its error stream, on one line."""
    last = words.rpartition("Cause:")[2]
    lines = [line.strip() for line in last.splitlines()]
    said = [line for line in lines if line and not line.startswith("|") and not re.match(r"\d+ \|", line)]
    return ": ".join(said) or "it gave no reason"


def relative(path: str, cwd: str) -> str:
    """A workspace path as seen from a folder above it; `..` where it is not below."""
    if not cwd:
        return path
    if path.startswith(cwd + "/"):
        return path[len(cwd) + 1 :]
    return "../" * len(cwd.split("/")) + path


def within(context: Context, cwd: str, text: str) -> str:
    """A path as a tool printed it, relative to the workspace root."""
    root = context.workspace_root.rstrip("/") + "/"
    if text.startswith(root):
        return text[len(root) :]
    if text.startswith("/"):
        return text
    parts: list[str] = cwd.split("/") if cwd else []
    for part in text.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
