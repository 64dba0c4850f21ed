"""The command line.  Entry points ``millpond`` and ``pond``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

import click

from millpond.cli.errors import Exit, error_json, error_line, exit_code
from millpond.cli.lazy import LazyGroup, ReaderGone
from millpond.cli.session import Surroundings
from millpond.cli.texts import Texts, language
from millpond.domain.errors import MillpondError

SECTIONS = {
    "help.section_jobs": {
        "run": "millpond.cli.run:run",
        "apply": "millpond.cli.apply:apply",
        "offer": "millpond.cli.offer:offer",
        "ps": "millpond.cli.ps:ps",
        "why": "millpond.cli.why:why",
        "describe": "millpond.cli.describe:describe",
        "logs": "millpond.cli.logs:logs",
        "attach": "millpond.cli.logs:attach",
        "exec": "millpond.cli.exec:exec_command",
        "wait": "millpond.cli.wait:wait",
        "stop": "millpond.cli.stop:stop",
        "hold": "millpond.cli.stop:hold",
        "release": "millpond.cli.stop:release",
    },
    "help.section_pool": {
        "queue": "millpond.cli.queue:queue",
        "quota": "millpond.cli.quota:quota",
        "nodes": "millpond.cli.nodes:nodes",
        "cards": "millpond.cli.cards:cards",
    },
    "help.section_money": {
        "balance": "millpond.cli.balance:balance",
        "accounts": "millpond.cli.accounts:accounts",
        "usage": "millpond.cli.usage:usage",
        "budget": "millpond.cli.budget:budget",
        "price": "millpond.cli.price:price",
        "invoice": "millpond.cli.invoice_export:invoice",
        "report": "millpond.cli.report:report",
    },
    "help.section_people": {
        "login": "millpond.cli.login:login",
        "logout": "millpond.cli.login:logout",
        "whoami": "millpond.cli.login:whoami",
        "tenants": "millpond.cli.tenants:tenants",
        "tokens": "millpond.cli.tokens:tokens",
    },
    "help.section_offline": {
        "snapshot": "millpond.cli.snapshot:snapshot",
        "plan": "millpond.cli.offline.plan:plan_command",
        "simulate": "millpond.cli.offline.simulate:simulate_command",
        "rate": "millpond.cli.offline.rate:rate_command",
    },
    "help.section_machine": {
        "up": "millpond.commands.up:up_command",
        "down": "millpond.commands.down:down_command",
        "db": "millpond.commands.database:db_command",
        "version": "millpond.cli.version:version",
        "completion": "millpond.cli.completion:completion",
    },
}


@click.group(cls=LazyGroup, sections=SECTIONS, help="help.millpond", no_args_is_help=True)
def root() -> None:
    """Root of all commands; its help is in the catalogue."""


def main() -> None:
    """Run the command line and exit with its code."""
    name = PurePath(sys.argv[0]).name
    code = command_run(sys.argv[1:], program=name if name in {"millpond", "pond"} else "millpond")
    sys.exit(code)


def command_run(args: Sequence[str], surroundings: Surroundings | None = None, program: str = "millpond") -> int:
    """Run one command line and give its exit code.  Never a traceback for what a user or a server can do."""
    surroundings = _spoken(args, surroundings or Surroundings())
    texts = Texts(language(surroundings.environ))
    as_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    try:
        result = root.main(list(args), prog_name=program, standalone_mode=False, obj=surroundings)
        sys.stdout.flush()
        return int(result) if isinstance(result, int) else Exit.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return Exit.OK
    except click.ClickException as error:
        _usage_report(error, program, as_json=as_json)
        return Exit.USAGE
    except MillpondError as error:
        if as_json:
            _say(json.dumps(error_json(error), ensure_ascii=False))
        else:
            _say(error_line(error, texts))
        return exit_code(error)
    except click.Abort:
        # Ctrl-C, or the end of input where an answer was asked for; click has ended the line.
        return Exit.CANCELLED
    except KeyboardInterrupt:
        _say("")
        return Exit.CANCELLED
    except (ReaderGone, BrokenPipeError):
        # The reader left (`millpond ps | head -1`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _usage_report(error: click.ClickException, program: str, *, as_json: bool) -> None:
    message = " ".join(error.format_message().split())
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"{ctx.command_path if ctx else program} --help"
    if as_json:
        _say(json.dumps({"error": {"code": "USAGE", "message": message, "hint": hint}}, ensure_ascii=False))
        return
    _say(f"millpond: {message} ({hint})")


def _spoken(args: Sequence[str], surroundings: Surroundings) -> Surroundings:
    """``--lang`` put into the environment: it counts even on a command line that cannot be understood."""
    wanted = ""
    for index, word in enumerate(args):
        if word.startswith("--lang="):
            wanted = word.removeprefix("--lang=")
        elif word == "--lang" and index + 1 < len(args):
            wanted = args[index + 1]
        elif word == "--":
            break
    return replace(surroundings, environ={**surroundings.environ, "MILLPOND_LANG": wanted}) if wanted else surroundings


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
