"""The daemon's process, its socket and its client, with real processes and real kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glideslope import codec
from glideslope.adapters.lock import Owner, StateLock, read_owner
from glideslope.adapters.state import StateFolder
from glideslope.engine.actions import LogPage, RunView, Started
from glideslope.errors import (
    EngineBusy,
    GlideslopeError,
    HostUnavailable,
    InternalError,
    InvalidInput,
    RequestError,
    StateUnavailable,
    UnknownId,
)
from glideslope.surfaces import client as client_module
from glideslope.surfaces.client import Client, connect, find, is_owned, wait_stopped
from glideslope_fast import VERSION
from glideslope_fast.launch import daemon_environment
from glideslope_fast.place import socket_path
from glideslope_fast.talk import Line

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
CALLER = {"folder": "/srv/shop"}
SOON_S = 20.0


class Place:
    """A state folder of its own, and the daemons that were started on it."""

    def __init__(self, folder: Path) -> None:
        self.state = str(folder / "state")
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "GLIDESLOPE_STATE_DIR": self.state,
        }
        self.socket = socket_path(self.state, self.environ)
        self.command = ("/usr/bin/env", f"PYTHONPATH={SRC}", sys.executable, str(HERE / "fake_daemon.py"))
        self.pids: set[int] = set()

    def connect(self, *options: str, **variables: str) -> Client:
        found = connect(
            self.state,
            command=(*self.command, *options),
            environ={**self.environ, **variables},
            timeout_s=SOON_S,
        )
        self.pids.add(found.daemon.pid)
        return found

    def log(self) -> str:
        return (Path(self.state) / "daemon.log").read_text()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    owner = read_owner(made.state)
    for pid in made.pids | ({owner.pid} if owner and is_owned(made.state) else set()):
        if alive(pid) and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not alive(pid))


def start(client: Client, *, tie: bool = False, **given: Any) -> Started:
    return codec.from_plain(Started, client.call("verify", {"caller": CALLER, **given}, tie=tie))


def view(client: Client, run: str) -> RunView:
    return codec.from_plain(RunView, client.call("run", {"run_id": run}))


# --- starting --------------------------------------------------------------------------------


def test_the_first_client_starts_the_daemon_and_the_next_finds_it(place: Place) -> None:
    assert find(place.state, environ=place.environ) is None
    with place.connect() as first, place.connect() as second:
        assert first.daemon.pid == second.daemon.pid != os.getpid()
        assert first.daemon.version == VERSION
        status = first.call("daemon.status")
        assert (status["pid"], status["busy"], status["connections"]) == (first.daemon.pid, False, 2)


def test_the_daemon_hangs_on_nothing_of_the_client(place: Place) -> None:
    with place.connect(VIRTUAL_ENV="/x", SECRET_TOKEN="y", GLIDESLOPE_TEST_TOKEN="z") as client:
        proc = Path(f"/proc/{client.daemon.pid}")
        status = (proc / "status").read_text()
        assert os.readlink(proc / "cwd") == "/"
        assert os.readlink(proc / "fd/0") == "/dev/null"
        assert os.readlink(proc / "fd/2") == f"{place.state}/daemon.log"
        assert f"\nPPid:\t{os.getpid()}\n" not in status
        assert os.getsid(client.daemon.pid) != os.getsid(0)
        variables = {line.partition(b"=")[0] for line in (proc / "environ").read_bytes().split(b"\0")}
        assert b"GLIDESLOPE_TEST_TOKEN" in variables
        assert not variables & {b"VIRTUAL_ENV", b"SECRET_TOKEN"}


def test_what_a_daemon_takes_over_is_nothing_of_a_project() -> None:
    kept = {"HOME", "PATH", "LC_ALL", "XDG_STATE_HOME", "GLIDESLOPE_STATE_DIR"}
    dropped = {
        "PYTHONPATH",
        "GIT_DIR",
        "VIRTUAL_ENV",
        "PYTEST_ADDOPTS",
        "AWS_SECRET_ACCESS_KEY",
        "GLIDESLOPE__AGENT__X",
    }

    assert set(daemon_environment(dict.fromkeys(kept | dropped, "x"))) == kept


def test_only_this_user_can_reach_the_socket(place: Place) -> None:
    with place.connect():
        assert os.stat(place.socket).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(place.socket)).st_mode & 0o777 == 0o700


def test_many_clients_at_once_end_with_one_daemon(place: Place) -> None:
    found: list[Client] = []
    threads = [threading.Thread(target=lambda: found.append(place.connect())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 6
    assert len({client.daemon.pid for client in found}) == 1
    for client in found:
        client.close()


def test_a_socket_left_behind_is_replaced(place: Place) -> None:
    with place.connect() as client:
        killed = client.daemon.pid
        os.kill(killed, signal.SIGKILL)
    until(lambda: not alive(killed))
    assert os.path.exists(place.socket)

    with place.connect() as again:
        assert again.daemon.pid != killed
        assert again.call("daemon.status")["pid"] == again.daemon.pid


def test_a_socket_of_another_program_in_our_place_is_not_talked_to(place: Place, tmp_path: Path) -> None:
    os.makedirs(os.path.dirname(place.socket), mode=0o700)
    stranger = socket.socket(socket.AF_UNIX)
    stranger.bind(place.socket)
    stranger.listen()

    def answer() -> None:
        connected, _ = stranger.accept()
        connected.sendall(b"220 mail.example.com ESMTP\n")
        connected.close()

    thread = threading.Thread(target=answer)
    thread.start()
    with place.connect() as client:
        assert client.call("daemon.status")["pid"] == client.daemon.pid
    thread.join()
    stranger.close()


def test_a_client_with_another_environment_still_finds_the_daemon(place: Place) -> None:
    with place.connect() as first:
        place.environ["XDG_RUNTIME_DIR"] = ""
        with place.connect() as second:
            assert second.daemon.pid == first.daemon.pid


def test_an_engine_inside_a_program_is_named_and_not_waited_for(place: Place) -> None:
    state = StateFolder.open(place.state)
    lock = StateLock.acquire(state.root, Owner(pid=os.getpid(), version=VERSION))
    with pytest.raises(EngineBusy, match=str(os.getpid())):
        place.connect()
    lock.release()


def test_a_daemon_that_cannot_start_says_why(place: Place) -> None:
    Path(place.state).touch()
    with pytest.raises(StateUnavailable, match="GLIDESLOPE_STATE_DIR"):
        place.connect()


def test_a_folder_for_the_socket_that_is_not_ours_alone_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", os.path.dirname(place.socket))
    with pytest.raises(StateUnavailable, match="XDG_RUNTIME_DIR"):
        place.connect()
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_daemon_that_dies_while_it_starts_is_reported_with_its_last_words(place: Place) -> None:
    with pytest.raises(HostUnavailable, match="crashed as asked"):
        place.connect(GLIDESLOPE_FAKE_CRASH="1")


# --- asking ----------------------------------------------------------------------------------


def test_answers_come_back_as_the_values_they_were(place: Place) -> None:
    with place.connect() as client:
        started = start(client)
        run = view(client, started.run_id).run
        page = codec.from_plain(LogPage, client.call("log", {"ref": "x"}))

    assert (started.joined, started.seq, run.scope, run.verdict) == (False, 0, "/srv/shop", None)
    assert page.content == b"\x00\xff\n"


@pytest.mark.parametrize(
    ("action", "given", "named"),
    [
        ("verfy", {}, "verfy"),
        ("run", {}, "run_id"),
        ("run", {"run_id": 5}, "run_id"),
        ("run", {"run_id": "x", "wait": True}, "wait"),
        ("verify", {"caller": CALLER, "policy": "careless"}, "policy"),
        ("verify", {"caller": {**CALLER, "cwd": "/"}}, "cwd"),
        ("verify", {"caller": "/srv/shop"}, "caller"),
        ("verify", {"caller": CALLER, "timeout_s": "5"}, "timeout_s"),
        ("verify", {"caller": CALLER, "paths": "a.py"}, "paths"),
        ("events", {"after": "x"}, "after"),
        ("events", {"since": 0}, "since"),
        ("events", {"after": 99}, "99"),
        ("daemon.stop", {"now": True}, "now"),
    ],
)
def test_a_mistake_in_a_request_is_named_and_never_served(
    place: Place, action: str, given: dict[str, Any], named: str
) -> None:
    with place.connect() as client:
        with pytest.raises(InvalidInput, match=named):
            list(client.events(**given)) if action == "events" and "since" not in given else client.call(
                action, given
            )
        assert client.call("daemon.status")["busy"] is False


def test_errors_of_the_engine_arrive_with_class_and_fields(place: Place) -> None:
    with place.connect() as client, pytest.raises(UnknownId) as found:
        view(client, "nope")
    assert found.value.fields["run"] == "nope"


def test_a_mistake_of_ours_is_an_internal_error_and_stands_in_the_log(place: Place) -> None:
    with place.connect() as client:
        with pytest.raises(InternalError):
            start(client, no_cache=True)
        assert client.call("daemon.status")["busy"] is False
    assert "ZeroDivisionError: planted" in place.log()


def test_names_that_are_not_utf_8_pass_both_ways(place: Place) -> None:
    with place.connect() as client:
        caller = codec.to_plain({"folder": "/srv/\udcff \x10 caf\u00e9"})
        run = client.call("verify", {"caller": caller})["run_id"]
        assert view(client, run).run.scope == "/srv/\udcff \x10 caf\u00e9"


def test_requests_are_answered_side_by_side(place: Place) -> None:
    with place.connect() as one, place.connect() as other:
        run = start(one).run_id
        with pytest.raises(HostUnavailable, match="in time"):
            one.call("wait", {"run_id": run, "timeout_s": 600.0}, timeout_s=0.2)
        assert other.call("cancel", {"caller": CALLER, "run_id": run})["cancelled"] == [run]


def raw(place: Place) -> Line:
    line = Line.open(place.socket, timeout_s=SOON_S)
    line.greet()
    return line


def test_one_connection_carries_many_requests_and_each_can_be_given_up(place: Place) -> None:
    with place.connect() as client:
        run = start(client).run_id
        line = raw(place)
        line.send({"id": 1, "action": "wait", "input": {"run_id": run, "timeout_s": 600.0}})
        line.send({"id": 2, "action": "wait", "input": {"run_id": run, "timeout_s": 600.0}})
        line.send({"id": 3, "action": "daemon.status"})
        assert line.receive()["id"] == 3
        line.send({"id": 4, "cancel": 1})
        given_up = line.receive()
        assert (given_up["id"], given_up["ok"], given_up["error"]["kind"]) == (1, False, "request_error")
        client.call("cancel", {"caller": CALLER, "run_id": run})
        assert line.receive()["data"]["run"]["verdict"] == "cancelled"
        line.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b'{"hello": 1}\n',
        b'{"hello": {"protocol": 1, "version": "x", "more": 1}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_who_does_not_greet_is_told_and_left(place: Place, sent: bytes) -> None:
    with place.connect() as client:
        assert told_and_left(place, sent)["error"]["code"] == "invalid_input"
        assert client.call("daemon.status")["connections"] == 1


HELLO = b'{"hello": {"protocol": 1, "version": "x"}}\n'


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\n",
        b'{"action": "status"}\n',
        b'{"id": "1", "action": "status"}\n',
        b'{"id": 1, "action": "daemon.status", "input": []}\n',
        b'{"id": 1, "action": "daemon.status", "input": {}, "tied": true}\n',
        b'{"id": 1, "action": "daemon.status", "form": "yaml"}\n',
        b'{"id": 1, "action": "wait", "input": {"run_id": "x", "timeout_s": NaN}}\n',
        b'{"id": 1, "action": "' + b"x" * (9 << 20) + b'"}\n',
    ],
)
def test_who_sends_no_frame_is_told_and_left(place: Place, sent: bytes) -> None:
    with place.connect() as client:
        assert told_and_left(place, HELLO + sent)["error"]["code"] == "invalid_input"
        assert client.call("daemon.status")["connections"] == 1


def told_and_left(place: Place, sent: bytes) -> Any:
    """The last frame the daemon sends before it closes the connection."""
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(SOON_S)
    with connected:
        connected.connect(place.socket)
        try:
            connected.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it had enough
        received = b""
        try:
            while chunk := connected.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
    return json.loads(received.splitlines()[-1])


def test_a_process_in_another_namespace_is_not_admitted(place: Place) -> None:
    program = """
