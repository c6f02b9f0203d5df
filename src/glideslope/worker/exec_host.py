"""Runs one command and proves that nothing of it is left: the exec host, one process per exec.

Theory of operation. The launcher forks an exec host. In a sandbox tier the host makes the
namespaces and the view, then forks the *init* (pid 1 of the new pid namespace), which forks the
*task*. The host never enters the pid namespace, so it can end it from outside: when init ends,
by itself or by SIGKILL, the kernel ends everything else in it first. Each process asks to be
killed when its parent ends, and watches a pipe or socket for the same, so a SIGKILL of any of
them, or of the daemon, takes all below it along.

The host speaks lines of JSON over the control socket. It sends `started` (with a descriptor of
init, by which the daemon sees the end even if the host is killed) and one `ended`; it takes
`stop` (`outcome`, `limit`). No `ended` before the end of the stream means: died.
"""

import array
import json
import os
import resource
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from . import namespaces as ns
from .changes import list_changes
from .view import View, ViewBroken, build, mount_proc

_LIMITS = {
    "address_space_bytes": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
    "file_size_bytes": resource.RLIMIT_FSIZE,
}
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGXFSZ)
REPORT_FD = 3
_LISTED_CHANGES = 1000


class Streams:
    """The descriptors a task gets; -1 where there is none."""

    __slots__ = ("report", "stderr", "stdin", "stdout")

    def __init__(self, stdin: int, stdout: int, stderr: int, report: int = -1) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.report = report

    def close(self) -> None:
        """Closes all of them, so that the readers see the end when the task has ended."""
        for handle in (self.stdin, self.stdout, self.stderr, self.report):
            if handle >= 0:
                os.close(handle)


