"""What every environment promises; run over all tiers, with real processes."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from glideslope.adapters.environments.cow import CowEnvironment
from glideslope.adapters.environments.local import LocalEnvironment
from glideslope.errors import EnvironmentBroken, PathEscapes, UnknownId
from glideslope.model.paths import RepoPath
from glideslope.model.sandbox import ExecOutcome, ExecResult, OutputPolicy, TimeLimit
from glideslope.ports.environment import Environment, ExecWatch

if TYPE_CHECKING:
    World = Any

pytestmark = [pytest.mark.anyio, pytest.mark.process]

# Ignores the polite signal, forks twice, starts sessions of its own; says when all of it runs.
STUBBORN = """
trap '' TERM
setsid sh -c 'trap "" TERM; (setsid sleep 600 &) ; nohup sleep 600 & sleep 600' &
(sleep 600 &)
echo up
while :; do sleep 600; done
"""
FIVE_DESCENDANTS = """
sleep 600 &
setsid sleep 600 &
nohup sleep 600 >/dev/null 2>&1 &
(sleep 600 &)
(setsid sh -c 'sleep 600 & wait' &)
while [ $(ps -e -o args | grep -c '^sleep 600') -lt 5 ]; do sleep 0.01; done
"""


def marked(token: str) -> list[int]:
    """The living processes that carry the token, zombies and the asker's own apart."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def commands(world: World) -> list[int]:
    """The marked processes that are not our own helpers.

    One without a command line ended between the two looks: a helper that was just leaving.
    """
    lines = {pid: command_line(pid) for pid in marked(world.token)}
    return [pid for pid, line in lines.items() if line and b"boot.py" not in line]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def until_heard(world: World, spec: Any, **asked: Any) -> tuple[asyncio.Task[ExecResult], ExecWatch]:
    """Starts a command and waits for its first output."""
    heard = anyio.Event()
    watch = ExecWatch(on_output=lambda stream, total: heard.set(), **asked)
    task = asyncio.create_task(world.environment.exec(spec, watch=watch))
    with anyio.fail_after(30):
        await heard.wait()
    return task, watch


async def test_an_exit_code_is_what_the_command_gave(world: World) -> None:
    result = await world.environment.exec(world.shell("exit 41"))
    assert (result.outcome, result.code, result.signal) == (ExecOutcome.EXITED, 41, None)


async def test_a_signal_is_no_exit_code(world: World) -> None:
    result = await world.environment.exec(world.shell("kill -SEGV $$"))
    assert (result.outcome, result.code, result.signal) == (ExecOutcome.SIGNALLED, None, signal.SIGSEGV)


async def test_streams_are_kept_apart_and_byte_for_byte(world: World) -> None:
    result = await world.environment.exec(world.shell(r"printf '\377\000\303' ; printf 'e\200' >&2"))
    assert (result.stdout.complete, result.stderr.complete) == (b"\xff\x00\xc3", b"e\x80")


async def test_a_command_that_cannot_be_started_is_a_fault_of_the_infrastructure(world: World) -> None:
    result = await world.environment.exec(world.spec("no-such-program-anywhere"))
    assert result.outcome is ExecOutcome.INFRASTRUCTURE
    assert "no-such-program-anywhere" in result.reason


async def test_the_result_names_the_tier(world: World, tier: str) -> None:
    result = await world.environment.exec(world.spec("true"))
    assert result.isolation == tier


async def test_the_variables_are_the_given_ones(world: World, tier: str) -> None:
    result = await world.environment.exec(world.spec("env", "-0"))
    names = {line.split(b"=")[0] for line in result.stdout.complete.split(b"\0") if line}
    private = {b"TMPDIR", b"HOME", b"GLIDESLOPE_DATA", b"PYTHONPYCACHEPREFIX"} if tier == "live" else set()
    assert {name for name in names if not name.startswith(b"XDG_")} == {
        b"PATH",
        b"GLIDESLOPE_TEST_TOKEN",
        *private,
    }


async def test_stdin_is_the_given_bytes_or_nothing(world: World) -> None:
    given = await world.environment.exec(world.spec("cat", stdin=b"a\x00b" * 100_000))
    nothing = await world.environment.exec(world.spec("cat"))
    assert given.stdout.total_bytes == 300_000
    assert nothing.stdout.total_bytes == 0


