"""The file system as a task sees it: the snapshot at the project's own path, the rest fenced off.

Theory of operation. All mounts are *places* with a target and a source that is opened before
anything is covered. They are made in the order of their depth, so a place may lie inside
another one (a project below `/tmp`, an environment below the project). First the whole tree is
made read-only, then fresh places are put on top. One private tmpfs, mounted for a moment at
`/tmp`, carries every writable part: the overlay's upper layer, `/tmp`, `/var/tmp`, `/dev/shm`.
It is covered at once by its own `tmp` folder, so the upper layer has no path inside.

Fail closed: a place that is not what it must be raises `ViewBroken`, and nothing is run.
"""

import os
import stat
from typing import Any, Dict, List, Optional

from . import namespaces as ns

_TEMPORARY = os.path.realpath("/tmp")
PRIVATE = tuple(dict.fromkeys(os.path.realpath(path) for path in ("/tmp", "/var/tmp", "/dev/shm")))
"""Folders that are replaced by private empty ones."""

SUBSTRATE = ("home", "data")
"""Folders made below the private `/tmp`; constants, so they never vary in a record."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_COPIED_BYTES = 1 << 24
_KERNEL_KNOBS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")


class ViewBroken(Exception):
    """The file system view could not be made as asked; the task must not run."""


class Place:
    """One thing to be mounted at one path."""

    __slots__ = ("is_folder", "kind", "read_only", "source", "target")

    def __init__(self, kind: str, target: str, source: int, is_folder: bool, read_only: bool) -> None:
        self.kind = kind  # root, bind, visible, link, private, cover, devices; or skipped
        self.target = target
        self.source = source  # descriptor; -1 where the place brings its own folder
        self.is_folder = is_folder
        self.read_only = read_only


class View:
    """What `build` made, and what is needed afterwards to tell what a task changed."""

    __slots__ = ("all_ids", "layers", "made", "notes", "outer_proc", "read_only", "root", "tier", "written")

    def __init__(self, request: Dict[str, Any], all_ids: bool) -> None:
        self.root: str = request["root"]
        self.tier: str = request["tier"]
        self.read_only: bool = request["read_only"]
        self.all_ids = all_ids
        self.layers: List[int] = []  # descriptors, uppermost first
        self.written = -1  # descriptor of the upper layer, or of the copy
        self.outer_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.made: List[str] = []  # mount points made below the root, relative to it
        self.notes: List[str] = []


def build(request: Dict[str, Any], all_ids: bool) -> View:
    """Makes the view in the caller's own fresh mount namespace.

    Args:
        request: `root`, `tier` (snapshot or copy), `layers` (folders, uppermost first), `binds`
            (`source`, `target`, `read_only`, `carry`, `own`), `hidden` and `visible` paths,
            `read_only`, `scratch_bytes`. Paths are absolute.
        all_ids: Whether the operator is root with every id mapped.

    Returns:
        The view; its descriptors stay open.

    Raises:
        ViewBroken: A source is missing or a place is not what it must be.
        OSError: A system call was refused; the message names it.
    """
    view = View(request, all_ids)
    if os.path.realpath(view.root) != view.root or view.root == "/":
        raise ViewBroken("the project root %r is not a real path of its own" % view.root)
    ns.make_private()
    view.layers = [_open(path) for path in request["layers"]]
    places = _places(view, request)
    if view.read_only:
        ns.set_read_only("/")
        # Where no fresh one can be had, this one stays, and processes must write to their own part.
        ns.set_read_only("/proc", read_only=False, recursive=False)
    scratch = _mount_scratch(request.get("scratch_bytes"))
    places.sort(key=lambda place: place.target.count("/"))
    for place in places:
        _put(view, place, places, scratch)
    for place in places:
        if place.kind in ("cover", "devices"):
            # Last, because others may have been put inside; and not what was put inside.
            ns.set_read_only(place.target, recursive=False)
            _prove_read_only(place)
    _check_root(view)
    return view


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise ViewBroken("%s cannot be opened: %s" % (path, error.strerror)) from None


def _place(kind: str, target: str, source: int, read_only: bool) -> Place:
    return Place(kind, target, source, stat.S_ISDIR(os.fstat(source).st_mode), read_only)


def _places(view: View, request: Dict[str, Any]) -> List[Place]:
    places = {view.root: Place("root", view.root, -1, True, False)}
    hidden = [real for real in map(os.path.realpath, request["hidden"]) if real not in PRIVATE]
    for real in hidden:
        if os.path.lexists(real):
            places.setdefault(real, _place("cover", real, _open(real), True))
    for path in PRIVATE:
        if os.path.isdir(path):
            places.setdefault(path, Place("private", path, -1, True, False))
    covered = [place.target for place in places.values() if place.kind in ("private", "cover")]
    if view.all_ids and view.read_only:
        # Root may open a raw disk by its device node, whatever the mounts say.
        places["/dev"] = Place("devices", "/dev", -1, True, False)
        covered.append("/dev")
    visible = list(request["visible"])
    for bound in request["binds"]:
        visible += _add_bind(view, places, bound, hidden)
    covered.append(view.root)
    for path in visible:
        for shown in {path, os.path.realpath(path)}:
            wanted = shown not in places and _is_below(shown, covered) and os.path.exists(shown)
            if wanted and not _uncovers(shown, shown, hidden):
                places[shown] = _place("visible", shown, _open(shown), True)
    return list(places.values())


def _is_below(path: str, folders: List[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def _uncovers(source: str, target: str, hidden: List[str]) -> bool:
    """Whether a mount would show something hidden: it lies in it, or around it at another path."""
    real = os.path.realpath(source)
    around = [path for path in hidden if path.startswith(real.rstrip("/") + "/")]
    return real in hidden or _is_below(real, hidden) or (real != target and bool(around))


def _add_bind(view: View, places: Dict[str, Place], bound: Dict[str, Any], hidden: List[str]) -> List[str]:
    """Adds one bind; returns paths that must stay visible for it to make sense."""
    source, target = bound["source"], bound["target"]
    if bound["carry"] and not os.path.exists(source):
        return []  # nothing of that name in the working tree: nothing to carry
    real = os.path.realpath(source)
    stays_link = bound["carry"] and os.path.islink(source) and not real.startswith(view.root + "/")
    if not bound.get("own") and _uncovers(real, real if stays_link else target, hidden):
        if not bound["carry"]:
            raise ViewBroken("%s leads to a folder that no task may see" % source)
        view.notes.append("%s leads to a folder that no task may see and was left out" % target)
        return []
    if stays_link:
        places[target] = Place("link", target, _open(real), True, False)
        return [real]
    places[target] = _place("bind", target, _open(source), bound["read_only"])
    return []


def _mount_scratch(size_bytes: Optional[int]) -> str:
    """Mounts the private tmpfs and returns its path as a descriptor link, valid when covered."""
    options = "mode=0755" + (",size=%d" % size_bytes if size_bytes else "")
    ns.mount("tmpfs", _TEMPORARY, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, options)
    return "/proc/self/fd/%d" % _open(_TEMPORARY)


def _put(view: View, place: Place, places: List[Place], scratch: str) -> None:
    may_make = _is_ours(place, places)
    if place.kind == "link":
        _put_link(view, place, may_make)
        return
    if _is_settled(view, place):
        place.kind = "skipped"
        return
    if not _make_point(view, place, may_make):
        place.kind = "skipped"
        view.notes.append("a link stands at %s in the snapshot and was left as it is" % place.target)
        return
    if place.kind == "root":
        _put_root(view, scratch)
        return
    if place.kind in ("bind", "visible"):
        _put_bind(place)
        return
    folder = _own_folder(place, scratch)
    source = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        ns.bind(source, place.target)
    finally:
        os.close(source)


def _is_settled(view: View, place: Place) -> bool:
    """Whether what was put before has hidden, or shows, what the place is for."""
    there = os.path.lexists(place.target)
    if place.kind == "cover":
        return not there
    # What the snapshot has is never replaced by what the working tree has.
    return place.kind == "visible" and there and place.target.startswith(view.root + "/")


def _own_folder(place: Place, scratch: str) -> str:
    """A fresh folder of the private tmpfs (or an empty file) for a place without a source."""
    path = scratch + "/" + place.target.strip("/").replace("/", "-")
    if place.kind == "cover" and not place.is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o000))
        return path
    os.mkdir(path)
    if place.kind == "private":
        os.chmod(path, 0o1777)
    if place.kind == "private" and place.target == _TEMPORARY:
        for name in SUBSTRATE:
            os.mkdir(path + "/" + name, 0o700)
    if place.kind == "devices":
        _fill_devices(path)
    return path


def _fill_devices(folder: str) -> None:
    """Shows the harmless devices in a folder that is to cover `/dev`."""
    for name, text in _DEVICE_LINKS:
        os.symlink(text, folder + "/" + name)
    for name in _DEVICES:
        try:
            source = os.open("/dev/" + name, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        point = folder + "/" + name
        if stat.S_ISDIR(os.fstat(source).st_mode):
            os.mkdir(point)
        else:
            os.close(os.open(point, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        ns.bind(source, point)
        os.close(source)


def _put_root(view: View, scratch: str) -> None:
    if view.tier == "copy":
        folder = scratch + "/copy"
        os.mkdir(folder)
        for layer in reversed(view.layers):
            copy_tree("/proc/self/fd/%d" % layer, folder)
        _copy_status("/proc/self/fd/%d" % view.layers[-1], folder)
        view.written = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        ns.bind(view.written, view.root)
        return
    upper, work = scratch + "/upper", scratch + "/work"
    os.mkdir(upper)
    os.mkdir(work)
    # The merged root takes owner, mode and times from its uppermost layer.
    _copy_status("/proc/self/fd/%d" % view.layers[-1], upper)
    view.written = os.open(upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lower = ":".join("/proc/self/fd/%d" % layer for layer in view.layers)
    options = "userxattr,lowerdir=%s,upperdir=%s,workdir=%s" % (lower, upper, work)
    ns.mount("overlay", view.root, "overlay", ns.MS_NOSUID | ns.MS_NODEV, options)


def copy_tree(source: str, target: str) -> None:
    """Copies a folder into an existing one: links as links, times and modes kept."""
    with os.scandir(source) as entries:
        listed = list(entries)
    for entry in listed:
        path = target + "/" + entry.name
        if entry.is_dir(follow_symlinks=False):
            if not os.path.isdir(path):
                os.mkdir(path)
            copy_tree(entry.path, path)
            _copy_status(entry.path, path)
            continue
        if os.path.lexists(path):
            os.unlink(path)  # a layer below has it too
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_file(follow_symlinks=False):
            _copy_file(entry.path, path)


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb", buffering=0) as old, open(target, "xb", buffering=0) as new:
        while os.sendfile(new.fileno(), old.fileno(), None, _COPIED_BYTES):
            pass
    _copy_status(source, target)


def _copy_status(source: str, target: str) -> None:
    """Gives a file or folder the mode and the times of another one."""
    status = os.stat(source)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _put_bind(place: Place) -> None:
    ns.bind(place.source, place.target)
    if place.read_only:
        # In a second call: a bind takes no new flags in the call that makes it. At once, because
        # the call reaches whatever is mounted below by then.
        ns.set_read_only(place.target)
        _prove_read_only(place)
    elif place.is_folder and ns.is_read_only(place.target):
        ns.set_read_only(place.target, False)


def _put_link(view: View, place: Place, may_make: bool) -> None:
    """Keeps a carried link that points out of the project; its target is visible there."""
    if may_make and not os.path.lexists(place.target):
        _make_parents(view, place.target)
        os.symlink(os.path.realpath("/proc/self/fd/%d" % place.source), place.target)
        _record(view, place.target)


def _is_ours(place: Place, places: List[Place]) -> bool:
    """Whether what lies around a target was made for this task, so that we may write there."""
    around = [other for other in places if place.target.startswith(other.target + "/")]
    nearest = max(around, key=lambda other: len(other.target), default=None)
    return nearest is not None and nearest.kind in ("root", "private", "cover", "devices")


def _make_point(view: View, place: Place, may_make: bool) -> bool:
    """Makes sure something of the right kind is at the target to mount on.

    Returns:
        False where a link stands in the way: a mount would follow it to another place.
    """
    target, folder = place.target, os.path.dirname(place.target)
    # Below the root the snapshot decides what is a link; elsewhere the machine does.
    if target.startswith(view.root + "/") and (os.path.realpath(folder) != folder or os.path.islink(target)):
        return False
    if os.path.exists(target):
        if os.path.isdir(target) != place.is_folder:
            raise ViewBroken("%s is not of the kind that is to be mounted there" % target)
        return True
    if not may_make:
        raise ViewBroken("%s does not exist, so nothing can be mounted there" % target)
    _make_parents(view, target)
    if place.is_folder:
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _record(view, target)
    return True


def _make_parents(view: View, target: str) -> None:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        _make_parents(view, folder)
        os.mkdir(folder)
        _record(view, folder)


def _record(view: View, target: str) -> None:
    if target.startswith(view.root + "/"):
        view.made.append(target[len(view.root) + 1 :])


def _prove_read_only(place: Place) -> None:
    if not ns.is_read_only(place.target):
        raise ViewBroken("%s is still writable after it was made read-only" % place.target)


def _check_root(view: View) -> None:
    found = os.stat(view.root)
    if view.tier == "snapshot" and ns.file_system(view.root) != ns.OVERLAY_MAGIC:
        raise ViewBroken("the overlay over %s is not there after it was mounted" % view.root)
    if view.tier == "copy" and not os.path.samestat(found, os.fstat(view.written)):
        raise ViewBroken("the copy at %s is not there after it was bound" % view.root)
    if view.read_only and not ns.is_read_only("/"):
        raise ViewBroken("the file system outside the project is still writable")


def mount_proc(view: View) -> bool:
    """Shows only the sandbox's own processes; called by its first process.

    Returns:
        False where the kernel refuses a fresh one (a container hides parts of its own): the
        outer one then stays, whose other processes a task can list but not touch.
    """
    try:
        ns.mount("proc", "/proc", "proc", ns.MS_NOSUID | ns.MS_NODEV | ns.MS_NOEXEC)
        fresh = True
    except PermissionError:
        fresh = False
    if view.all_ids and view.read_only:
        for name in _KERNEL_KNOBS:
            path = "/proc/" + name
            if os.path.exists(path):
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
                ns.bind(handle, path)
                os.close(handle)
                ns.set_read_only(path)
    return fresh
