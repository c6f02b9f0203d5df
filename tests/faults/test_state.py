"""A state folder that is missing, foreign, read-only, full, or owned by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glideslope.adapters.lock import Owner, StateLock, read_owner
from glideslope.adapters.state import StateFolder
from glideslope.errors import EngineBusy, InvalidInput, StateUnavailable
from glideslope_fast.place import SOCKET_PATH_BYTES, socket_path, state_dir

US = Owner(pid=os.getpid(), version="1", socket="/run/x.sock")


def test_the_state_folder_is_where_the_environment_says() -> None:
    assert state_dir({"GLIDESLOPE_STATE_DIR": "/srv/state/../gs", "XDG_STATE_HOME": "/x"}) == "/srv/gs"
    assert state_dir({"XDG_STATE_HOME": "/srv/state", "HOME": "/home/ann"}) == "/srv/state/glideslope"
    assert (
        state_dir({"XDG_STATE_HOME": "not/absolute", "HOME": "/srv/ann"})
        == "/srv/ann/.local/state/glideslope"
    )


def test_the_socket_lies_in_a_private_folder_and_fits_whatever_the_environment(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    own = f"glideslope-{os.geteuid()}"
    places = [
        socket_path("/srv/state", {"XDG_RUNTIME_DIR": "/run", "TMPDIR": "/tmp"}),
        socket_path("/srv/state", {"XDG_RUNTIME_DIR": str(deep), "TMPDIR": "/var/tmp"}),
        socket_path("/srv/state", {"XDG_RUNTIME_DIR": "/no/such/folder", "TMPDIR": str(deep)}),
    ]

    assert [os.path.dirname(place) for place in places] == [
        "/run/glideslope",
        f"/var/tmp/{own}",
        f"/tmp/{own}",
    ]
    assert len({os.path.basename(place) for place in places}) == 1
    assert all(len(place) <= SOCKET_PATH_BYTES for place in places)
    assert socket_path("/srv/other", {}) != socket_path("/srv/state", {})


def test_a_missing_folder_is_made_for_its_user_only(tmp_path: Path) -> None:
    folder = StateFolder.open(str(tmp_path / "a" / "b"))

    assert os.stat(folder.root).st_mode & 0o777 == 0o700
    assert os.path.isdir(folder.logs)


def test_a_folder_that_others_could_enter_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)

    assert os.stat(StateFolder.open(str(tmp_path / "state")).root).st_mode & 0o777 == 0o700


def test_a_folder_with_other_things_in_it_is_not_taken_over(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(InvalidInput, match=r"thesis\.tex"):
        StateFolder.open(str(tmp_path))
    assert os.stat(tmp_path).st_mode & 0o777 == 0o755


def test_a_folder_where_a_file_stands_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "state").touch()

    for path in (tmp_path / "state", tmp_path / "state" / "below"):
        with pytest.raises(StateUnavailable, match=r"not a folder.*GLIDESLOPE_STATE_DIR") as caught:
            StateFolder.open(str(path))
        assert caught.value.next is None  # there is nothing to prune


def test_a_workspace_and_the_state_folder_must_not_lie_in_one_another(tmp_path: Path) -> None:
    folder = StateFolder.open(str(tmp_path / "state"))

    folder.require_apart(str(tmp_path / "state-of-the-art"))
    for scope in (tmp_path, tmp_path / "state", tmp_path / "state" / "trees" / "1", Path("/")):
        with pytest.raises(InvalidInput, match="GLIDESLOPE_STATE_DIR"):
            folder.require_apart(str(scope))


def test_too_little_free_space_is_said_before_anything_starts(tmp_path: Path) -> None:
    folder = StateFolder.open(str(tmp_path / "state"))

    folder.require_space(at_least_bytes=1)
    with pytest.raises(StateUnavailable, match="prune"):
        folder.require_space(at_least_bytes=1 << 60)


def test_the_lock_has_one_owner_and_says_who(tmp_path: Path) -> None:
    lock = StateLock.acquire(str(tmp_path), US)
    with pytest.raises(EngineBusy) as busy:
        StateLock.acquire(str(tmp_path), Owner(pid=1, version="2"))

    assert busy.value.fields["pid"] == os.getpid()
    assert str(os.getpid()) in str(busy.value)
    assert read_owner(str(tmp_path)) == US
    lock.release()
    lock.release()
    StateLock.acquire(str(tmp_path), US).release()


@pytest.mark.process
def test_the_lock_ends_with_its_owner_and_not_with_the_owners_children(tmp_path: Path) -> None:
    program = """
