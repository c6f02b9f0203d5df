"""The launcher: one small process from which exec hosts are forked, so none pays for a start.

It takes one datagram per exec on its socket, with the descriptors that belong to it, and forks.
It ends with its daemon: the end of the socket is the end of the launcher, and the end of the
launcher is the end of every exec host.
"""

import array
import gc
import json
import os
import select
import signal
import socket
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from . import namespaces as ns
from .exec_host import Control, Streams, run_sandboxed
from .live_host import run_live, sweep

_DATAGRAM_BYTES = 256
_MOST_FDS = 6
READY = b"ready"


def main(arguments: List[str]) -> int:
    """Serves until the socket ends.

    Args:
        arguments: `sandbox` or `live`, and the number of the socket's descriptor.

    Returns:
        The exit code.
    """
    kind, number = arguments[0], int(arguments[1])
    channel = socket.socket(fileno=number)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uid, gid = os.getuid(), os.getgid()
    ids: Optional[Tuple[bool, int, int]] = None
    greeting: Dict[str, Any] = {"ready": True}
    if kind == "sandbox":
        try:
            ids = (ns.enter_user_namespace(), uid, gid)
            greeting["all_ids"] = ids[0]
        except OSError as error:
            channel.send(json.dumps({"ready": False, "reason": str(error)}).encode("ascii"))
            return 1  # without namespaces it must never serve: it would run on the live tree
    else:
        ns.become_subreaper()
    channel.send(json.dumps(greeting).encode("ascii"))
    gc.freeze()
    gc.disable()
    _serve(channel, ids)
    return 0


def _serve(channel: socket.socket, ids: Optional[Tuple[bool, int, int]]) -> None:
    hosts: Set[int] = set()
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([channel.fileno(), wake_r], [], [])[0]
        if wake_r in ready:
            os.read(wake_r, 4096)
            _reap(hosts, live=ids is None)
        if channel.fileno() in ready:
            handles = _receive(channel)
            if not handles:
                return
            hosts.add(_fork_host(handles, ids, channel))
            for handle in handles:
                os.close(handle)


def _receive(channel: socket.socket) -> List[int]:
    """The descriptors of one exec: request, control, stdin, stdout, stderr, and a report pipe."""
    handles = array.array("i")
    space = socket.CMSG_SPACE(_MOST_FDS * handles.itemsize)
    data, ancillary, _, _ = channel.recvmsg(_DATAGRAM_BYTES, space)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            handles.frombytes(content[: len(content) - len(content) % handles.itemsize])
    for handle in handles:
        os.set_inheritable(handle, False)
    return list(handles) if data else []


def _fork_host(handles: List[int], ids: Optional[Tuple[bool, int, int]], channel: socket.socket) -> int:
    launcher = os.getpid()
    host = os.fork()
    if host:
        return host
    code = 70
    control = socket.socket(fileno=handles[1])
    try:
        signal.set_wakeup_fd(-1)
        channel.close()
        _host(handles, ids, control, launcher)
        code = 0
    except Exception as error:  # noqa: BLE001 - the worker's edge: whatever broke is told, never lost
        told = "%s: %s" % (type(error).__name__, error)
        Control(control).send({"ended": {"outcome": "infrastructure", "reason": told}})
    finally:
        os._exit(code)


def _host(
    handles: List[int], ids: Optional[Tuple[bool, int, int]], control: socket.socket, launcher: int
) -> None:
    ns.die_with_parent(signal.SIGKILL if ids else signal.SIGTERM)
    if os.getppid() != launcher:
        return
    with open(handles[0], "rb") as sent:
        request = json.loads(sent.read())
    streams = Streams(*handles[2:])
    if ids is not None:
        run_sandboxed(request, control, streams, ids)
    else:
        run_live(request, control, streams)


def _reap(hosts: Set[int], live: bool) -> None:
    killed = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        killed |= pid in hosts and os.WIFSIGNALED(status)
        hosts.discard(pid)
    if live and killed:
        sweep(os.getpid(), spare=hosts)


if __name__ == "__main__":
    sys.exit("start it through boot.py")
