"""The bills of examples/billing as files, and malformed rating files with what is said about them.

``python -m tests.golden.rating_files`` writes them anew; read the diff before committing it.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from millpond.cli.main import command_run
from millpond.cli.session import Surroundings

FOLDER = Path(__file__).parent / "rating"
BAD = Path(__file__).parent / "rating_bad"
EXAMPLES = Path(__file__).parents[2] / "examples" / "billing"
FORMS = {"json": ("--json",), "en.txt": (), "zh.txt": ("--lang", "zh")}


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def command_output(*args: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of one command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command_run(args, Surroundings(environ={}))
    return code, out.getvalue(), err.getvalue()


def rate_output(name: str, form: str) -> str:
    code, out, err = command_output("rate", str(EXAMPLES / f"{name}.yaml"), *FORMS[form])
    assert code == 0, err
    return out + err


def bad_names() -> list[str]:
    return sorted(path.name for path in BAD.glob("*.*") if path.name != "expected.txt")


def bad_output(name: str) -> str:
    """The one line that is said, with the folder left out."""
    code, out, err = command_output("rate", str(BAD / name))
    assert (code, out, err.count("\n")) == (2, "", 1), (name, code, out, err)
    return err.replace(f"{BAD}/", "")


if __name__ == "__main__":
    for name in names():
        for form in FORMS:
            (FOLDER / f"{name}.{form}").write_text(rate_output(name, form), encoding="utf-8")
    (BAD / "expected.txt").write_text("".join(bad_output(name) for name in bad_names()), encoding="utf-8")