class Control:
    """The host's end of the conversation with the daemon."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = b""
        self.closed = False

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._channel.fileno()

    def send(self, message: Dict[str, Any], handle: int = -1) -> None:
        """Sends one message, with a descriptor if one is given. A reader that left is no fault."""
        data = json.dumps(message).encode("ascii") + b"\n"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))] if handle >= 0 else []
        try:
            sent = self._channel.sendmsg([data], rights)
            self._channel.sendall(data[sent:])
        except OSError:
            self.closed = True

    def receive(self) -> List[Dict[str, Any]]:
        """Takes the messages that are there; sets `closed` at the end of the stream."""
        try:
            data = self._channel.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.closed = True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Exec:
    """What the host knows of the command so far."""

    def __init__(self, request: Dict[str, Any], control: Control) -> None:
        self.request = request
        self.control = control
        self.facts: Dict[str, Any] = {}
        self.stop: Optional[Dict[str, Any]] = None
        self.kill_at: Optional[float] = None
        self.wall_at = time.monotonic() + request["wall_s"] if request["wall_s"] else None
        self.oom_before = count_oom_kills()

    def next_timeout_ms(self) -> Optional[int]:
        """How long to wait for news before a limit is due."""
        due = [at for at in (self.kill_at, None if self.stop else self.wall_at) if at is not None]
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1) if due else None

    def ask_to_stop(self, stop: Dict[str, Any], ask: Callable[[], None]) -> None:
        """Begins the ladder: a polite signal now, the kill after the grace time."""
        if "status" in self.facts:
            self.kill_at = time.monotonic()  # it had ended by itself; only survivors are left
        elif self.stop is None:
            self.stop = stop
            self.kill_at = time.monotonic() + float(self.request["grace_s"])
            ask()

    def due(self) -> bool:
        """Whether the grace time is over, or the daemon is gone."""
        return self.control.closed or (self.kill_at is not None and time.monotonic() >= self.kill_at)

    def outcome(self) -> Dict[str, Any]:
        """How the command ended, from what was asked and what was seen."""
        if self.stop is not None:
            return dict(self.stop, **_code_and_signal(self.facts.get("status")))
        if "broken" in self.facts:
            return {"outcome": "infrastructure", "reason": self.facts["broken"]}
        status = self.facts.get("status")
        if status is None:
            return {"outcome": "died", "reason": "the first process of the sandbox was killed from outside"}
        ended = _code_and_signal(status)
        if ended["signal"] is None:
            return dict(ended, outcome="exited")
        if ended["signal"] == signal.SIGKILL and count_oom_kills() > self.oom_before:
            return dict(ended, outcome="oom", reason="the kernel ran out of memory and killed it")
        return dict(ended, outcome="signalled")


def count_oom_kills() -> int:
    """How many processes the kernel has killed for memory since the machine started."""
    try:
        handle = os.open("/proc/vmstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    table = os.read(handle, 1 << 16)
    os.close(handle)
    return int((table.partition(b"\noom_kill ")[2].split(b"\n")[0]) or 0)


def _code_and_signal(status: Optional[int]) -> Dict[str, Any]:
    if status is None:
        return {"code": None, "signal": None}
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None}


def run_sandboxed(
    request: Dict[str, Any], channel: socket.socket, streams: Streams, ids: Tuple[bool, int, int]
) -> None:
    """Runs one command in namespaces of its own; returns when all its processes are gone.

    Args:
        request: The exec as the daemon sent it.
        channel: The control socket.
        streams: The task's descriptors; closed here.
        ids: Whether every id is mapped, and the operator's user and group id.
    """
    control = Control(channel)
    execution = Exec(request, control)
    times = {"received": time.monotonic()}
    try:
        view = _enter(request, ids[0])
    except (OSError, ViewBroken) as error:
        streams.close()
        control.send({"ended": {"outcome": "infrastructure", "reason": str(error)}})
        return
    status_r, status_w = os.pipe()
    life_r, life_w = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(status_r)
        os.close(life_w)
        channel.close()
        _be_init(request, view, streams, ids, status_w, life_r)
    os.close(status_w)
    os.close(life_r)
    streams.close()
    watched = os.pidfd_open(init) if hasattr(os, "pidfd_open") else -1
    control.send({"init": init}, watched)
    _follow(execution, status_r, life_w, init)
    os.waitpid(init, 0)
    times["gone"] = time.monotonic()
    ended = execution.outcome()
    ended.update(
        times=dict(times, **execution.facts.get("times", {})),
        survivors=execution.facts.get("survivors", {"seen": 0, "killed": 0}),
        changes=list_changes(view, _LISTED_CHANGES),
        notes=view.notes,
        enforced=_enforced(request, view, execution.facts),
    )
    control.send({"ended": ended})


def _enter(request: Dict[str, Any], all_ids: bool) -> View:
    flags = ns.CLONE_NEWNS | ns.CLONE_NEWPID | ns.CLONE_NEWIPC | ns.CLONE_NEWUTS
    if request["network"] != "host":
        flags |= ns.CLONE_NEWNET
    ns.unshare(flags, "mount, pid, ipc, uts, net")
    if request["network"] == "loopback":
        ns.raise_loopback()
    view = build(request["view"], all_ids)
    os.chdir(request["cwd"])  # again, now that another tree is mounted there
    return view


def _enforced(request: Dict[str, Any], view: View, facts: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "user_namespace": True,
        "mount_namespace": True,
        "pid_namespace": True,
        "network": request["network"],
        "read_only_outside": view.read_only,
        "private_proc": bool(facts.get("private_proc")),
        "private_devices": view.all_ids and view.read_only,
        "limits": sorted(request["limits"]),
    }


def _follow(execution: Exec, status_r: int, life_w: int, init: int) -> None:
    """Waits until init closes its status pipe, passing on stops and minding the limits."""
    poll = select.poll()
    poll.register(status_r, select.POLLIN)
    poll.register(execution.control.fileno(), select.POLLIN)
    buffer = b""
    killed = False

    def ask() -> None:
        try:
            os.write(life_w, b"T")
        except BrokenPipeError:
            pass  # init has ended; the status pipe says so next

    while True:
        ready = dict(poll.poll(execution.next_timeout_ms()))
        if status_r in ready:
            data = os.read(status_r, 65536)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                _take_status(execution, json.loads(line))
        if execution.control.fileno() in ready:
            for message in execution.control.receive():
                execution.ask_to_stop(message["stop"], ask)
            if execution.control.closed:
                poll.unregister(execution.control.fileno())
        if execution.wall_at is not None and time.monotonic() >= execution.wall_at:
            execution.wall_at = None
            execution.ask_to_stop({"outcome": "timed_out", "limit": "wall"}, ask)
        if execution.due() and not killed:
            killed = True
            execution.kill_at = None
            os.kill(init, signal.SIGKILL)


def _take_status(execution: Exec, news: Dict[str, Any]) -> None:
    execution.facts.setdefault("times", {}).update(news.pop("times", {}))
    execution.facts.update(news)
    if "started" in execution.facts and not execution.facts.get("told"):
        execution.facts["told"] = True
        execution.control.send({"started": execution.facts["times"]["started"]})


# --- init: pid 1 of the sandbox -----------------------------------------------------------


def _be_init(
    request: Dict[str, Any],
    view: View,
    streams: Streams,
    ids: Tuple[bool, int, int],
    status_w: int,
    life_r: int,
) -> NoReturn:
    code = 70
    try:
        _init(request, view, streams, ids, status_w, life_r)
        code = 0
    except Exception as error:  # noqa: BLE001 - the worker's edge: whatever broke is told, never lost
        _tell(status_w, {"broken": "%s: %s" % (type(error).__name__, error)})
    finally:
        os._exit(code)


def _tell(status_w: int, news: Dict[str, Any]) -> None:
    os.write(status_w, json.dumps(news).encode("ascii") + b"\n")


def _init(
    request: Dict[str, Any],
    view: View,
    streams: Streams,
    ids: Tuple[bool, int, int],
    status_w: int,
    life_r: int,
) -> None:
    ns.die_with_parent()
    if select.select([life_r], [], [], 0)[0]:
        return  # the host ended before the line above took effect
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    private_proc = mount_proc(view)
    task = _start_task(request, streams, ids)
    streams.close()
    _tell(status_w, {"started": True, "private_proc": private_proc, "times": {"started": time.monotonic()}})
    stopping = _reap_until_task_ends(task, wake_r, life_r, status_w)
    _report_survivors(status_w, wake_r, 0.0 if stopping else float(request["drain_s"]), private_proc)


def _start_task(request: Dict[str, Any], streams: Streams, ids: Tuple[bool, int, int]) -> int:
    """Forks the task into its own user namespace and waits until its program runs."""
    up_r, up_w = os.pipe()
    down_r, down_w = os.pipe()
    task = os.fork()
    if task == 0:
        os.close(up_r)
        os.close(down_w)
        be_task(request, streams, up_w, lambda: _enter_own_ids(up_w, down_r))
    os.close(up_w)
    os.close(down_r)
    name = os.read(up_r, 32).decode("ascii")
    if name.isdigit():
        ns.map_child(name, *ids)
        os.write(down_w, b"1")
        name = ""
    os.close(down_w)
    refused = name + os.read(up_r, 4096).decode("utf-8", "replace")
    os.close(up_r)
    if refused:
        raise OSError(refused)
    return task


def _enter_own_ids(up_w: int, down_r: int) -> None:
    """A second user namespace: the operator's own ids, and no power over the mounts."""
    ns.unshare(ns.CLONE_NEWUSER, "user (of the task)")
    os.write(up_w, os.readlink("/proc/self").encode("ascii"))
    if not os.read(down_r, 1):
        os._exit(70)