import subprocess, sys
from glideslope.adapters.lock import Owner, StateLock
lock = StateLock.acquire(sys.argv[1], Owner(pid=1, version="1"))
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        with pytest.raises(EngineBusy):
            StateLock.acquire(str(tmp_path), US)
        owner.kill()
        owner.wait()
    try:
        StateLock.acquire(str(tmp_path), US).release()
    finally:
        os.kill(child, 9)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[]", b'{"pid": 1}', b"\xff"])
def test_a_lock_file_that_says_nothing_useful_is_still_a_lock(tmp_path: Path, content: bytes) -> None:
    lock = StateLock.acquire(str(tmp_path), US)
    (tmp_path / "lock").write_bytes(content)

    assert read_owner(str(tmp_path)) is None
    with pytest.raises(EngineBusy, match="another process"):
        StateLock.acquire(str(tmp_path), US)
    lock.release()


# --- on a disk of its own --------------------------------------------------------------------

# Runs a program in a mount namespace where /mnt is a small disk; prints the error's code.
IN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
OPEN = """
import sys
from glideslope.adapters.clock import SystemClock
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.lock import Owner, StateLock
from glideslope.adapters.state import StateFolder
from glideslope.errors import GlideslopeError
from glideslope.model.event import HostDied

def append(journal, bytes):
    return journal.append(HostDied(host_kind="tool", pid=1, stderr_tail="x" * bytes), scope=None).seq
"""


def on_a_small_disk(mount: str, program: str) -> str:
    script = f'{mount} && exec "$0" -c "$1"'
    done = subprocess.run(
        [*IN_NAMESPACE, script, sys.executable, OPEN + program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.process
def test_a_read_only_disk_is_state_unavailable_with_a_way_out() -> None:
    mount = "mount -t tmpfs none /mnt && mkdir -m 700 /mnt/state && mount -o remount,ro /mnt"
    program = """
for attempt in (
    lambda: StateFolder.open("/mnt/state"),
    lambda: StateLock.acquire("/mnt/state", Owner(pid=1, version="1")),
    lambda: SqliteJournal("/mnt/state/journal.sqlite3", SystemClock()),
):
    try:
        attempt()
    except GlideslopeError as error:
        print(error.code, "GLIDESLOPE_STATE_DIR" in str(error))
"""
    assert on_a_small_disk(mount, program) == "\n".join(["state_unavailable True"] * 3)


@pytest.mark.process
def test_a_full_disk_is_state_unavailable_and_the_journal_goes_on_without_a_gap() -> None:
    program = """
import os
journal = SqliteJournal("/mnt/journal.sqlite3", SystemClock())
seqs, full = [], ""
try:
    while len(seqs) < 10000:
        seqs.append(append(journal, 4000))
except GlideslopeError as error:
    full = error.code
os.unlink("/mnt/ballast")
seqs.append(append(journal, 10))
print(full, seqs == list(range(1, len(seqs) + 1)), [e.seq for e in journal.read(after=0, limit=99999)] == seqs)
"""
    mount = "mount -t tmpfs -o size=1m none /mnt && head -c 300000 /dev/zero > /mnt/ballast"
    assert on_a_small_disk(mount, program) == "state_unavailable True True"


@pytest.mark.process
def test_a_kill_at_any_moment_loses_no_event_that_was_shown(tmp_path: Path) -> None:
    program = (
        OPEN
        + """
journal = SqliteJournal(sys.argv[1], SystemClock())
while True:
    print(append(journal, 100), flush=True)
"""
    )
    path, shown = str(tmp_path / "journal.sqlite3"), 0
    for lines in (1, 17, 100, 256, 999):
        writer = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
        with writer:
            assert writer.stdout is not None
            numbers = [int(writer.stdout.readline()) for _ in range(lines)]
            writer.kill()
            numbers += [int(line) for line in writer.stdout if line.endswith("\n")]
        assert numbers == list(range(shown + 1, shown + 1 + len(numbers)))
        shown = last_number(path, numbers[-1])


def last_number(path: str, at_least: int) -> int:
    """The newest number in the journal, after checking that every one up to it is there."""
    from glideslope.adapters.clock import SystemClock
    from glideslope.adapters.journal import SqliteJournal

    journal = SqliteJournal(path, SystemClock())
    numbers = [each.seq for each in journal.read(after=0, limit=100_000)]
    journal.close()
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= at_least
    return len(numbers)
