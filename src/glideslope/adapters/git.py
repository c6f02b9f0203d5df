"""The one way to git: read-only, never executing anything a repository configures.

Hardening, in three parts:
- the environment loses every `GIT_*` name, so a hook or a wrapper around us cannot redirect us;
- settings that name programs (hooks, fsmonitor, pagers, transports, credential helpers) are
  overridden on the command line; filters and external diffs are never reached because no command
  used here converts content;
- transports are forbidden, so a partial clone cannot start a fetch in the middle of a read.
What only says which files count (`safe.directory`, `core.excludesFile`) stays the user's.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from glideslope.errors import EnvironmentBroken

OLDEST = (2, 38)  # first release that refuses planted bare repositories on request
TIMEOUT_S = 120.0

_OVERRIDES = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.askPass=false",
    "core.alternateRefsCommand=true",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "PAGER": "cat",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How one git command ended."""

    code: int
    out: bytes
    err: str

    def __bool__(self) -> bool:
        return self.code == 0


class Started:
    """A git command under way; its output goes to an unnamed file, so it never blocks on us."""

    def __init__(
        self, process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], timeout_s: float
    ) -> None:
        self._process = process
        self._out = out
        self._err = err
        self._timeout_s = timeout_s

    def wait(self) -> Output:
        """Waits for the end and returns everything the command wrote.

        Raises:
            EnvironmentBroken: It did not end in time; it is dead when this is raised.
        """
        try:
            code = _wait(self._process, self._timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise EnvironmentBroken(
                f"git did not answer within {self._timeout_s:g} s: see whether the disk hangs, then try again"
            ) from None
        with self._out, self._err:
            self._out.seek(0)
            self._err.seek(0)
            return Output(
                code=code, out=self._out.read(), err=self._err.read().decode("utf-8", "replace").strip()
            )

    def kill(self) -> None:
        """Ends the command if it still runs; safe at any time, also after `wait`."""
        with contextlib.suppress(ProcessLookupError):
            # Before it is reaped its number is its own, and so is the group it leads.
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        self._err.close()


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Waits for a process without the naps of `Popen.wait`, which double up to 50 ms."""
    code = process.poll()
    if code is not None:
        return code
    try:
        ended = os.pidfd_open(process.pid)
    except OSError:
        return process.wait(timeout_s)
    try:
        watch = select.poll()
        watch.register(ended, select.POLLIN)
        if not watch.poll(timeout_s * 1000):
            raise subprocess.TimeoutExpired(process.args, timeout_s)
    finally:
        os.close(ended)
    return process.wait()


def _unnamed_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("git"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


class Git:
    """Runs hardened git commands in a folder."""

    def __init__(self, program: str = "git") -> None:
        self._program = program
        self._checked = False
        self._lock = threading.Lock()

    def start(
        self,
        folder: str | bytes,
        arguments: Sequence[str | bytes],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Started:
        """Starts a command without waiting for it.

        Args:
            folder: Where to run.
            arguments: Subcommand and its arguments.
            environment: Further variables, set after all `GIT_*` were removed.
            stdin: Bytes to read; nothing by default.
            timeout_s: Limit used by `Started.wait`.

        Raises:
            EnvironmentBroken: git is missing or too old.
        """
        self._check_version()
        return self._start(folder, arguments, environment=environment, stdin=stdin, timeout_s=timeout_s)

    def run(
        self,
        folder: str | bytes,
        arguments: Sequence[str | bytes],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> Output:
        """Runs a command to its end; a non-zero code is a value, not an error."""
        return self.start(folder, arguments, environment=environment, stdin=stdin).wait()

    def read(
        self, folder: str | bytes, arguments: Sequence[str | bytes], *, stdin: bytes | None = None
    ) -> bytes:
        """Runs a command that has no reason to fail and returns its output.

        Raises:
            EnvironmentBroken: It failed all the same.
        """
        done = self.run(folder, arguments, stdin=stdin)
        if not done:
            raise git_failed(arguments, done)
        return done.out

    def _start(
        self,
        folder: str | bytes,
        arguments: Sequence[str | bytes],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Started:
        out, err = _unnamed_file(), _unnamed_file()
        source: IO[bytes] | int = subprocess.DEVNULL
        if stdin is not None:
            source = _unnamed_file()
            source.write(stdin)
            source.seek(0)
        options = [option for value in _OVERRIDES for option in ("-c", value)]
        try:
            process = subprocess.Popen(
                [self._program, "--no-pager", *options, *arguments],
                cwd=folder,
                env=_environment(environment),
                stdin=source,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError) as error:
            out.close()
            err.close()
            if not os.path.isdir(folder):
                raise EnvironmentBroken(
                    f"{os.fsdecode(folder)} is no folder that can be entered: look there"
                ) from None
            raise EnvironmentBroken(
                f"git cannot be started ({error.strerror}): install git {OLDEST[0]}.{OLDEST[1]} or later"
            ) from None
        finally:
            if not isinstance(source, int):
                source.close()
        return Started(process, out, err, timeout_s)

    def _check_version(self) -> None:
        with self._lock:
            if self._checked:
                return
            text = self._start("/", ["--version"]).wait().out.decode("utf-8", "replace").strip()
            found = parse_version(text)
            if found is None or found < OLDEST:
                raise EnvironmentBroken(
                    f"{text or 'git'} is too old to be used safely: install git {OLDEST[0]}.{OLDEST[1]} or later",
                    found=text,
                )
            self._checked = True


def parse_version(text: str) -> tuple[int, int] | None:
    """Reads `git version 2.39.5 (...)`; None when it is something else."""
    match = re.match(r"git version (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def git_failed(arguments: Sequence[str | bytes], done: Output) -> EnvironmentBroken:
    """The error for a git command that should have worked."""
    what = os.fsdecode(arguments[0]) if arguments else ""
    says = done.err.splitlines()[-1] if done.err else f"exit code {done.code}"
    return EnvironmentBroken(f"git {what} failed ({says}): run `git fsck` in the repository", code=done.code)


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_ENVIRONMENT, **(more or {})}
