"""What a snapshot costs on a repository of a given size: `python benchmarks/snapshot.py [FILES]`.

Prints one line a case, milliseconds, median and best. Makes its repository in a temporary folder.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from glideslope.adapters.vcs import LocalVcs
from glideslope.model.snapshot import Snapshot
from glideslope.ports.vcs import Workspace

CARRY = (".venv", "node_modules")
CARRY_FILES = ("**/*.so", "**/_version.py", ".env")
ROUNDS = 15
OWN_CPU: list[float] = []  # of the calls since the last line was printed, git not counted


def main(files: int) -> None:
    """Measures a repository of that many files."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder, "repository")
        paths = make_repository(repository, files)
        state = str(Path(folder, "state"))
        vcs = LocalVcs(state)
        workspace = vcs.locate(str(repository))

        def take(from_vcs: LocalVcs = vcs) -> None:
            from_vcs.snapshot(workspace, carry=CARRY, carry_files=CARRY_FILES)

        show("first snapshot, all files read and stored", [timed(take)])
        time.sleep(0.1)
        take()
        show("git ls-files alone", [timed(lambda: listing(repository)) for _ in range(ROUNDS)])
        show("warm, nothing changed", [timed(take) for _ in range(ROUNDS)])
        edits = []
        for number in range(ROUNDS):
            paths[number].write_text(f"changed = {number}\n")
            edits.append(timed(take))
        show("warm, one file edited", edits)
        show(
            "warm, base of HEAD",
            [timed(lambda: vcs.base_of_revision(workspace, "HEAD")) for _ in range(ROUNDS)],
        )
        leases = []
        for number in range(ROUNDS):
            paths[number].write_text(f"changed_again = {number}\n")
            snapshot = vcs.snapshot(workspace, carry=CARRY, carry_files=CARRY_FILES)
            leases.append(timed(partial(lease_once, vcs, workspace, snapshot)))
        OWN_CPU.clear()
        show("first lease, whole tree written", leases[:1])
        show("lease after one file edited", leases[1:])
        vcs.close()
        fresh = LocalVcs(state)
        show("new process' first snapshot, memory on disk", [timed(lambda: take(fresh))])
        fresh.close()


def make_repository(folder: Path, files: int) -> list[Path]:
    """Makes a committed repository of small modules, ten to a folder."""
    paths = [
        folder / f"package_{number // 100}" / f"part_{number // 10 % 10}" / f"m{number}.py"
        for number in range(files)
    ]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 40)
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return paths


def lease_once(vcs: LocalVcs, workspace: Workspace, snapshot: Snapshot) -> None:
    """Materialises a snapshot and gives the tree back."""
    vcs.release(vcs.lease(workspace, snapshot.entries, snapshot))


def listing(folder: Path) -> None:
    """Lists the repository the way a snapshot does."""
    subprocess.run(
        ["git", "ls-files", "-t", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def timed(work: Callable[[], object]) -> float:
    """Milliseconds one call takes."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    work()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    OWN_CPU.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return wall * 1000


def show(what: str, times: list[float]) -> None:
    """Prints one line."""
    own = f"own CPU {statistics.median(OWN_CPU):8.1f} ms" if OWN_CPU else ""
    print(
        f"{what:<46} median {statistics.median(times):8.1f} ms   best {min(times):8.1f} ms   {own}".rstrip()
    )
    OWN_CPU.clear()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
