"""What a command sees of the machine, and what the machine sees of a command."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from glideslope.adapters.environments.cow import CowEnvironment, SnapshotView
from glideslope.adapters.environments.launch import BOOT, Launcher
from glideslope.adapters.environments.probe import probe_sandbox
from glideslope.errors import InvalidInput, ProfileRefused
from glideslope.model.sandbox import (
    Bind,
    ExecOutcome,
    ExecResult,
    ExecSpec,
    Isolation,
    NetworkAccess,
    ResourceLimits,
)
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import ExecWatch

pytestmark = [pytest.mark.anyio, pytest.mark.process]

TOKEN = "GLIDESLOPE_TEST_TOKEN"


class Project:
    """A project on disk, another content of it as its snapshot, and a way to run commands."""

    def __init__(self, folder: Path, launcher: Launcher, isolation: Isolation) -> None:
        self.folder = folder
        self.root = folder / "project"
        self.state = folder / "state"
        self.tree = self.state / "tree"
        self.launcher = launcher
        self.isolation = isolation
        self.profile = SandboxProfile.AGENT_EPHEMERAL
        for content in (self.root, self.tree):
            content.mkdir(parents=True)
        self.view = SnapshotView(root=str(self.root), tree=str(self.tree), hidden=(str(self.state),))

    async def run(self, script: str, **fields: object) -> ExecResult:
        """Runs a shell script on the snapshot."""
        return await self.exec("sh", "-c", script, **fields)

    async def exec(self, *argv: str, **fields: object) -> ExecResult:
        """Runs a command on the snapshot."""
        environment = CowEnvironment(
            view=self.view, profile=self.profile, launcher=self.launcher, isolation=self.isolation
        )
        env = {"PATH": os.environ["PATH"], TOKEN: os.environ.get(TOKEN, "")}
        return await environment.exec(ExecSpec(argv=argv, env=env, **fields))  # type: ignore[arg-type]

    async def says(self, script: str, **fields: object) -> str:
        """What a script prints; it must succeed."""
        result = await self.run(script, **fields)
        assert (result.outcome, result.code) == (ExecOutcome.EXITED, 0), result
        return result.stdout.complete.decode()


@pytest.fixture(params=["snapshot", "copy"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return Isolation(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Outside the folders that commands have of their own."""
    parents = [Path("/var/lib"), Path.home(), Path("/opt"), Path.cwd()]
    private = ("/tmp/", "/var/tmp/", "/dev/shm/")
    fit = [path for path in parents if os.access(path, os.W_OK) and not f"{path}/".startswith(private)]
    if not fit:
        pytest.skip(f"none of {parents} can be written and lies outside {private}")
    path = fit[0] / f"glideslope-test-{uuid.uuid4().hex}"
    path.mkdir()
    yield Path(os.path.realpath(path))
    shutil.rmtree(path)


# What our own programs need, wherever this checkout lies.
OURSELVES = tuple(
    {os.path.dirname(os.path.dirname(BOOT)), sys.prefix, sys.base_prefix, *filter(os.path.isdir, sys.path)}
)


@pytest.fixture
async def launcher(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Launcher]:
    monkeypatch.setenv(TOKEN, uuid.uuid4().hex)
    launcher = Launcher("sandbox")
    yield launcher
    await launcher.stop()


@pytest.fixture
async def project(folder: Path, launcher: Launcher, isolation: Isolation) -> Project:
    probe = await probe_sandbox(str(folder))
    if probe.isolation is Isolation.LIVE or (
        isolation is Isolation.SNAPSHOT and probe.isolation is not Isolation.SNAPSHOT
    ):
        pytest.skip(f"no tier {isolation} on this machine: {dict(probe.missing)}")
    return Project(folder, launcher, isolation)


# --- the tree -----------------------------------------------------------------------------


async def test_a_command_reads_the_snapshot_by_every_path(project: Project) -> None:
    (project.root / "a").write_text("live")
    (project.tree / "a").write_text("snapshot")
    assert await project.says(f"cat a '{project.root}/a' ../project/a") == "snapshot" * 3


