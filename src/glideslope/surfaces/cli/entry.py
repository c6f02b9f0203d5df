"""From the arguments of a process to an exit code; the one place where errors end."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import TextIO

import click

from glideslope.errors import EnvironmentBroken, GlideslopeError
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.output import Mode, Output, OutputLost, discard
from glideslope.surfaces.cli.usage import no_command, wire_usage
from glideslope.surfaces.cli.words import variable
from glideslope.surfaces.session import Connect
from glideslope.surfaces.wire.envelope import CANCELLED, USAGE, WireError, wire_error

# Command -> its line in the help. Each lives in the module of its name, loaded when it is used.
COMMANDS: Mapping[str, str] = {
    "verify": "Climb the ladder on the current snapshot.",
    "diagnose": "Check the given files, or the changed ones.",
    "test": "Run chosen tests, or a registered profile.",
    "status": "Show the queue, active runs and where the workspace stands.",
    "cancel": "Cancel a run, or every active run of the workspace; done when their processes are gone.",
    "last": "Show the newest run of the workspace, and where its time went.",
    "runs": "List the runs of the workspace, newest first.",
    "run": "Show one run, by its id or the beginning of it.",
    "log": "Read a stored log.",
    "events": "Print the journal, one event a line.",
    "daemon": "Start, stop or look at the process that does the work.",
    "doctor": "Look at everything a verify needs, and say what is missing and how to get it.",
    "config": "Show, check or describe the settings.",
    "prune": "List what may go from the state folder; remove it with --apply.",
    "completion": "Print the script that completes our words in a shell.",
}
_HELP = {"help_option_names": ["-h", "--help"]}
INTERRUPTED = 6
INTERNAL = 70
USAGE_EXIT = 2


class Commands(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command in the module of its name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"glideslope.surfaces.cli.{cmd_name}")
        found: click.Command = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, and the rest of them."""
        typed = args[0]
        if typed not in COMMANDS and not typed.startswith("-") and not ctx.resilient_parsing:
            raise no_command(typed, COMMANDS, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"glideslope {version('glideslope')}")
        context.exit()


ROOT = Commands(
    name="glideslope",
    help="Verifies edits to a repository: the cheapest sufficient checks, on exactly the content you have.",
    context_settings=_HELP,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version.",
        )
    ],
    no_args_is_help=True,
)


def run(
    arguments: Sequence[str] | None = None,
    *,
    connect: Connect | None = None,
    environ: Mapping[str, str] | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Runs one command.

    Args:
        arguments: Without the program's name; None: those of this process.
        connect: Who is asked; None: the daemon of this user.
        environ: Environment variables; None: those of this process.
        out: Standard output; None: that of this process.
        err: Standard error; None: that of this process.

    Returns:
        The exit code.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    environ = os.environ if environ is None else environ
    output = _output(arguments, environ, out or sys.stdout, err or sys.stderr)
    app = App(
        output=output,
        connect=connect or _daemon(environ),
        environ=environ,
        folder=_current_folder(),
        monotonic_s=time.monotonic,
    )
    try:
        return _guarded(app, arguments)
    except BrokenPipeError:
        _discard_stdout()
        return app.exit_code


def _daemon(environ: Mapping[str, str]) -> Connect:
    from glideslope.surfaces.session import DaemonConnect

    return DaemonConnect(environ=environ)


def _output(arguments: Sequence[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> Output:
    """The form of the output, as far as it can be read off arguments that may not even parse."""
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    mode = Mode.NDJSON if "--ndjson" in words else Mode.JSON if "--json" in words else Mode.TEXT
    plain = "--plain" in words or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    action = next((word for word in words if word in COMMANDS), "glideslope")
    return Output(out=out, err=err, mode=mode, action=action, quiet="--quiet" in words, plain=plain)


def _guarded(app: App, arguments: Sequence[str]) -> int:
    """Runs the command and turns whatever it raises into an answer and an exit code."""
    try:
        return _parsed(app, arguments)
    except BrokenPipeError:
        raise
    except OutputLost as lost:
        _discard_stdout()
        app.output.error(wire_error(EnvironmentBroken(str(lost))))
        return EnvironmentBroken.exit_code
    except GlideslopeError as error:
        if error.exit_code == INTERNAL:
            return _internal(app, error)
        app.output.error(wire_error(error))
        return error.exit_code
    except click.UsageError as error:
        app.output.error(wire_usage(error, app.output.action))
        return USAGE_EXIT
    except click.ClickException as error:
        app.output.error(WireError(code=USAGE, kind="request_error", message=error.format_message()))
        return USAGE_EXIT
    except (KeyboardInterrupt, click.Abort) as interrupt:
        message = str(interrupt) or "interrupted"
        app.output.error(WireError(code=CANCELLED, kind=CANCELLED, message=message))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the top of a surface
        return _internal(app, error)


def _parsed(app: App, arguments: Sequence[str]) -> int:
    """Parses and runs. In the JSON modes, what click itself prints (help, version) becomes data."""
    program = os.path.basename(sys.argv[0]) if sys.argv[0].endswith("glide") else "glideslope"
    instruction = app.environ.get(variable(program))
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(ROOT, {"obj": app}, program, variable(program), instruction)
    printed = io.StringIO()
    catch = contextlib.nullcontext() if app.output.is_text else contextlib.redirect_stdout(printed)
    with catch:
        code = _invoked(app, program, arguments)
    if not app.output.is_text and not app.output.enveloped:
        app.output.data({"text": printed.getvalue()})
    return code


def _invoked(app: App, program: str, arguments: Sequence[str]) -> int:
    """What click's own `main` does, without its handling of errors, signals and broken pipes."""
    try:
        with ROOT.make_context(program, list(arguments), obj=app) as context:
            code = ROOT.invoke(context)
    except click.exceptions.Exit as end:
        code = end.exit_code
    return code if isinstance(code, int) and code else app.exit_code


def _internal(app: App, error: BaseException) -> int:
    """Our bug: one line, where the details are, and how to report it."""
    report = "".join(traceback.format_exception(error))
    where = _keep(app, report)
    message = f"internal error, {type(error).__name__}: {error}".splitlines()[0]
    app.output.error(
        WireError(
            code="internal_error",
            kind="internal_error",
            message=message,
            fields={"log_ref": where},
            next=f"report this, with the file {where}" if where else "report this, with the lines above",
        )
    )
    return INTERNAL


def _keep(app: App, report: str) -> str | None:
    """Writes a report into the state folder; to standard error where that cannot be."""
    from glideslope_fast.place import state_dir

    path = os.path.join(state_dir(app.environ), "logs", f"crash-{time.time_ns()}-{os.getpid()}.txt")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report)
    except OSError:
        app.output.note(report)
        return None
    return path


def _current_folder() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return os.environ.get("PWD") or "/"  # the folder is gone; the engine will say so


def _discard_stdout() -> None:
    """Whoever read our output has gone, or it cannot be written: no more is, not even at exit."""
    discard(sys.stdout)
