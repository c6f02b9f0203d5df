"""What is seen of a run while it goes on, on standard error.

On a terminal: one line, rewritten in place, about the rung under way. Elsewhere: a line at least
every ten seconds, so that nothing that watches for output gives up.
"""

from __future__ import annotations

from glideslope.model.event import AgentEnvironmentTaskChanged, AgentVerifyRungChanged, Recorded
from glideslope.model.result import RungState
from glideslope.surfaces.cli.output import Output

SILENT_AT_MOST_S = 10.0
_WIDTH = 100


class Progress:
    """Follows the events of one run."""

    def __init__(self, output: Output, *, now_s: float) -> None:
        self._output = output
        self._begun_s = now_s
        self._spoke_s = now_s
        self._rung = ""
        self._says = "waiting"
        self._shown = ""

    def event(self, recorded: Recorded, now_s: float) -> None:
        """Takes one event of the run into account."""
        match recorded.event:
            case AgentVerifyRungChanged(result=result) if result.state is RungState.RUNNING:
                self._rung, self._says = result.rung.value, "running"
            case AgentVerifyRungChanged(result=result):
                self._rung, self._says = result.rung.value, result.summary or result.state.value
            case AgentEnvironmentTaskChanged(message=message, state=state):
                self._says = message or state.value
            case _:
                return
        self.pulse(now_s)

    def pulse(self, now_s: float) -> None:
        """Shows what is to be shown by now; to be called once a second or more often."""
        if self._output.quiet:
            return
        if self._output.err_is_terminal:
            self._rewrite()
        elif now_s - self._spoke_s >= SILENT_AT_MOST_S:
            self._spoke_s = now_s
            self._output.note(f"{self._line()} ({now_s - self._begun_s:.0f} s)")

    def close(self) -> None:
        """Takes the line on the terminal away."""
        if self._shown:
            self._output.status("")
            self._shown = ""

    def _rewrite(self) -> None:
        line = self._line()
        if line != self._shown:
            self._shown = line
            self._output.status(f"{self._output.error_glyphs.states[RungState.RUNNING]} {line}")

    def _line(self) -> str:
        parts = [part for part in (self._rung, self._says) if part]
        return ": ".join(parts).splitlines()[0][:_WIDTH]