async def test_what_a_command_writes_is_told_and_vanishes(project: Project) -> None:
    for name in ("changed", "removed", "same", "folder/inside", "gone/one", "gone/two", "replaced/old"):
        (project.tree / name).parent.mkdir(exist_ok=True)
        (project.tree / name).write_text(name)
    (project.tree / "mode").write_text("")
    script = """
    echo new > 'ünew file'; echo other > changed; rm removed; rm -r gone; chmod 755 mode
    touch same; cat same > /tmp/x; cat /tmp/x > same
    rm -r replaced; mkdir replaced; echo n > replaced/new; mkdir -p deep/er empty; echo d > deep/er/file
    """
    result = await project.run(script)
    assert result.changes is not None
    assert result.changes.created == ("deep/er/file", "empty", "replaced/new", "ünew file")
    assert result.changes.modified == ("changed", "mode")
    gone = {path for path in result.changes.deleted if not path.startswith("gone/")}
    assert gone == {"gone", "removed", "replaced/old"}
    assert await project.says("ls; cat changed") == await project.says("ls; cat changed")
    assert sorted(path.name for path in project.tree.iterdir()) == [
        "changed",
        "folder",
        "gone",
        "mode",
        "removed",
        "replaced",
        "same",
    ]
    assert list(project.root.iterdir()) == []


async def test_a_command_that_writes_nothing_changes_nothing(project: Project) -> None:
    (project.tree / "a").write_text("a")
    (project.root / ".venv").mkdir()
    project.view = replace(project.view, carry=(".venv",))
    result = await project.run("cat a; touch a")
    assert result.changes is not None
    assert (result.changes.paths, result.changes.count) == ((), 0)


async def test_a_file_replaced_in_the_tree_between_two_commands_is_seen_new(project: Project) -> None:
    (project.tree / "a").write_text("old")
    assert await project.says("cat a") == "old"
    (project.tree / "next").write_text("new")
    (project.tree / "next").rename(project.tree / "a")
    assert await project.says("cat a") == "new"


async def test_the_git_layer_lies_over_the_tree(project: Project) -> None:
    layer = project.state / "git"
    (layer / ".git").mkdir(parents=True)
    (layer / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project.tree / "a").write_text("a")
    store = project.folder / "objects"
    store.mkdir()
    (store / "pack").write_text("packed")
    bind = Bind(source=str(store), target=f"{project.root}/.git/outer-objects")
    project.view = replace(project.view, git_layer=str(layer), binds=(bind,))
    said = await project.says("cat .git/HEAD a .git/outer-objects/pack; echo x > .git/index; ls .git")
    assert said == "ref: refs/heads/main\napackedHEAD\nindex\nouter-objects\n"
    assert (await project.run("echo x >> .git/outer-objects/pack")).code != 0
    assert [path.name for path in (layer / ".git").iterdir()] == ["HEAD"]


async def test_a_carried_folder_is_seen_and_cannot_be_written(project: Project) -> None:
    (project.root / ".venv" / "bin").mkdir(parents=True)
    (project.root / ".venv" / "bin" / "tool").write_text("tool")
    project.view = replace(project.view, carry=(".venv", "node_modules"))
    assert await project.says("cat .venv/bin/tool; ls -A") == "tool.venv\n"
    for attempt in (
        "echo x > .venv/new",
        "echo x >> .venv/bin/tool",
        "rm .venv/bin/tool",
        "chmod 777 .venv/bin/tool",
    ):
        result = await project.run(attempt)
        assert result.code != 0
        assert b"Read-only file system" in result.stderr.complete
    assert (project.root / ".venv" / "bin" / "tool").read_text() == "tool"


async def test_a_carried_link_stays_a_link_where_it_leads_outside(project: Project, tmp_path: Path) -> None:
    inside, outside = project.root / "environments" / "main", Path(os.path.realpath(tmp_path)) / "venv"
    for target in (inside, outside):
        target.mkdir(parents=True)
        (target / "tool").write_text(target.name)
    (project.root / ".venv").symlink_to("environments/main")
    (project.root / "venv").symlink_to(outside)
    (project.root / "node_modules").symlink_to("nowhere")
    project.view = replace(project.view, carry=(".venv", "venv", "node_modules"))
    said = await project.says("cat .venv/tool venv/tool; readlink venv; readlink .venv || echo folder")
    assert said == f"mainvenv{outside}\nfolder\n"
    assert (await project.run("echo x > venv/new")).code != 0


