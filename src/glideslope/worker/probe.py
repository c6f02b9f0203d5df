"""Tries each primitive of the sandbox on this machine and says which are missing, and why.

`python -I -S boot.py probe [LAYER]` prints one JSON object. Each primitive is tried in a child
of its own, so a refusal of one hides no other. LAYER is a folder on the file system whose
content is to be the lower layer: overlays stack two deep at most, and not on every kind.
"""

import json
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, List, Tuple

from . import namespaces as ns
from .view import build

ESSENTIAL = (
    "user_namespace",
    "mount_namespace",
    "pid_namespace",
    "network_namespace",
    "loopback",
    "mount_setattr",
    "tmpfs",
    "pidfd",
)
"""Without one of these no tier but the live tree is possible."""

FOR_OVERLAY = ("tmpfs_user_xattr", "overlay")
"""Without one of these the snapshot is copied for each task."""

BETTER = ("private_proc",)
"""Without these a task sees more than it needs to, and survivors cannot be counted."""


def main(arguments: List[str]) -> int:
    """Prints the findings.

    Args:
        arguments: At most the folder of the lower layer.

    Returns:
        0, whatever was found.
    """
    json.dump(probe(arguments[0] if arguments else "/"), sys.stdout)
    return 0


def probe(layer: str) -> Dict[str, Any]:
    """Tries everything.

    Args:
        layer: Folder on the file system that would hold the snapshot.

    Returns:
        `tier` (snapshot, copy or live), `primitives` (all names) and `missing` (name -> reason).
    """
    scratch = tempfile.mkdtemp(prefix="glideslope-probe-")
    try:
        missing = {}
        for name, attempt in _attempts(layer, scratch):
            reason = run_in_child(attempt)
            if reason:
                missing[name] = reason
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "tier": choose_tier(missing),
        "primitives": [*ESSENTIAL, *FOR_OVERLAY, *BETTER],
        "missing": missing,
    }


def choose_tier(missing: Dict[str, str]) -> str:
    """The best tier that needs none of what is missing."""
    if any(name in missing for name in ESSENTIAL):
        return "live"
    return "copy" if any(name in missing for name in FOR_OVERLAY) else "snapshot"


def run_in_child(attempt: Callable[[], object]) -> str:
    """Runs a function in a child of its own; returns why it failed, empty where it did not."""
    reason_r, reason_w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reason_r)
            attempt()
        except Exception as error:  # noqa: BLE001 - the worker's edge: every refusal is an answer
            os.write(reason_w, (str(error) or type(error).__name__).encode("utf-8", "replace")[:4096])
        finally:
            os._exit(0)
    os.close(reason_w)
    with open(reason_r, "rb") as told:
        reason = told.read().decode("utf-8", "replace")
    status = os.waitpid(child, 0)[1]
    return reason or ("ended with status %d" % status if status else "")


def _attempts(layer: str, scratch: str) -> List[Tuple[str, Callable[[], object]]]:
    return [
        ("user_namespace", lambda: _inside(0)),
        ("mount_namespace", lambda: _inside(ns.CLONE_NEWNS)),
        ("pid_namespace", lambda: _inside(ns.CLONE_NEWPID)),
        ("network_namespace", lambda: _inside(ns.CLONE_NEWNET | ns.CLONE_NEWIPC | ns.CLONE_NEWUTS)),
        ("loopback", _try_loopback),
        ("mount_setattr", _try_read_only),
        ("tmpfs", lambda: _try_tmpfs(scratch)),
        ("pidfd", lambda: os.close(os.pidfd_open(os.getpid()))),
        ("tmpfs_user_xattr", lambda: _try_xattr(scratch)),
        ("overlay", lambda: _try_view(layer, scratch)),
        ("private_proc", _try_proc),
    ]


def _inside(flags: int) -> bool:
    """Enters a user namespace and the ones asked for; returns whether every id is mapped."""
    all_ids = ns.enter_user_namespace()
    if flags:
        ns.unshare(flags, "namespaces")
    return all_ids


def _try_loopback() -> None:
    _inside(ns.CLONE_NEWNET)
    ns.raise_loopback()


def _try_read_only() -> None:
    _inside(ns.CLONE_NEWNS)
    ns.make_private()
    ns.set_read_only("/")
    if not ns.is_read_only("/"):
        raise OSError("the root is still writable after it was made read-only")


def _try_tmpfs(scratch: str) -> None:
    _inside(ns.CLONE_NEWNS)
    ns.make_private()
    ns.mount("tmpfs", scratch, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV)


def _try_xattr(scratch: str) -> None:
    _try_tmpfs(scratch)
    os.setxattr(scratch, "user.glideslope", b"y")


def _try_view(layer: str, scratch: str) -> None:
    all_ids = _inside(ns.CLONE_NEWNS | ns.CLONE_NEWPID)
    root = os.path.realpath(scratch)
    request = {
        "root": root,
        "tier": "snapshot",
        "layers": [layer],
        "binds": [],
        "hidden": [],
        "visible": [],
        "read_only": True,
    }
    build(request, all_ids)


def _try_proc() -> None:
    _inside(ns.CLONE_NEWNS | ns.CLONE_NEWPID)
    ns.make_private()

    def inside() -> None:
        try:
            ns.mount("proc", "/proc", "proc", ns.MS_NOSUID | ns.MS_NODEV | ns.MS_NOEXEC)
        except OSError as error:
            raise OSError("%s (parts of the outer /proc are covered)" % error) from None

    reason = run_in_child(inside)
    if reason:
        raise OSError(reason)