def be_task(request: Dict[str, Any], streams: Streams, up_w: int, enter: Callable[[], None]) -> NoReturn:
    """Turns the caller, a fresh child, into the command; tells `up_w` why where it cannot."""
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        enter()
        os.chdir(request["cwd"])
        up_w = _arrange_descriptors(streams, up_w)
        argv = [str(REPORT_FD) if part == "{report_fd}" else part for part in request["argv"]]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in request["limits"].items():
            resource.setrlimit(_LIMITS[name], (value, value))
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, request["env"])
    except Exception as error:  # noqa: BLE001 - the process must end here, and say why
        os.write(up_w, ("cannot start %s: %s" % (request["argv"][0], error)).encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _arrange_descriptors(streams: Streams, up_w: int) -> int:
    """Gives the task 0, 1, 2 and the report pipe and closes the rest; returns where `up_w` is now."""
    wanted = [streams.stdin, streams.stdout, streams.stderr, streams.report, up_w]
    # First out of the way of the numbers they are to have.
    moved = [os.dup2(handle, 100 + number) if handle >= 0 else -1 for number, handle in enumerate(wanted)]
    for number, handle in enumerate(moved):
        if handle >= 0:
            os.dup2(handle, number, inheritable=number != REPORT_FD + 1)
    if streams.report < 0:
        os.closerange(REPORT_FD, REPORT_FD + 1)
    ns.close_from(REPORT_FD + 2)
    return REPORT_FD + 1


def _reap_until_task_ends(task: int, wake_r: int, life_r: int, status_w: int) -> bool:
    """Reaps everything in the sandbox until the task ends; returns whether it was asked to stop."""
    poll = select.poll()
    poll.register(wake_r, select.POLLIN)
    poll.register(life_r, select.POLLIN)
    stopping = False
    while True:
        ready = dict(poll.poll())
        if life_r in ready:
            if not os.read(life_r, 1):
                os._exit(70)  # the host is gone; the kernel ends the rest
            stopping = True
            _signal_group(task, signal.SIGTERM)
        if wake_r in ready:
            os.read(wake_r, 4096)
        status = _reap(task)
        if status is not None:
            _tell(status_w, {"status": status, "times": {"ended": time.monotonic()}})
            return stopping


def _signal_group(task: int, number: int) -> None:
    try:
        os.killpg(task, number)
    except ProcessLookupError:
        pass  # it ended by itself in the meantime


def _reap(task: int) -> Optional[int]:
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == task:
            found = status


def _report_survivors(status_w: int, wake_r: int, drain_s: float, private_proc: bool) -> None:
    """Gives what is still running a moment to end; what stays is killed when init returns."""
    look = _others if private_proc and _own_children() else _own_children
    seen = len(look())
    deadline = time.monotonic() + drain_s
    left = seen
    while left and time.monotonic() < deadline:
        if select.select([wake_r], [], [], 0.01)[0]:
            os.read(wake_r, 4096)
        _reap(0)
        left = len(look())
    if seen and not private_proc:
        # That there are some is known, but not how many: others' processes are listed too.
        _tell(status_w, {"survivors": {"seen": None, "killed": None}})
    else:
        _tell(status_w, {"survivors": {"seen": seen, "killed": left}})


def _own_children() -> List[int]:
    """A stand-in for a count: pid 1 where init has children, of which every other descends."""
    return [1] if has_children() else []


def has_children() -> bool:
    """Whether the caller has any; one whose orphans come back to it then has no descendants."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _others() -> List[int]:
    """The processes of the sandbox that are alive, without pid 1."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != 1 and is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as table:
            return table.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