@pytest.mark.parametrize("way", ["a link into it", "a folder below a link", "a link to what is around it"])
async def test_nothing_carried_shows_what_is_hidden(project: Project, way: str) -> None:
    (project.state / "logs").mkdir()
    (project.state / "logs" / "secret").write_text("secret")
    carried = {"a link into it": "venv", "a folder below a link": "kept/logs"}.get(way, "venv")
    link = project.root / carried.partition("/")[0]
    link.symlink_to({"a link into it": project.state / "logs"}.get(way, project.state))
    if way == "a link to what is around it":
        link.unlink()
        link.symlink_to(project.folder)
    project.view = replace(project.view, carry=(carried,))
    said = await project.says(f"find -L '{project.root}' '{project.state}' -name secret 2>&1 || true")
    assert "secret" not in said
    assert (await project.run(f"cat '{project.state}/logs/secret' {carried}/secret")).code != 0


async def test_what_shows_the_hidden_at_another_path_is_not_made_visible(
    project: Project, tmp_path: Path
) -> None:
    (project.state / "secret").write_text("secret")
    with closing_folder(Path("/tmp")) as folder:
        (folder / "alias").symlink_to(project.folder)
        (folder / "inside").symlink_to(project.state)
        project.view = replace(project.view, visible=(str(folder / "alias"), str(folder / "inside")))
        said = await project.says(f"cat {folder}/alias/state/secret {folder}/inside/secret 2>&1 || true")
    assert said.count("No such file") == 2


async def test_a_bind_that_shows_the_hidden_runs_nothing(project: Project) -> None:
    target = str(project.root / "objects")
    project.view = replace(project.view, binds=(Bind(source=str(project.state), target=target),))
    result = await project.run("true")
    assert (result.outcome, "no task may see" in result.reason) == (ExecOutcome.INFRASTRUCTURE, True)


async def test_a_link_in_the_snapshot_is_not_mounted_through(project: Project) -> None:
    (project.root / "node_modules").mkdir()
    (project.tree / "node_modules").symlink_to("/etc")
    project.view = replace(project.view, carry=("node_modules",))
    result = await project.run("readlink node_modules; test -e /etc/passwd")
    assert (result.code, result.stdout.complete) == (0, b"/etc\n")
    assert any("node_modules" in note for note in result.sandbox.notes)


async def test_a_large_file_is_bound_read_only_at_its_place(project: Project) -> None:
    (project.root / "data").mkdir()
    (project.root / "data" / "big.bin").write_text("big")
    path = str(project.root / "data" / "big.bin")
    project.view = replace(project.view, binds=(Bind(source=path, target=path),))
    result = await project.run("cat data/big.bin; echo x > data/big.bin")
    assert (result.code != 0, result.stdout.complete) == (True, b"big")
    assert result.changes is not None
    assert result.changes.paths == ()


async def test_what_must_be_visible_never_replaces_what_the_snapshot_has(project: Project) -> None:
    for content, word in ((project.root, "live"), (project.tree, "snapshot")):
        (content / "worker").mkdir()
        (content / "worker" / "program").write_text(word)
    (project.root / "environment").mkdir()
    (project.root / "environment" / "tool").write_text("tool")
    shown = (str(project.root / "worker"), str(project.root / "environment"))
    project.view = replace(project.view, visible=shown)
    assert await project.says("cat worker/program environment/tool") == "snapshottool"
    assert (await project.run("echo x > environment/new")).code != 0


async def test_a_hidden_folder_of_temporary_files_is_still_a_private_one(project: Project) -> None:
    project.view = replace(project.view, hidden=("/tmp",))
    assert await project.says("echo x > /tmp/f; ls /tmp") == "data\nf\nhome\n"