import socket, sys
connected = socket.socket(socket.AF_UNIX)
connected.connect(sys.argv[1])
try:
    connected.sendall(sys.argv[2].encode() + b"\\n")
    print(connected.recv(100))
except ConnectionError:
    print(b"")
"""
    ask = (sys.executable, "-c", program, place.socket, HELLO.decode().strip())
    apart = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
    with place.connect():
        outside = subprocess.run([*apart, *ask], capture_output=True, text=True, timeout=60)
        inside = subprocess.run(ask, capture_output=True, text=True, timeout=60)

    assert (outside.stdout.strip(), outside.stderr) == ("b''", "")
    assert "hello" in inside.stdout


# --- events ----------------------------------------------------------------------------------


def types(events: Iterator[dict[str, Any]]) -> list[str]:
    return [event["event"]["type"] for event in events]


def test_events_are_replayed_and_then_followed_without_gap_or_repetition(place: Place) -> None:
    with place.connect() as client:
        first = start(client).run_id
        events = client.events(after=0)
        assert next(events)["event"]["run_id"] == first
        second = start(client).run_id
        client.call("cancel", {"caller": CALLER, "run_id": first})

        seen = [next(events), next(events)]
        assert [event["seq"] for event in seen] == [2, 3]
        assert [event["event"]["run_id"] for event in seen] == [second, first]
        events.close()
        assert client.call("daemon.status")["connections"] == 1


def test_events_end_where_the_journal_ends_unless_followed(place: Place) -> None:
    with place.connect() as client:
        run, other = start(client).run_id, start(client).run_id
        client.call("cancel", {"caller": CALLER, "run_id": run})

        assert types(client.events(after=0, follow=False)) == ["AgentRunStarted"] * 2 + ["AgentRunCompleted"]
        assert types(client.events(after=0, follow=False, run_id=other)) == ["AgentRunStarted"]
        assert types(client.events(after=0, follow=False, types=["AgentRunCompleted"])) == [
            "AgentRunCompleted"
        ]
        assert types(client.events(follow=False)) == []


def test_a_reader_that_lags_far_behind_still_gets_everything(place: Place) -> None:
    with place.connect() as slow, place.connect() as busy:
        events = slow.events(after=0)
        start(busy)
        next(events)
        for _ in range(5):
            start(busy, project="flood")
        last = busy.call("daemon.status") and start(busy).seq + 1
        assert last == 1 + 5 * 2001 + 1

        assert [next(events)["seq"] for _ in range(last - 1)] == list(range(2, last + 1))


# --- runs and clients ------------------------------------------------------------------------


def test_a_run_goes_on_when_its_client_vanishes(place: Place) -> None:
    with place.connect() as watcher:
        leaver = place.connect()
        run = start(leaver).run_id
        leaver.close()
        until(lambda: watcher.call("daemon.status")["connections"] == 1)

        assert view(watcher, run).run.verdict is None


def test_a_tied_run_ends_with_its_client(place: Place) -> None:
    with place.connect() as watcher:
        leaver = place.connect()
        free, tied = start(leaver).run_id, start(leaver, tie=True).run_id
        leaver.close()
        ended = watcher.call("wait", {"run_id": tied, "timeout_s": SOON_S})

        assert ended["run"]["verdict"] == "cancelled"
        assert view(watcher, free).run.verdict is None


def test_a_tied_run_ends_with_a_client_that_is_killed(place: Place) -> None:
    program = """