async def test_a_command_runs_at_the_root_or_below_it(world: World) -> None:
    at_root = await world.environment.exec(world.shell("pwd; cat told.txt"))
    below = await world.environment.exec(world.shell("pwd; cat ../told.txt", cwd="über uns"))
    root = world.environment.working_directory
    assert at_root.stdout.complete.decode() == f"{root}\nas snapshot"
    assert below.stdout.complete.decode() == f"{root}/über uns\nas snapshot"


async def test_a_command_over_its_wall_limit_is_timed_out_and_gone(world: World) -> None:
    result = await world.environment.exec(world.shell(STUBBORN, wall_s=0.5, grace_s=0.05))
    assert (result.outcome, result.limit) == (ExecOutcome.TIMED_OUT, TimeLimit.WALL)
    assert result.survivors.left == 0
    assert commands(world) == []


async def test_what_was_printed_before_a_limit_is_kept(world: World) -> None:
    result = await world.environment.exec(world.shell("printf o; printf e >&2; sleep 600", wall_s=0.5))
    assert (result.stdout.complete, result.stderr.complete) == (b"o", b"e")


async def test_a_silent_command_is_over_its_idle_limit(world: World) -> None:
    result = await world.environment.exec(world.shell("echo a; sleep 600", idle_s=0.3, wall_s=60))
    assert (result.outcome, result.limit) == (ExecOutcome.TIMED_OUT, TimeLimit.IDLE)
    assert result.stdout.complete == b"a\n"


async def test_a_command_that_heeds_the_polite_signal_ends_by_itself(world: World) -> None:
    spec = world.shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done", grace_s=30)
    task, watch = await until_heard(world, spec)
    watch.cancel("superseded")
    result = await task
    assert (result.outcome, result.code, result.reason) == (ExecOutcome.CANCELLED, 9, "superseded")
    assert result.stdout.complete == b"up\nbye\n"


async def test_a_cancelled_command_is_gone_when_exec_returns(world: World) -> None:
    task, watch = await until_heard(world, world.shell(STUBBORN, grace_s=0.05))
    assert commands(world)
    watch.cancel("superseded")
    watch.cancel("again")
    result = await task
    assert (result.outcome, result.reason) == (ExecOutcome.CANCELLED, "superseded")
    assert commands(world) == []


async def test_a_cancelled_caller_hears_of_it_when_the_command_is_gone(world: World) -> None:
    task, _ = await until_heard(world, world.shell(STUBBORN, grace_s=0.05))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # an impatient caller
    with pytest.raises(asyncio.CancelledError):
        await task
    assert commands(world) == []


async def test_a_cancel_before_the_start_ends_the_command(world: World) -> None:
    watch = ExecWatch()
    watch.cancel("never mind")
    result = await world.environment.exec(world.shell("sleep 600"), watch=watch)
    assert result.outcome is ExecOutcome.CANCELLED


async def test_processes_left_behind_are_counted_and_killed(world: World) -> None:
    result = await world.environment.exec(world.shell(FIVE_DESCENDANTS, wall_s=60))
    assert (result.outcome, result.code) == (ExecOutcome.EXITED, 0)
    # A shell that is just ending may be seen too, and then needs no kill.
    assert (result.survivors.seen or 0) >= (result.survivors.killed or 0) >= 5
    assert result.survivors.left == 0
    assert commands(world) == []


async def test_a_background_process_holding_the_output_does_not_hold_the_end(world: World) -> None:
    result = await world.environment.exec(world.shell("sleep 600 & exit 0", wall_s=120))
    assert (result.outcome, result.code) == (ExecOutcome.EXITED, 0)


async def test_output_is_bounded_and_counted_exactly(world: World) -> None:
    bounds = OutputPolicy(head_bytes=10, tail_bytes=7, log_bytes=1_000_000)
    spec = world.shell("seq 1 400000", output=bounds, log_path=str(world.logs / "seq"))
    result = await world.environment.exec(spec)
    everything = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    out = result.stdout
    assert (out.head, out.tail) == (everything[:10], everything[-7:])
    assert (out.total_bytes, out.omitted_bytes) == (len(everything), len(everything) - 17)
    assert out.log_path is not None
    assert Path(out.log_path).read_bytes() == everything[:1_000_000]
    assert result.stderr.log_path is None