async def test_a_project_below_tmp_is_seen_and_its_neighbours_are_not(
    launcher: Launcher, isolation: Isolation
) -> None:
    with closing_folder(Path("/tmp")) as folder:
        project = Project(folder, launcher, isolation)
        (project.tree / "a").write_text("snapshot")
        (folder / "secret").write_text("")
        (folder / "python").mkdir()
        (folder / "python" / "tool").write_text("tool")
        project.view = replace(project.view, visible=(str(folder / "python"),))
        said = await project.says(f"cat a {folder}/python/tool; ls {folder}; ls /tmp | grep -v glideslope")
        assert said == "snapshottoolproject\npython\ndata\nhome\n"
        assert (await project.run(f"echo x > {folder}/python/new")).code != 0


class closing_folder:
    """A folder for the time of a block."""

    def __init__(self, parent: Path) -> None:
        self._path = parent / f"glideslope-test-{uuid.uuid4().hex}"

    def __enter__(self) -> Path:
        self._path.mkdir()
        return Path(os.path.realpath(self._path))

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


# --- the rest of the machine --------------------------------------------------------------


async def test_the_rest_of_the_machine_can_be_read_and_not_written(project: Project) -> None:
    outside = project.folder / "outside"
    outside.write_text("outside")
    assert await project.says(f"cat '{outside}'") == "outside"
    for path in (
        str(outside),
        "/etc/glideslope-test",
        "/glideslope-test",
        os.path.expanduser("~/glideslope-test"),
    ):
        result = await project.run(f"echo x > '{path}'")
        assert result.code != 0
        assert b"Read-only file system" in result.stderr.complete or b"denied" in result.stderr.complete
    assert outside.read_text() == "outside"


async def test_an_operator_may_write_outside_but_not_into_the_project(project: Project) -> None:
    project.profile = SandboxProfile.OPERATOR
    result = await project.run(f"echo x > '{project.folder}/outside'; echo x > inside")
    assert (result.code, result.sandbox.read_only_outside) == (0, False)
    assert (project.folder / "outside").read_text() == "x\n"
    assert list(project.root.iterdir()) == []


async def test_mount_points_are_never_made_on_the_machine_itself(project: Project) -> None:
    project.profile = SandboxProfile.OPERATOR
    bind = Bind(source=str(project.tree), target=f"{project.folder}/not/there")
    project.view = replace(project.view, binds=(bind,))
    result = await project.run("true")
    assert result.outcome is ExecOutcome.INFRASTRUCTURE
    assert not (project.folder / "not").exists()


async def test_state_is_hidden_and_its_sockets_are_out_of_reach(project: Project) -> None:
    (project.state / "secret").write_text("secret")
    with (
        socket.socket(socket.AF_UNIX) as in_state,
        socket.socket(socket.AF_UNIX) as in_runtime,
        socket.socket(socket.AF_UNIX) as abstract,
        closing(socket.create_server(("127.0.0.1", 0))) as tcp,
    ):
        in_state.bind(str(project.state / "s"))
        in_runtime.bind(str(project.folder / "r"))
        abstract.bind("\0" + project.folder.name)
        for listener in (in_state, in_runtime, abstract):
            listener.listen()
        project.view = replace(project.view, hidden=(str(project.state), str(project.folder / "r")))
        assert (
            await project.says(f"ls -A '{project.state}'; test -s '{project.folder}/r' || echo covered")
            == "covered\n"
        )
        assert (await project.run(f"echo x > '{project.state}/new'")).code != 0
        attempts = (
            f"socket.socket(socket.AF_UNIX).connect({str(project.state / 's')!r})",
            f"socket.socket(socket.AF_UNIX).connect({str(project.folder / 'r')!r})",
            f"socket.socket(socket.AF_UNIX).connect('\\0' + {project.folder.name!r})",
            f"socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), 5)",
        )
        for attempt in attempts:
            result = await project.exec("/usr/bin/python3", "-I", "-S", "-c", f"import socket; {attempt}")
            assert result.code == 1, attempt
            assert b"Error" in result.stderr.complete


async def test_the_live_tree_is_not_reached_through_any_process(project: Project) -> None:
    (project.root / "secret").write_text("live")
    script = "for p in /proc/[0-9]*; do cat $p/root/$0/secret $p/cwd/secret 2>/dev/null; done; ls -d /proc/[0-9]* | wc -l"
    result = await project.exec("sh", "-c", script, str(project.root))
    assert b"live" not in result.stdout.complete
    assert int(result.stdout.complete) <= 6  # init, the shell, and its pipeline


