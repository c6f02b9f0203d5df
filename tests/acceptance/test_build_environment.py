"""A backend that the project's interpreter lacks: fetched once, kept, used without the network."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
import venv
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.acceptance.desk import PROJECT, TINY, Answer, Desk, Repo, a_desk, answered_by, check_journal

pytestmark = pytest.mark.process

BUILD = '[build-system]\nrequires = ["tiny-backend>=1"]\nbuild-backend = "tiny_backend"\n'
BUILT = {**TINY, "pyproject.toml": PROJECT + BUILD}
WEEK_S = 7 * 24 * 3600
# It builds only where everything is as promised, and says what is not.
BACKEND = """\
import os, socket, sys, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    assert __file__.startswith("/tmp/backend/"), __file__
    try:
        open(os.path.join(os.path.dirname(__file__), "mark"), "w")
    except OSError:
        pass
    else:
        raise AssertionError("the build environment can be written")
    address = ("127.0.0.1", int(open("port").read()))
    assert socket.socket().connect_ex(address) != 0, "a build reaches the network"
    told = [name for name in os.environ if name.startswith("PIP_")]
    assert not told, told
    assert not any("site-packages" in path for path in sys.path), sys.path
    with zipfile.ZipFile(os.path.join(folder, "tiny-1-py3-none-any.whl"), "w") as wheel:
        wheel.write("tiny.py")
    return "tiny-1-py3-none-any.whl"
"""


def make_wheel(folder: Path) -> Path:
    """The backend as a wheel."""
    files = {
        "tiny_backend.py": BACKEND,
        "tiny_backend-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-backend\nVersion: 1.0\n",
        "tiny_backend-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={digest(text)},{len(text)}\n" for path, text in files.items())
    files["tiny_backend-1.0.dist-info/RECORD"] = record + "tiny_backend-1.0.dist-info/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "tiny_backend-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return made


def digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


class Links:
    """A page of links to wheels. It answers nothing until it may."""

    def __init__(self, wheel: Path) -> None:
        self.asked, self.open = threading.Event(), threading.Event()
        self.credentials: list[str] = []
        links = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                links.credentials.append(self.headers.get("Authorization", ""))
                links.asked.set()
                links.open.wait()
                page = f'<!DOCTYPE html><a href="/{wheel.name}">x</a>'.encode()
                body = wheel.read_bytes() if self.path.endswith(".whl") else page
                self.send_response(200)
                kind = "application/zip" if self.path.endswith(".whl") else "text/html"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@contextmanager
def serving(links: Links) -> Iterator[Links]:
    thread = threading.Thread(target=links.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield links
    finally:
        links.open.set()
        links.server.shutdown()
        thread.join()
        links.server.server_close()


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Links]:
    """The only place packages come from, behind a password."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    with serving(Links(make_wheel(tmp_path / "wheels"))) as made:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://ann:hush-hush@127.0.0.1:{made.port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield made


@pytest.fixture
def own_desk(tmp_path: Path, links: Links) -> Iterator[Desk]:
    home = tmp_path / "desk"
    home.mkdir()
    with a_desk(home) as made:
        yield made
        check_journal(made.events())
    holders = [path for path in home.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]
    assert holders == [], "a password was kept"


def a_repo(desk: Desk, links: Links, root: Path) -> Repo:
    root.mkdir()
    return Repo(desk=desk, root=root).commit({**BUILT, "port": str(links.port)})


def environments(desk: Desk) -> list[str]:
    folder = desk.state / "backends"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def fetches(repo: Repo, answer: Answer) -> int:
    return repo.tasks(str(answer.data["run_id"])).count("build.backend")


