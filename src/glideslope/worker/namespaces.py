"""The system calls that make a sandbox, written once: namespaces, mounts, death signals.

Everything raises `OSError` with the name of the call, so that a report can say which primitive
this machine lacks.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from typing import List, Tuple

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

OVERLAY_MAGIC = 0x794C7630
TMPFS_MAGIC = 0x01021994

_MOUNT_ATTR_RDONLY = 0x1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SYS_MOUNT_SETATTR = 442  # one number on every architecture since Linux 5.12
_SYS_CLOSE_RANGE = 436
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_CAP_SETGID = 6
_CAP_SETUID = 7

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_libc.syscall.restype = ctypes.c_long


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    ]


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))


def unshare(flags: int, what: str) -> None:
    """Moves the caller into new namespaces; `what` names them in the error."""
    _check(_libc.unshare(flags), "unshare " + what)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mounts a file system or a bind at `target`."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(options) or None
    )
    _check(result, "mount %s on %s" % (kind or "bind", target))


def make_private() -> None:
    """Cuts the mount tree off from its origin, so nothing done here is seen outside."""
    mount("", "/", "", MS_REC | MS_PRIVATE)


def bind(source_fd: int, target: str) -> None:
    """Shows an opened file or folder, and what is mounted below it, at `target`.

    The source is a descriptor because its path may be covered by then.
    """
    mount("/proc/self/fd/%d" % source_fd, target, "", MS_BIND | MS_REC)


def set_read_only(target: str, read_only: bool = True, recursive: bool = True) -> None:
    """Makes the mount at `target`, and all mounted below it, read-only or writable again."""
    flag = _MOUNT_ATTR_RDONLY
    attributes = _MountAttributes(flag if read_only else 0, 0 if read_only else flag, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, "mount_setattr " + target)


def is_read_only(target: str) -> bool:
    """Whether the kernel would refuse a write below `target` because of its mount."""
    return bool(os.statvfs(target).f_flag & os.ST_RDONLY)


def file_system(target: str) -> int:
    """The magic number of the file system at `target`."""
    buffer = ctypes.create_string_buffer(256)
    _check(_libc.statfs(os.fsencode(target), buffer), "statfs " + target)
    return int(struct.unpack_from("l", buffer.raw)[0]) & 0xFFFFFFFF


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Asks for a signal when the parent ends. The caller checks that it had not ended already."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl PDEATHSIG")


def become_subreaper() -> None:
    """Makes orphans among the descendants children of the caller instead of pid 1's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl CHILD_SUBREAPER")


def close_from(first: int) -> None:
    """Closes every descriptor from `first` up."""
    if (
        _libc.syscall(ctypes.c_long(_SYS_CLOSE_RANGE), ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), 0)
        == 0
    ):
        return
    for text in os.listdir("/proc/self/fd"):
        if int(text) >= first:
            try:
                os.close(int(text))
            except OSError:
                pass  # the descriptor of the listing itself


def raise_loopback() -> None:
    """Brings `lo` up: in a fresh network namespace it is down and nothing can connect."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(probe, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _mapped(path: str) -> List[Tuple[int, int]]:
    """The (first id, count) ranges that exist in the caller's user namespace."""
    with open(path, encoding="ascii") as table:
        rows = [line.split() for line in table]
    return [(int(row[0]), int(row[2])) for row in rows]


def _may_set_ids() -> bool:
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        effective = next(line for line in status if line.startswith("CapEff:"))
    capabilities = int(effective.split()[1], 16)
    return bool(capabilities >> _CAP_SETUID & 1 and capabilities >> _CAP_SETGID & 1)


def _write(path: str, text: str) -> None:
    # One write call: the kernel takes a map in one piece or not at all.
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("ascii"))
    finally:
        os.close(handle)


def identity_map(path: str) -> str:
    """A map that gives every id the caller knows the same number in a child namespace."""
    return "".join("%d %d %d\n" % (first, first, count) for first, count in _mapped(path))


def enter_user_namespace() -> bool:
    """Moves the caller, which must have one thread, into a user namespace it is root of.

    Returns:
        True where every id was carried over unchanged (the operator is root and may set
        ids), False where only the operator's own id exists inside, as 0.

    Raises:
        OSError: This machine or container does not allow it.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid == 0 and _may_set_ids():
        _enter_with_all_ids()
        return True
    unshare(CLONE_NEWUSER, "user")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", "0 %d 1\n" % uid)
    _write("/proc/self/gid_map", "0 %d 1\n" % gid)
    return False


def _enter_with_all_ids() -> None:
    """A map of many ids is written from the parent namespace: by a child left behind there."""
    target = os.getpid()
    uid_map, gid_map = identity_map("/proc/self/uid_map"), identity_map("/proc/self/gid_map")
    wait_r, wait_w = os.pipe()
    helper = os.fork()
    if helper == 0:
        code = 1
        try:
            os.close(wait_w)
            if os.read(wait_r, 1):
                _write("/proc/%d/gid_map" % target, gid_map)
                _write("/proc/%d/uid_map" % target, uid_map)
                code = 0
        finally:
            os._exit(code)
    os.close(wait_r)
    try:
        unshare(CLONE_NEWUSER, "user")
        os.write(wait_w, b"1")
    finally:
        os.close(wait_w)
        failed = os.waitpid(helper, 0)[1]
    if failed:
        raise OSError(1, "writing the id maps of the user namespace was refused")


def map_child(pid: str, all_ids: bool, uid: int, gid: int) -> None:
    """Maps the fresh user namespace of a child back to the operator's own ids.

    Args:
        pid: The child's number as the mounted /proc knows it.
        all_ids: What `enter_user_namespace` returned.
        uid: The operator's user id, as outside.
        gid: The operator's group id, as outside.
    """
    uid_map = identity_map("/proc/self/uid_map") if all_ids else "%d 0 1\n" % uid
    gid_map = identity_map("/proc/self/gid_map") if all_ids else "%d 0 1\n" % gid
    _write("/proc/%s/gid_map" % pid, gid_map)
    _write("/proc/%s/uid_map" % pid, uid_map)
