"""A private `.git` for a verify tree: what git reads there is true, what it writes goes nowhere.

It is a real folder whatever the workspace has (a linked worktree and a submodule have a link
file). Objects are not copied: the layer names a folder inside itself, over which the user's object
store is bound read-only. Settings are an allow list, so nothing in it can start a program.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass

from glideslope.adapters.git import Git, git_failed
from glideslope.adapters.gitstate import RefsReader
from glideslope.adapters.statcache import Look, is_settled, look_at
from glideslope.adapters.workspace import Layout
from glideslope.model.snapshot import GitState

OBJECTS_AT = ".git/glideslope-objects"

_CONFIG = frozenset(
    f"core.{name}"
    for name in (
        "abbrev",
        "autocrlf",
        "checkstat",
        "eol",
        "filemode",
        "ignorecase",
        "logallrefupdates",
        "precomposeunicode",
        "quotepath",
        "safecrlf",
        "symlinks",
        "trustctime",
        "whitespace",
    )
) | {"user.name", "user.email"}
_CONFIG_OF_EACH = frozenset({"branch.*.remote", "branch.*.merge", "remote.*.fetch"})
_HISTORY_BYTES = 16 * 1024  # of HEAD's reflog: enough for git to say where a detached head came from
_COPIED = (
    "shallow",
    "info/attributes",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "SQUASH_MSG",
    "rebase-merge/head-name",
    "rebase-merge/onto",
    "rebase-merge/orig-head",
    "rebase-merge/msgnum",
    "rebase-merge/end",
    "rebase-merge/done",
    "rebase-merge/git-rebase-todo",
    "rebase-merge/interactive",
    "rebase-apply/head-name",
    "rebase-apply/onto",
    "rebase-apply/next",
    "rebase-apply/last",
    "rebase-apply/rebasing",
)
_IGNORED_HERE = b"__pycache__/\n"  # bytecode that is put into the tree
_KEPT = 8  # layers of one repository


_Mark = tuple[GitState, tuple[tuple[str, Look | None], ...]]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Everything a layer is made of; its digest is the layer's name."""

    files: tuple[tuple[str, bytes], ...]  # path inside `.git`, content
    index: bytes  # `git ls-files --stage -z`
    kept_off: bytes  # paths with the skip-worktree mark, each ended by a NUL

    def key(self) -> str:
        digest = hashlib.sha256()
        for name, content in (*self.files, ("index", self.index), ("kept_off", self.kept_off)):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return digest.hexdigest()[:24]