import sys
from glideslope.surfaces.client import find
client = find(sys.argv[1], environ={"XDG_RUNTIME_DIR": sys.argv[2]})
print(client.call("verify", {"caller": {"folder": "/"}}, tie=True)["run_id"], flush=True)
sys.stdin.read()
"""
    with place.connect() as watcher:
        argv = (sys.executable, "-c", program, place.state, place.environ["XDG_RUNTIME_DIR"])
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as leaver:
            assert leaver.stdout is not None
            run = leaver.stdout.readline().strip()
            leaver.kill()
        assert watcher.call("wait", {"run_id": run, "timeout_s": SOON_S})["run"]["verdict"] == "cancelled"


# --- stopping --------------------------------------------------------------------------------


def test_stopping_cancels_what_runs_and_tells_those_who_listen(place: Place) -> None:
    with place.connect() as client:
        run = start(client).run_id
        events = client.events(after=1)
        stopper = place.connect()
        assert stopper.call("daemon.stop")["draining"] is True

        last = next(events)["event"]
        assert (last["type"], last["run_id"], last["run"]["cancelled"]) == (
            "AgentRunCompleted",
            run,
            "shutdown",
        )
        assert list(events) == []
        stopper.close()
    assert wait_stopped(place.state, timeout_s=SOON_S)
    until(lambda: not alive(client.daemon.pid))
    assert not os.path.exists(place.socket)
    assert "Traceback" not in place.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_in_good_order(place: Place, number: signal.Signals) -> None:
    with place.connect() as client:
        run = start(client).run_id
        os.kill(client.daemon.pid, number)
        assert wait_stopped(place.state, timeout_s=SOON_S)
    with place.connect() as again:
        ended = view(again, run).run
        assert (ended.verdict, ended.cancelled) == ("cancelled", "shutdown")


def test_a_client_that_does_not_read_cannot_keep_the_daemon(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.connect() as client:
        deaf = client.events(after=0)
        with place.connect() as busy:
            for _ in range(10):
                start(busy, project="flood")
            busy.call("daemon.stop")
        assert wait_stopped(place.state, timeout_s=SOON_S)
        until(lambda: not alive(client.daemon.pid))
        assert next(deaf)["seq"] == 1
    assert "Traceback" not in place.log()


def test_stopping_with_wait_lets_runs_end_and_begins_no_others(place: Place) -> None:
    with place.connect() as client:
        run = start(client).run_id
        answer: list[dict[str, Any]] = []
        with place.connect() as stopper:
            thread = threading.Thread(
                target=lambda: answer.append(stopper.call("daemon.stop", {"wait": True}))
            )
            thread.start()
            until(lambda: client.call("daemon.status")["draining"])
            with pytest.raises(EngineBusy, match="about to stop"):
                start(client)
            assert view(client, run).run.verdict is None
            client.call("cancel", {"caller": CALLER, "run_id": run})
            thread.join()
    assert answer[0]["busy"] is False
    assert wait_stopped(place.state, timeout_s=SOON_S)


def test_an_idle_daemon_stops_and_one_with_a_client_or_a_run_does_not(place: Place) -> None:
    with place.connect("--idle-s", "0.3") as client:
        pid = client.daemon.pid
        run = start(client).run_id
        for _ in client.events(after=0, follow=False):
            time.sleep(1.0)  # the only way to see that something does not happen
        assert alive(pid)
    time.sleep(1.0)
    with find(place.state, environ=place.environ) or pytest.fail("it stopped while a run went on") as client:
        client.call("cancel", {"caller": CALLER, "run_id": run})

    assert wait_stopped(place.state, timeout_s=SOON_S)
    until(lambda: not alive(pid))


def test_an_idle_daemon_of_another_version_is_replaced(place: Place) -> None:
    pid = other_version(place)
    with place.connect() as client:
        assert client.daemon.version == VERSION
        assert client.daemon.pid != pid
    until(lambda: not alive(pid))


def test_a_busy_daemon_of_another_version_is_left_alone_and_both_are_named(place: Place) -> None:
    pid = other_version(place)
    with find(place.state, environ=place.environ) or pytest.fail("not there") as old:
        run = start(old).run_id
        with pytest.raises(EngineBusy, match=rf"0\.0\.1.*{VERSION}.*daemon stop --wait"):
            place.connect()
        assert alive(pid)
        assert view(old, run).run.verdict is None


def other_version(place: Place) -> int:
    """Starts a daemon that says it is older, and returns its process."""
    environ = {**place.environ, "GLIDESLOPE_FAKE_VERSION": "0.0.1"}
    deadline = time.monotonic() + SOON_S
    client_module._start(place.state, place.command, environ, deadline)
    with find(place.state, environ=place.environ) or pytest.fail("not there") as client:
        place.pids.add(client.daemon.pid)
        assert client.daemon.version == "0.0.1"
        return client.daemon.pid


# --- killing ---------------------------------------------------------------------------------


def test_a_kill_at_any_moment_costs_only_what_was_running(place: Place) -> None:
    shown: dict[int, dict[str, Any]] = {}
    for moment in (0.0, 0.003, 0.01, 0.03, 0.1, 0.5):
        client = place.connect()
        killer = threading.Timer(moment, os.kill, (client.daemon.pid, signal.SIGKILL))
        killer.start()
        try:
            start(client)
            for event in client.events(after=len(shown)):
                assert event["seq"] == len(shown) + 1
                shown[event["seq"]] = event
                start(client)
                if len(shown) % 3 == 0:
                    client.call("cancel", {"caller": CALLER, "run_id": event["event"]["run_id"]})
        except HostUnavailable:
            pass
        killer.join()
        client.close()

    with place.connect() as client:
        journaled = list(client.events(after=0, follow=False))
        assert [event["seq"] for event in journaled] == list(range(1, len(journaled) + 1))
        assert journaled[: len(shown)] == list(shown.values())
        assert len(shown) > 10
        endings = [
            event["event"]["run_id"] for event in journaled if event["event"]["type"] == "AgentRunCompleted"
        ]
        begun = [
            event["event"]["run_id"] for event in journaled if event["event"]["type"] == "AgentRunStarted"
        ]
        assert sorted(endings) == sorted(begun)
        assert len(set(endings)) == len(endings)


def test_a_client_whose_daemon_is_gone_says_so_and_the_next_one_works(place: Place) -> None:
    client = place.connect()
    os.kill(client.daemon.pid, signal.SIGKILL)
    with pytest.raises(HostUnavailable, match=rf"process {client.daemon.pid}\) went away"):
        client.call("daemon.status")
    with pytest.raises(GlideslopeError):
        client.call("daemon.status")
    client.close()
    client.close()
    place.connect().close()


def test_closing_from_another_thread_ends_a_wait(place: Place) -> None:
    client = place.connect()
    run = start(client).run_id
    threading.Timer(0.2, client.close).start()
    with pytest.raises(HostUnavailable):
        client.call("wait", {"run_id": run, "timeout_s": 600.0}, timeout_s=None)


def test_the_error_of_a_request_given_up_is_a_request_error_wherever_it_is_rebuilt() -> None:
    frame = {"ok": False, "error": {"code": "request_cancelled", "kind": "request_error", "message": "m"}}
    with pytest.raises(RequestError):
        client_module._data(frame)
