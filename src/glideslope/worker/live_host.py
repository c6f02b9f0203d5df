"""Runs one command without namespaces, on the live tree, and still leaves no process behind.

The host is a subreaper, so whatever forks twice or starts a session of its own stays among its
descendants; they are found in /proc and killed until none is left. Weaker than a sandbox: a
SIGKILL of the host leaves the sweep to the launcher, one of both at once leaves it to nobody.
"""

import os
import select
import signal
import socket
import time
from typing import Any, Dict, Iterable, List, Set, Tuple

from . import namespaces as ns
from .exec_host import Control, Exec, Streams, be_task, has_children, is_alive

_SWEEP_S = 2.0


def descendants(root: int, spare: Iterable[int] = ()) -> List[int]:
    """The living processes below `root`, without those in `spare` and theirs."""
    children: Dict[int, List[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open("/proc/%d/stat" % pid, "rb") as table:
                parent = int(table.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(pid)
    spared, found, waiting = set(spare), [], [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        waiting += below
        found += below
    return [pid for pid in found if is_alive(pid)]


def sweep(root: int, spare: Iterable[int] = ()) -> Tuple[int, int]:
    """Kills everything below `root` until two looks in a row find nothing.

    Returns:
        How many processes were killed, and how many were left after two seconds.
    """
    killed: Set[int] = set()
    deadline = time.monotonic() + _SWEEP_S
    clean = 0
    while clean < 2:
        found = descendants(root, spare)
        clean = 0 if found else clean + 1
        if time.monotonic() >= deadline:
            return len(killed), len(found)
        for pid in found:
            killed.add(pid)
            _quietly_kill(pid)
        if found:
            select.select([], [], [], 0.002)  # a killed process needs a moment to be gone
            for pid in found:
                _quietly_reap(pid)
    return len(killed), 0


def _quietly_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended meanwhile; another owner's process counts as left


def _quietly_reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # not our child, or reaped already


def run_live(request: Dict[str, Any], channel: socket.socket, streams: Streams) -> None:
    """Runs one command on the live tree; returns when no process of it is left.

    Args:
        request: The exec as the daemon sent it.
        channel: The control socket.
        streams: The task's descriptors; closed here.
    """
    control = Control(channel)
    execution = Exec(request, control)
    times = {"received": time.monotonic()}
    ns.become_subreaper()
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _be_orphaned(execution))
    up_r, up_w = os.pipe()
    task = os.fork()
    if task == 0:
        be_task(request, streams, up_w, ns.die_with_parent)
    os.close(up_w)
    streams.close()
    refused = os.read(up_r, 4096).decode("utf-8", "replace")
    times["started"] = time.monotonic()
    if refused:
        os.waitpid(task, 0)
        control.send({"ended": {"outcome": "infrastructure", "reason": refused}})
        return
    control.send({"started": times["started"]})
    _follow(execution, task, wake_r)
    times["ended"] = time.monotonic()
    seen, killed, left = _end_survivors(execution, wake_r)
    times["gone"] = time.monotonic()
    ended = execution.outcome()
    ended.update(
        times=times,
        survivors={"seen": seen, "killed": killed, "left": left},
        changes=None,
        notes=[],
        enforced={"network": "host", "limits": sorted(request["limits"])},
    )
    control.send({"ended": ended})


def _be_orphaned(execution: Exec) -> None:
    """The launcher was killed: ends the command at once, and says so to a daemon that still listens."""
    execution.stop = execution.stop or {"outcome": "died", "reason": "the launcher was killed"}
    execution.kill_at = time.monotonic()


def _follow(execution: Exec, task: int, wake_r: int) -> None:
    """Waits for the end of the task, passing on stops and minding the limits."""
    poll = select.poll()
    poll.register(wake_r, select.POLLIN)
    poll.register(execution.control.fileno(), select.POLLIN)
    while not _reap(execution, task):
        ready = dict(poll.poll(execution.next_timeout_ms()))
        if wake_r in ready:
            os.read(wake_r, 4096)
        if execution.control.fileno() in ready:
            for message in execution.control.receive():
                execution.ask_to_stop(message["stop"], lambda: _signal_group(task, signal.SIGTERM))
            if execution.control.closed:
                poll.unregister(execution.control.fileno())
        if execution.wall_at is not None and time.monotonic() >= execution.wall_at:
            execution.wall_at = None
            stop = {"outcome": "timed_out", "limit": "wall"}
            execution.ask_to_stop(stop, lambda: _signal_group(task, signal.SIGTERM))
        if execution.due():
            execution.kill_at = None
            _quietly_kill(task)


def _signal_group(task: int, number: int) -> None:
    try:
        os.killpg(task, number)
    except ProcessLookupError:
        pass  # it ended by itself in the meantime


def _reap(execution: Exec, task: int) -> bool:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return "status" in execution.facts
        if pid == task:
            execution.facts["status"] = status
        if pid == 0:
            return "status" in execution.facts


def _end_survivors(execution: Exec, wake_r: int) -> Tuple[int, int, int]:
    """Gives what still runs a moment, then kills it; returns seen, killed and left."""
    own = os.getpid()
    left = seen = len(descendants(own)) if has_children() else 0
    stopping = execution.stop is not None or execution.control.closed
    deadline = time.monotonic() + (0.0 if stopping else float(execution.request["drain_s"]))
    while left and time.monotonic() < deadline:
        if select.select([wake_r], [], [], 0.01)[0]:
            os.read(wake_r, 4096)
        left = len(descendants(own))
    killed, remaining = sweep(own) if left else (0, 0)
    return seen, killed, remaining
