"""Registered test profiles: a command of the settings, run as one rung."""

from __future__ import annotations

from glideslope.errors import UnknownId
from glideslope.model.result import ProjectRung, RungState, Selection, TestCounts
from glideslope.model.settings import Settings, TestProfile
from glideslope.ports.toolchain import Command, Context, Script

SELECTION = "{selection}"
PYTHON = ("python", "python3")


def find_profile(settings: Settings, name: str) -> TestProfile:
    """A profile by name.

    Raises:
        UnknownId: No such profile; lists those there are.
    """
    for profile in settings.test_profiles:
        if profile.name == name:
            return profile
    names = ", ".join(profile.name for profile in settings.test_profiles) or "none is registered"
    raise UnknownId(
        f"no test profile {name!r} ({names}): add [test_profiles.{name}] to glideslope.toml", profile=name
    )


def profile_script(profile: TestProfile, context: Context) -> Script:
    """Runs the profile's command in the project's folder and reads its exit status.

    Returns:
        Pass for 0, fail for anything else; a signal is a death, a limit a fail by `timed_out`.
    """
    argv = [part for one in profile.command for part in (context.nodeids if one == SELECTION else (one,))]
    if argv and argv[0] in PYTHON:
        argv[0] = context.interpreter.executable
    command = Command(
        kind="test.profile",
        argv=tuple(argv),
        cwd=context.project.root,
        label=f"test profile {profile.name}",
        wall_s=profile.timeout_s,
    )
    (output,) = yield (command,)
    tail = output.stderr.decode("utf-8", "replace")[-2000:]
    counts = TestCounts(selection=Selection.EXPLICIT)
    if output.outcome == "timed_out":
        summary = f"{profile.name}: over its limit of {profile.timeout_s:g} s"
        return ProjectRung(
            state=RungState.FAIL, reason="timed_out", summary=summary, tests=counts, log_ref=output.log_ref
        )
    if output.code is None:
        summary = f"{profile.name}: ended by signal {output.signal}"
        return ProjectRung(
            state=RungState.DIED,
            reason=output.outcome,
            summary=summary,
            stderr_tail=tail,
            log_ref=output.log_ref,
        )
    return ProjectRung(
        state=RungState.PASS if output.code == 0 else RungState.FAIL,
        summary=f"{profile.name}: exit status {output.code}",
        tests=counts,
        exit_code=output.code,
        stderr_tail=tail or None,
        log_ref=output.log_ref,
    )