class GitLayers:
    """Makes layers and keeps the last few. Safe for several threads."""

    def __init__(self, state: str, *, git: Git, refs: RefsReader) -> None:
        self._root = os.path.join(state, "git")
        self._git = git
        self._refs = refs
        self._lock = threading.Lock()
        self._used: dict[str, int] = {}
        self._marks: dict[str, tuple[_Mark, str]] = {}

    def layer(self, scope: str, layout: Layout, state: GitState) -> str:
        """A folder that holds `.git` as of a git state, and counts it as used until `release`.

        HEAD, branch and refs are those of the state; the index is the one of now.

        Raises:
            EnvironmentBroken: git fails.
            OSError: The state folder cannot be written.
        """
        with self._lock:
            folder, parts = self._named(scope, layout, state)
            if parts is not None and not os.path.isdir(folder):
                self._make(folder, parts)
            os.utime(folder)
            self._used[folder] = self._used.get(folder, 0) + 1
            self._trim()
        return folder

    def release(self, folder: str) -> None:
        """Gives a layer back."""
        with self._lock:
            self._used[folder] = self._used.get(folder, 1) - 1

    def _named(self, scope: str, layout: Layout, state: GitState) -> tuple[str, _Parts | None]:
        """The layer's folder, and its parts unless everything they are read from looks as it did."""
        mark = _mark(scope, layout, state)
        known = self._marks.get(scope)
        if mark is not None and known is not None and known[0] == mark and os.path.isdir(known[1]):
            return known[1], None
        parts = self._parts(scope, layout, state)
        folder = os.path.join(self._root, parts.key())
        if mark is not None:
            self._marks[scope] = (mark, folder)
        return folder, parts

    def _parts(self, scope: str, layout: Layout, state: GitState) -> _Parts:
        commands = {
            "index": ["ls-files", "--stage", "-z"],
            "tags": ["ls-files", "-t", "-z", "--cached"],
            "config": ["config", "--list", "-z"],
            "symbolic": ["for-each-ref", "--format=%(refname) %(symref)"],
            "excludes": ["config", "--type=path", "--get", "core.excludesFile"],
        }
        with contextlib.ExitStack() as stack:
            started = {name: self._git.start(scope, command) for name, command in commands.items()}
            for process in started.values():
                stack.callback(process.kill)
            done = {name: process.wait() for name, process in started.items()}
        for name in ("index", "tags", "config", "symbolic"):
            if not done[name]:
                raise git_failed(commands[name], done[name])
        listing = self._listing(scope, state)
        symbolic = _symbolic(done["symbolic"].out, listing)
        files = {
            **symbolic,
            "HEAD": _head(state),
            "packed-refs": packed_refs(listing, symbolic.keys()),
            "config": _config(done["config"].out, layout),
            "info/exclude": _exclude(scope, layout, os.fsdecode(done["excludes"].out).rstrip("\n")),
            "objects/info/alternates": _alternates(layout),
        }
        for name, path in _copied(layout).items():
            content = _read(path)
            if content is not None:
                files[name] = content
        history = _read(os.path.join(layout.git_dir, "logs", "HEAD"))
        if history:
            lines = history[-_HISTORY_BYTES:].split(b"\n", 1)
            files["logs/HEAD"] = history if len(history) <= _HISTORY_BYTES else lines[-1]
        tags = done["tags"].out.split(b"\0")
        kept_off = b"".join(record[2:] + b"\0" for record in tags if record[:2] in (b"S ", b"s "))
        return _Parts(tuple(sorted(files.items())), done["index"].out, kept_off)

    def _listing(self, scope: str, state: GitState) -> bytes:
        kept = self._refs.kept(state.refs_digest)
        return self._git.run(scope, ["show-ref", "--head", "--dereference"]).out if kept is None else kept

    def _make(self, folder: str, parts: _Parts) -> None:
        temporary = f"{folder}.{os.getpid()}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        dot_git = os.path.join(temporary, ".git")
        for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info", "glideslope-objects"):
            os.makedirs(os.path.join(dot_git, name), mode=0o755)
        for name, content in parts.files:
            path = os.path.join(dot_git, name)
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        # The index only names objects; while it is written none of them needs to be there.
        self._index(dot_git, ["-z", "--index-info"], parts.index)
        if parts.kept_off:
            self._index(dot_git, ["--skip-worktree", "-z", "--stdin"], parts.kept_off)
        os.rename(temporary, folder)

    def _index(self, dot_git: str, arguments: list[str], stdin: bytes) -> None:
        where = {"GIT_DIR": dot_git, "GIT_WORK_TREE": os.path.dirname(dot_git)}
        command = ["update-index", *arguments]
        done = self._git.run(os.path.dirname(dot_git), command, environment=where, stdin=stdin)
        if not done:
            raise git_failed(command, done)

    def _trim(self) -> None:
        """Removes the layers that were not used for the longest time."""
        idle = []
        for entry in list(os.scandir(self._root)):
            with contextlib.suppress(FileNotFoundError):
                if not self._used.get(entry.path):
                    idle.append((entry.stat().st_mtime, entry.path))
        for _, path in sorted(idle)[:-_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
            self._used.pop(path, None)


def packed_refs(listing: bytes, without: Container[str] = ()) -> bytes:
    """Turns `git show-ref --head --dereference` into the content of a packed-refs file.

    Args:
        listing: The output of that command.
        without: Refs that are kept as files of their own.
    """
    lines = [b"# pack-refs with: peeled fully-peeled sorted \n"]
    rows: dict[bytes, list[bytes]] = {}
    for line in listing.split(b"\n"):
        object_name, _, name = line.partition(b" ")
        if name.removesuffix(b"^{}").decode("utf-8", "surrogateescape") in without:
            continue
        if name.endswith(b"^{}"):
            rows.setdefault(name[:-3], []).append(b"^" + object_name + b"\n")
        elif name.startswith(b"refs/"):
            rows.setdefault(name, []).insert(0, object_name + b" " + name + b"\n")
    for name in sorted(rows):
        lines += rows[name]
    return b"".join(lines)


def _config(listing: bytes, layout: Layout) -> bytes:
    """The settings of the allow list, and what each branch tracks; no address of a remote."""
    sections: dict[str, dict[str, str]] = {"core": {}}
    for record in listing.decode("utf-8", "surrogateescape").split("\0"):
        name, separator, value = record.partition("\n")
        section, _, key = name.rpartition(".")
        kind, _, subsection = section.partition(".")
        if name in _CONFIG or (subsection and f"{kind}.*.{key}" in _CONFIG_OF_EACH):
            heading = f'{kind} "{_escaped(subsection)}"' if subsection else kind
            sections.setdefault(heading, {})[key] = value if separator else "true"
    sections["core"] |= {"bare": "false", "repositoryformatversion": str(int(layout.object_format != "sha1"))}
    if layout.object_format != "sha1":
        sections["extensions"] = {"objectformat": layout.object_format}
    lines = []
    for heading, values in sorted(sections.items()):
        lines += [f"[{heading}]", *(f"\t{key} = {_quoted(value)}" for key, value in sorted(values.items()))]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _exclude(scope: str, layout: Layout, user: str) -> bytes:
    """What the user ignores outside the tree: a task has a home of its own and would not see it."""
    paths = [
        os.path.join(scope, user or _default_excludes()),
        os.path.join(layout.common_dir, "info", "exclude"),
    ]
    contents = [_read(path) for path in paths]
    return b"".join(content.rstrip(b"\n") + b"\n" for content in contents if content) + _IGNORED_HERE


def _default_excludes() -> str:
    return os.path.join(_user_config(), "git", "ignore")


def _user_config() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")


def _copied(layout: Layout) -> dict[str, str]:
    shared = ("shallow", "info/attributes")
    return {
        name: os.path.join(layout.common_dir if name in shared else layout.git_dir, name) for name in _COPIED
    }


def _mark(scope: str, layout: Layout, state: GitState) -> _Mark | None:
    """Looks of all that a layer is read from; None while any of it is too young to be trusted."""
    started_ns = time.time_ns()
    paths = [
        os.path.join(layout.git_dir, "index"),
        os.path.join(layout.git_dir, "config.worktree"),
        os.path.join(layout.git_dir, "logs", "HEAD"),
        os.path.join(layout.common_dir, "config"),
        os.path.join(layout.common_dir, "info", "exclude"),
        os.path.join(layout.objects, "info", "alternates"),
        os.path.join(os.path.expanduser("~"), ".gitconfig"),
        os.path.join(_user_config(), "git", "config"),
        _default_excludes(),
        *_copied(layout).values(),
    ]
    try:
        looks = tuple((path, look_at(os.fsencode(path))) for path in paths)
    except OSError:
        return None
    settled = all(is_settled(look, read_from_ns=started_ns) for _, look in looks if look)
    return (state, looks) if settled else None


def _symbolic(out: bytes, listing: bytes) -> dict[str, bytes]:
    """Refs that name other refs, as files; only those that the listing has too."""
    rows = [line.split(b" ") for line in out.split(b"\n")]
    return {
        os.fsdecode(row[0]): b"ref: " + row[1] + b"\n"
        for row in rows
        if len(row) == 2 and row[1] and b" " + row[0] + b"\n" in listing
    }


def _head(state: GitState) -> bytes:
    if state.branch is not None:
        return b"ref: refs/heads/" + state.branch.encode("utf-8", "surrogateescape") + b"\n"
    return (state.head or "ref: refs/heads/main").encode() + b"\n"


def _alternates(layout: Layout) -> bytes:
    lines = ["../glideslope-objects", *_further_alternates(layout.objects, {layout.objects})]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _further_alternates(objects: str, seen: set[str]) -> Iterator[str]:
    """Object stores that the user's store itself borrows from, as absolute paths."""
    content = _read(os.path.join(objects, "info", "alternates")) or b""
    for line in content.decode("utf-8", "surrogateescape").splitlines():
        if line and not line.startswith("#"):
            path = os.path.realpath(os.path.join(objects, line))
            if path not in seen:
                seen.add(path)
                yield path
                yield from _further_alternates(path, seen)


def _quoted(value: str) -> str:
    plain = _escaped(value).replace("\n", "\\n").replace("\t", "\\t")
    return f'"{plain}"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
