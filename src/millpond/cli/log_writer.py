"""Writing the output of ranks: as it is for one rank, line by line with the rank in front for several."""

from __future__ import annotations

from millpond.cli.output import Output


class LogWriter:
    """`ranks` is how many the job has.  A rank's line is written when it is complete."""

    def __init__(self, output: Output, ranks: int) -> None:
        self._output = output
        self._prefixed = ranks > 1
        self._open: dict[int, str] = {}

    def write(self, rank: int, text: str) -> None:
        if not self._prefixed:
            self._output.write(text)
            return
        *lines, rest = (self._open.pop(rank, "") + text).split("\n")
        if rest:
            self._open[rank] = rest
        if lines:
            self._output.write("".join(self._line(rank, line) for line in lines))

    def finish(self) -> None:
        """Write what never got its end of line."""
        for rank in sorted(self._open):
            self._output.write(self._line(rank, self._open[rank]))
        self._open.clear()

    def _line(self, rank: int, line: str) -> str:
        return self._output.style(f"[{rank}] ", "cyan") + line + "\n"