def test_a_backend_is_fetched_once_and_builds_without_network(
    own_desk: Desk, links: Links, tmp_path: Path
) -> None:
    links.open.set()
    repo = a_repo(own_desk, links, tmp_path / "one")
    first = repo.verify("ci_parity").expect("green")
    assert first.rung("build.affected")["diagnostics"] == []
    assert fetches(repo, first) == 1
    assert any(credentials.startswith("Basic ") for credentials in links.credentials)
    (name,) = environments(own_desk)
    again = repo.verify("ci_parity", "--no-cache").expect("green")
    other = a_repo(own_desk, links, tmp_path / "two").verify("ci_parity").expect("green")
    assert (fetches(repo, again), fetches(repo, other)) == (0, 0)
    assert environments(own_desk) == [name]
    assert own_desk.call("config", "show", cwd=repo.root).exit_code == 0


def test_two_projects_that_fetch_at_once_end_with_one(own_desk: Desk, links: Links, tmp_path: Path) -> None:
    repos = [a_repo(own_desk, links, tmp_path / name) for name in ("one", "two")]
    runs = [repo.start_verify("ci_parity") for repo in repos]
    assert links.asked.wait(60)
    links.open.set()
    for run in runs:
        answered_by(run).expect("green")
    assert len(environments(own_desk)) == 1


def test_a_kill_while_it_is_fetched_leaves_nothing_that_is_used(
    own_desk: Desk, links: Links, tmp_path: Path
) -> None:
    repo = a_repo(own_desk, links, tmp_path / "one")
    run = repo.start_verify("ci_parity")
    assert links.asked.wait(60)
    os.kill(int(json.loads((own_desk.state / "lock").read_text())["pid"]), signal.SIGKILL)
    run.communicate(timeout=60)
    (half,) = environments(own_desk)
    links.open.set()
    assert fetches(repo, repo.verify("ci_parity").expect("green")) == 1
    assert half in environments(own_desk)
    assert len(environments(own_desk)) == 2
    then = time.time() - WEEK_S - 3600
    for name in environments(own_desk):
        os.utime(own_desk.state / "backends" / name, (then, then))
    listed = own_desk.call("prune", cwd=repo.root).data["items"]
    assert sorted(item["name"] for item in listed if item["kind"] == "backend") == environments(own_desk)
    own_desk.call("prune", "--apply", cwd=repo.root)
    assert environments(own_desk) == []
    assert fetches(repo, repo.verify("ci_parity", "--no-cache").expect("green")) == 1


@pytest.mark.parametrize("way", ["not allowed", "not there"])
def test_without_it_the_verdict_says_what_to_do(
    own_desk: Desk, links: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    links.open.set()
    repo = a_repo(own_desk, links, tmp_path / "one")
    if way == "not allowed":
        repo.commit({"glideslope.toml": "[agent.environment]\nallow_index = false\n"})
    else:
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    answer = repo.verify("ci_parity").expect("inconclusive")
    rung = answer.rung("build.affected")
    assert (rung["state"], rung["reason_code"]) == ("inconclusive", "backend_unavailable")
    assert rung["next"] == f"{sys.executable} -m pip install 'tiny-backend>=1'"
    assert (fetches(repo, answer), links.asked.is_set()) == (int(way == "not there"), False)
    assert environments(own_desk) == []
    repo.verify("standard").expect("green")


def test_a_folder_of_wheels_among_temporary_files_is_seen(
    own_desk: Desk, links: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = a_repo(own_desk, links, tmp_path / "one")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    repo.verify("ci_parity").expect("green")
    assert not links.asked.is_set()


def test_nothing_of_the_project_runs_while_the_network_is_open(
    own_desk: Desk, links: Links, tmp_path: Path
) -> None:
    links.open.set()
    repo = a_repo(own_desk, links, tmp_path / "one")
    # The environment has the project on its path, as after an editable install.
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "tiny.pth").write_text(f"{repo.root}\n")
    trap = "import os\nif 'PIP_CONFIG_FILE' in os.environ:\n    os._exit(99)\n"
    repo.commit(dict.fromkeys(["sitecustomize.py", "brotli.py", "brotlicffi.py", "keyring.py"], trap))
    python = str(tmp_path / "venv" / "bin" / "python")
    answer = repo.call("verify", "ci_parity", "--rung", "build.affected", "--python", python)
    answer.expect("green")
    assert fetches(repo, answer) == 1