async def test_report_lines_arrive_while_the_command_runs(world: World) -> None:
    lines: list[bytes] = []

    def take(line: bytes) -> None:
        lines.append(line)
        if len(lines) == 2:
            watch.cancel("seen enough")

    watch = ExecWatch(on_report=take)
    script = r'printf "one\ntw" >&$0; printf "o\nunfinished" >&$0; sleep 600'
    spec = world.spec("sh", "-c", script, "{report_fd}", report=True, wall_s=120)
    result = await world.environment.exec(spec, watch=watch)
    assert (result.outcome, lines) == (ExecOutcome.CANCELLED, [b"one", b"two"])


async def test_a_command_inherits_its_own_descriptors_and_no_others(world: World) -> None:
    plain = await world.environment.exec(world.spec("ls", "/proc/self/fd"))
    report = await world.environment.exec(world.spec("ls", "/proc/self/fd", report=True))
    # `ls` itself opens one for the listing.
    assert plain.stdout.complete.split() == [b"0", b"1", b"2", b"3"]
    assert report.stdout.complete.split() == [b"0", b"1", b"2", b"3", b"4"]


async def test_many_commands_run_at_once(world: World) -> None:
    specs = [world.shell(f"echo {number}") for number in range(8)]
    results = await asyncio.gather(*(world.environment.exec(spec) for spec in specs))
    assert [result.stdout.complete for result in results] == [b"%d\n" % number for number in range(8)]


async def test_stopping_ends_what_runs_and_twice_is_once(world: World) -> None:
    task, _ = await until_heard(world, world.shell(STUBBORN, grace_s=0.05))
    await world.environment.stop()
    await world.environment.stop()
    assert commands(world) == []
    assert (await task).outcome is ExecOutcome.CANCELLED
    with pytest.raises(EnvironmentBroken):
        await world.environment.exec(world.spec("true"))


async def test_a_killed_launcher_is_a_death_and_the_next_command_runs(world: World) -> None:
    task, _ = await until_heard(world, world.shell(STUBBORN))
    assert world.launcher.pid is not None
    os.kill(world.launcher.pid, signal.SIGKILL)
    result = await task
    assert result.outcome is ExecOutcome.DIED
    with anyio.fail_after(30):
        while commands(world):
            await anyio.sleep(0.01)
    again = await world.environment.exec(world.shell("exit 5"))
    assert (again.outcome, again.code) == (ExecOutcome.EXITED, 5)


async def test_a_killed_exec_host_is_a_death_and_leaves_nothing(world: World) -> None:
    task, _ = await until_heard(world, world.shell(STUBBORN))
    (host,) = children(world.launcher.pid)
    os.kill(host, signal.SIGKILL)
    result = await task
    assert result.outcome is ExecOutcome.DIED
    with anyio.fail_after(30):
        while commands(world):
            await anyio.sleep(0.01)
    again = await world.environment.exec(world.shell("exit 5"))
    assert again.code == 5


def children(pid: int | None) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_file_is_read_and_links_stay_beneath_the_root(world: World, folder: Path) -> None:
    for content in (world.root, folder / "state" / "tree"):
        (content / "link").symlink_to("told.txt")
        (content / "out").symlink_to("/etc/hostname")
        os.mkfifo(content / "pipe")
    read = world.environment.read_file
    assert await read(RepoPath("link")) == b"as snapshot"
    with pytest.raises(PathEscapes):
        await read(RepoPath("out"))
    for absent in ("nothing", "über uns", "pipe", "told.txt/x"):
        with pytest.raises(UnknownId):
            await read(RepoPath(absent))


def test_the_contract_has_five_members_and_waits_nowhere_by_blocking() -> None:
    members = {name for name in vars(Environment) if not name.startswith("_")}
    assert members == {"exec", "read_file", "stop", "type", "working_directory"}
    for kind in (LocalEnvironment, CowEnvironment):
        for name in ("exec", "read_file", "stop"):
            assert inspect.iscoroutinefunction(getattr(kind, name))
            assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Environment, name))
