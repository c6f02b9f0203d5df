"""What code under test cannot reach, however hard it tries."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from tests.acceptance.desk import Repo, answered_by

from glideslope_fast.place import socket_path

pytestmark = pytest.mark.process

PRELUDE = """import contextlib
import errno
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

STATE = {state!r}
SOCKET = {socket!r}
DAEMON = {daemon!r}
PORT = {port!r}
ROOT = Path({root!r})
OUTSIDE = Path({outside!r})


def unwritable(path):
    with pytest.raises(OSError):
        Path(path).write_text("written by a test")
"""

REACH = (
    PRELUDE
    + """

def test_it_runs_at_the_real_path():
    assert Path(__file__).parent == ROOT == Path.cwd()


def test_the_daemon_does_not_answer():
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as peer, pytest.raises(OSError):
        peer.connect(SOCKET)
    with pytest.raises(ProcessLookupError):
        os.kill(DAEMON, signal.SIGTERM)


def test_the_state_folder_is_empty_to_it():
    assert not os.path.exists(STATE) or not os.listdir(STATE)
    assert not os.path.exists(SOCKET)
    shown = Path("/proc/self/mountinfo").read_text()
    for line in shown.splitlines():
        target = line.split()[4]
        assert not (target.startswith(STATE + "/") and os.listdir(target)), target


def test_ignored_files_of_the_real_tree_are_not_there():
    assert (ROOT / "tiny.py").exists()
    assert not (ROOT / "ignored.log").exists()


def test_what_it_writes_into_the_tree_stays_with_it():
    (ROOT / "tiny.py").write_text("broken(")
    (ROOT / "written.txt").write_text("by a test")
    assert (ROOT / "written.txt").exists()


def test_files_outside_stay_as_they_are():
    for path in ("/etc/glideslope-test", "/usr/glideslope-test", "/glideslope-test"):
        unwritable(path)
    with pytest.raises(OSError), open("/etc/passwd", "a"):
        pass
    with contextlib.suppress(OSError):
        (OUTSIDE / "written.txt").write_text("by a test")
    with contextlib.suppress(OSError):
        Path(sys.prefix, "glideslope-test").write_text("by a test")


def test_the_temporary_folder_and_home_are_its_own():
    Path("/tmp/glideslope-test").write_text("by a test")
    home = Path.home()
    (home / "glideslope-test").write_text("by a test")
    assert home != Path({home!r})
    assert not (OUTSIDE / "secret.txt").exists()


def test_the_network_ends_at_its_own_loopback():
    with pytest.raises(OSError) as seen, socket.create_connection(("192.0.2.1", 80), timeout=5):
        pass
    assert seen.value.errno == errno.ENETUNREACH
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", PORT), timeout=5):
        pass
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_it_sees_no_other_processes():
    commands = [
        Path("/proc", name, "cmdline").read_bytes() for name in os.listdir("/proc") if name.isdigit()
    ]
    assert not any(b"daemon" in command for command in commands)
    assert len(commands) < 10


def test_it_has_no_power_to_mount():
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.umount2(os.fsencode(str(ROOT)), 2) == -1
    assert libc.mount(b"tmpfs", os.fsencode(str(ROOT)), b"tmpfs", 0, None) == -1
"""
)

LATER = (
    PRELUDE
    + """

def test_a_later_edit_is_not_seen():
    before = (ROOT / "tiny.py").read_text()
    until = time.monotonic() + 4
    while time.monotonic() < until:
        assert not (ROOT / "later.log").exists()
        assert (ROOT / "tiny.py").read_text() == before
        time.sleep(0.01)
"""
)


def filled(repo: Repo, text: str, *, port: int = 1) -> str:
    status = repo.call("status").data
    return text.format(
        state=os.path.realpath(repo.desk.state),
        socket=socket_path(os.path.realpath(repo.desk.state), repo.desk.environ),
        daemon=status["daemon"]["pid"],
        port=port,
        root=str(repo.root),
        outside=str(repo.root.parent),
        home=repo.desk.environ["HOME"],
    )


@pytest.mark.parametrize("tier", ["snapshot", "copy"])
def test_a_task_reaches_neither_daemon_nor_state_nor_tree_nor_network(repo: Repo, tier: str) -> None:
    (repo.root.parent / "secret.txt").write_text("of somebody else")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        repo.commit(
            {
                "glideslope.toml": f'[agent.environment]\nisolation = "{tier}"\n',
                ".gitignore": "*.log\n",
                "test_reach.py": filled(repo, REACH, port=port),
            }
        )
        repo.write({"ignored.log": "noise"})
        before = (repo.root / "tiny.py").read_text()

        answer = repo.verify().expect("green")

    assert answer.data["isolation"] == tier
    assert answer.rung("test.scoped")["tests"]["passed"] == 11
    assert (repo.root / "tiny.py").read_text() == before
    for place in (repo.root, repo.root.parent, Path("/tmp"), Path.home(), Path(sys.prefix)):
        assert not (place / "written.txt").exists()
        assert not (place / "glideslope-test").exists()
    assert repo.git("status", "--porcelain") == ""


def test_a_task_does_not_see_a_later_edit(repo: Repo) -> None:
    repo.commit({".gitignore": "*.log\n", "test_later.py": filled(repo, LATER)})
    waiting = repo.start_verify()
    run = repo.wait_running("test_later.py")
    repo.write({"later.log": "an ignored file, so the run goes on"})
    assert [active["run_id"] for active in repo.call("status").data["active"]] == [run]

    assert answered_by(waiting).expect("green").rung("test.scoped")["tests"]["passed"] == 2


def test_git_works_inside_a_task_and_leaves_the_real_repository_alone(repo: Repo) -> None:
    repo.commit(
        {
            "test_git.py": """import subprocess


def git(*arguments):
    argv = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments)
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_git():
    assert git("status", "--porcelain") == ""
    head = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "by a test")
    git("tag", "by-a-test")
    assert git("rev-parse", "HEAD~1") == head
"""
        }
    )
    head = repo.git("rev-parse", "HEAD")

    repo.verify().expect("green")

    assert repo.git("rev-parse", "HEAD") == head
    assert repo.git("tag") == ""