async def test_a_command_can_talk_to_itself_over_the_loopback(project: Project) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 8000));"
        "c = socket.create_connection(('127.0.0.1', 8000)); a = s.accept()[0]; a.send(b'hi'); print(c.recv(2))"
    )
    result = await project.exec("/usr/bin/python3", "-I", "-S", "-c", script)
    assert result.stdout.complete == b"b'hi'\n"
    assert result.sandbox.network is NetworkAccess.LOOPBACK


async def test_the_network_is_as_wide_as_asked(project: Project) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        host = await project.exec("/usr/bin/python3", "-I", "-c", script, network=NetworkAccess.HOST)
        none = await project.exec("/usr/bin/python3", "-I", "-c", script, network=NetworkAccess.NONE)
    assert (host.code, none.code) == (0, 1)
    assert b"Network is unreachable" in none.stderr.complete


async def test_a_command_has_folders_of_its_own(project: Project) -> None:
    mark = f"/dev/shm/glideslope-{uuid.uuid4().hex}"
    script = (
        f"echo x > /tmp/home/f; echo x > /tmp/data/f; echo x > /var/tmp/f; echo x > {mark}; ls /tmp /var/tmp"
    )
    assert await project.says(script) == "/tmp:\ndata\nhome\n\n/var/tmp:\nf\n"
    assert await project.says(f"ls /tmp/home /var/tmp; test ! -e {mark}") == "/tmp/home:\n\n/var/tmp:\n"
    assert not os.path.exists(mark)


async def test_root_reaches_no_raw_disk_and_no_kernel_setting(project: Project) -> None:
    script = """
    find /dev/ -type b | wc -l
    for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/drop_caches; do
        (echo 0 > $f) 2>/dev/null && echo wrote $f
    done; true
    """
    said = await project.says(script)
    assert "wrote" not in said
    if os.getuid() == 0:
        assert said == "0\n"


async def test_the_fences_cannot_be_taken_down_from_inside(project: Project) -> None:
    (project.root / "a").write_text("live")
    script = f"""
    umount '{project.root}' && echo umounted; umount -l /tmp && echo umounted
    mount -o remount,rw / && echo remounted
    unshare -Urm sh -c 'umount -l "{project.root}" && cat "{project.root}/a"; mount -o remount,rw,bind / && echo x > /etc/glideslope-test'
    unshare -m sh -c 'umount -l "{project.root}" && cat "{project.root}/a"; mount -o remount,rw,bind / && echo x > /etc/glideslope-test'
    true
    """
    result = await project.run(script)
    assert result.stdout.complete == b""
    assert not os.path.exists("/etc/glideslope-test")


async def test_the_command_keeps_the_identity_of_the_operator(project: Project) -> None:
    said = await project.says("id -u; id -g; echo x > f; stat -c %u f")
    assert said == f"{os.getuid()}\n{os.getgid()}\n{os.getuid()}\n"


async def test_limits_of_the_kernel_are_set(project: Project) -> None:
    limits = ResourceLimits(file_size_bytes=1024 * 1024)
    result = await project.run("ulimit -c; ulimit -f", limits=limits)
    core, blocks = result.stdout.complete.split()
    assert (core, int(blocks)) == (b"0", 2048)
    assert result.sandbox.limits == ("file_size_bytes",)


async def test_the_report_says_what_was_enforced(project: Project, isolation: Isolation) -> None:
    report = (await project.run("true")).sandbox
    assert (report.isolation, report.profile) == (isolation, SandboxProfile.AGENT_EPHEMERAL)
    assert report.user_namespace and report.mount_namespace and report.pid_namespace
    assert report.read_only_outside and not report.landlock


# --- when it cannot be made ---------------------------------------------------------------


async def test_a_view_that_cannot_be_made_runs_nothing(project: Project) -> None:
    for broken in (
        replace(project.view, tree=f"{project.tree}/not-there"),
        replace(project.view, binds=(Bind(source=f"{project.tree}/not-there", target=f"{project.root}/x"),)),
        replace(project.view, root=f"{project.root}/not-there"),
    ):
        project.view = broken
        result = await project.run(f"echo ran > '{project.root}/ran'; echo ran > ran; echo ran")
        assert result.outcome is ExecOutcome.INFRASTRUCTURE
        assert "not-there" in result.reason
        assert result.stdout.total_bytes == 0
    assert list(project.root.iterdir()) == []


async def test_an_overlay_that_the_kernel_refuses_runs_nothing(folder: Path, launcher: Launcher) -> None:
    project = Project(folder, launcher, Isolation.SNAPSHOT)
    project.view = replace(project.view, tree="/")  # no lower layer, because other file systems hang below it
    result = await project.run("echo ran > ran")
    assert result.outcome is ExecOutcome.INFRASTRUCTURE
    assert "overlay" in result.reason
    assert list(project.root.iterdir()) == []


def test_profiles_without_an_environment_are_refused_with_the_reason(tmp_path: Path) -> None:
    view = SnapshotView(root=str(tmp_path), tree=str(tmp_path))
    for profile in (SandboxProfile.READ_ONLY, SandboxProfile.AGENT_WORKTREE):
        with pytest.raises(ProfileRefused, match=profile):
            CowEnvironment(view=view, profile=profile, launcher=Launcher("sandbox"))
    with pytest.raises(InvalidInput):
        CowEnvironment(view=view, profile=SandboxProfile.OPERATOR, launcher=Launcher("live"))


async def test_without_user_namespaces_the_probe_says_live_and_why(folder: Path) -> None:
    script = (
        f"echo 0 > /proc/sys/user/max_user_namespaces && '{sys.executable}' -I -S '{BOOT}' probe '{folder}'"
    )
    done = await anyio.run_process(["unshare", "-Ur", "sh", "-c", script], check=False)
    if done.returncode:
        pytest.skip(f"user namespaces cannot be switched off here: {done.stderr.decode()}")
    found = json.loads(done.stdout)
    assert found["tier"] == "live"
    assert "unshare user" in found["missing"]["user_namespace"]


async def test_a_lower_layer_that_cannot_be_overlaid_leaves_the_copy(folder: Path) -> None:
    probe = await probe_sandbox("/")
    assert probe.isolation in (Isolation.COPY, Isolation.LIVE)
    assert "overlay" in probe.missing


async def test_inside_a_sandbox_the_next_one_says_what_it_still_can(project: Project) -> None:
    project.view = replace(project.view, visible=OURSELVES)
    result = await project.exec(sys.executable, "-I", "-S", BOOT, "probe", str(project.root))
    found = json.loads(result.stdout.complete)
    assert found["tier"] in ("snapshot", "copy")
    assert set(found["missing"]) <= {"overlay", "private_proc"}
    assert all(found["missing"].values())


async def test_a_sandbox_inside_a_sandbox_runs_commands(project: Project) -> None:
    source = os.path.normpath(os.path.join(os.path.dirname(BOOT), "..", ".."))
    script = f"""
import asyncio, os, sys
sys.path[:0] = {[source, *sys.path]!r}
from glideslope.adapters.environments.cow import CowEnvironment, SnapshotView
from glideslope.adapters.environments.launch import Launcher
from glideslope.model.sandbox import ExecSpec, Isolation
from glideslope.model.settings import SandboxProfile
async def main():
    os.makedirs("/tmp/inner/root"); os.makedirs("/tmp/inner/tree")
    open("/tmp/inner/tree/a", "w").write("inner")
    launcher = Launcher("sandbox")
    view = SnapshotView(root="/tmp/inner/root", tree="/tmp/inner/tree")
    environment = CowEnvironment(
        view=view, profile=SandboxProfile.AGENT_EPHEMERAL, launcher=launcher, isolation=Isolation.COPY
    )
    spec = ExecSpec(argv=("sh", "-c", "cat a; sleep 600 & exit 3"), env={{"PATH": os.environ["PATH"]}})
    result = await environment.exec(spec)
    print(result.outcome, result.code, result.stdout.complete.decode(), result.survivors.left, result.reason)
    await launcher.stop()
asyncio.run(main())
"""
    project.view = replace(project.view, visible=OURSELVES)
    result = await project.exec(sys.executable, "-c", script)
    assert result.stdout.complete.decode().split() == ["exited", "3", "inner", "0"], result


# --- nothing stays ------------------------------------------------------------------------


def marked() -> list[int]:
    token = os.environ[TOKEN].encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int(entry.name) != os.getpid()
                and token in (entry / "environ").read_bytes()
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def tree_of(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        try:
            found += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        except OSError:
            continue
    return found


DAEMON = """
import asyncio, os, sys
from glideslope.adapters.environments.cow import CowEnvironment, SnapshotView
from glideslope.adapters.environments.launch import Launcher
from glideslope.model.sandbox import ExecSpec, Isolation
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import ExecWatch
async def main(root, tree):
    environment = CowEnvironment(
        view=SnapshotView(root=root, tree=tree),
        profile=SandboxProfile.AGENT_EPHEMERAL, launcher=Launcher("sandbox"),
        isolation=Isolation(sys.argv[3]),
    )
    script = "trap '' TERM; setsid sh -c '(setsid sleep 600 &) ; sleep 600' & echo up; sleep 600; true"
    watch = ExecWatch(on_output=lambda *_: print("up", flush=True))
    env = {"PATH": os.environ["PATH"], "GLIDESLOPE_TEST_TOKEN": os.environ["GLIDESLOPE_TEST_TOKEN"]}
    print((await environment.exec(ExecSpec(argv=("sh", "-c", script), env=env), watch=watch)).outcome, flush=True)
asyncio.run(main(*sys.argv[1:3]))
"""


@pytest.mark.parametrize("victim", ["daemon", "launcher", "host", "init"])
async def test_a_kill_anywhere_in_the_chain_leaves_no_process_and_no_mount(
    project: Project, victim: str
) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    source = os.path.normpath(os.path.join(os.path.dirname(BOOT), "..", ".."))
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(project.root), str(project.tree), project.isolation],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
    )
    with daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"up\n"
        chain = dict(zip(("daemon", "launcher", "host", "init"), tree_of(daemon.pid), strict=False))
        assert len(marked()) >= 6
        os.kill(chain[victim], signal.SIGKILL)
        if victim != "daemon":
            assert daemon.stdout.readline() == b"died\n"
            daemon.kill()
    with anyio.fail_after(30):
        while marked():
            await anyio.sleep(0.01)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert list(project.root.iterdir()) == []


async def test_a_killed_task_is_a_signalled_command(project: Project) -> None:
    heard = anyio.Event()
    environment = CowEnvironment(
        view=project.view, profile=project.profile, launcher=project.launcher, isolation=project.isolation
    )
    spec = ExecSpec(argv=("sh", "-c", "echo up; exec sleep 600"), env={"PATH": os.environ["PATH"]})
    running = asyncio.create_task(environment.exec(spec, watch=ExecWatch(on_output=lambda *_: heard.set())))
    await heard.wait()
    assert project.launcher.pid is not None
    os.kill(tree_of(project.launcher.pid)[3], signal.SIGKILL)
    result = await running
    assert (result.outcome, result.signal) == (ExecOutcome.SIGNALLED, signal.SIGKILL)


async def test_a_flood_of_output_costs_little_memory(project: Project) -> None:
    peak_before = peak_bytes()
    result = await project.run("yes glideslope | head -c 500000000", log_path=str(project.folder / "log"))
    assert result.stdout.total_bytes == 500_000_000
    assert (project.folder / "log").stat().st_size == result.stdout.logged_bytes == 32 * 1024 * 1024
    assert peak_bytes() - peak_before < 32 * 1024 * 1024


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def test_a_launcher_serves_a_loop_in_a_thread_of_its_own(project: Project) -> None:
    found: list[ExecResult] = []

    async def once() -> None:
        launcher = Launcher("sandbox")
        environment = CowEnvironment(
            view=project.view, profile=project.profile, launcher=launcher, isolation=project.isolation
        )
        found.append(await environment.exec(ExecSpec(argv=("true",), env={"PATH": os.environ["PATH"]})))
        await launcher.stop()

    thread = threading.Thread(target=lambda: asyncio.run(once()))
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    assert found[0].code == 0
