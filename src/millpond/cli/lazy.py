"""The command line's frame: commands that load when they are called, help in both languages, global options.

Help texts are keys of the catalogue (``help.ps``), so that they follow ``--lang``; a text that is no key is shown as
it stands.  Global options may stand before or after the command's name.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from millpond.cli.errors import ExtraMissing
from millpond.cli.session import Session, Surroundings
from millpond.cli.texts import Texts, language

_GLOBALS = "millpond.globals"
_TRAILING = "millpond.trailing"


class ReaderGone(Exception):
    """Whoever read our output has left.  (click would make an exit code 1 of a `BrokenPipeError`.)"""


def texts_of(ctx: click.Context) -> Texts:
    """The catalogue in the language of this call."""
    surroundings = ctx.find_root().obj
    environ = surroundings.environ if isinstance(surroundings, Surroundings) else os.environ
    return Texts(language(environ, ctx.meta.get(_GLOBALS, {}).get("lang", "")))


def translate(ctx: click.Context, text: str | None) -> str:
    """The text of a key; anything else as it is."""
    texts = texts_of(ctx)
    return texts(text) if text and texts.has(text) else (text or "")


def session_of(ctx: click.Context) -> Session:
    """The session of this call: surroundings and global options, one a process."""
    root = ctx.find_root()
    surroundings = root.obj if isinstance(root.obj, Surroundings) else Surroundings()
    session: Session | None = ctx.meta.get("millpond.session")
    if session is None:
        session = Session(surroundings, ctx.meta.get(_GLOBALS, {}), texts_of(ctx))
        ctx.meta["millpond.session"] = session
        root.call_on_close(session.close)
    return session


class Option(click.Option):
    """An option whose help is a key of the catalogue."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        spoken = copy.copy(self)
        spoken.help = translate(ctx, self.help)
        return click.Option.get_help_record(spoken, ctx)


class GlobalOption(Option):
    """An option of every command; its value goes to the session, the last one on the line wins."""


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value not in (None, False, ""):
        ctx.meta.setdefault(_GLOBALS, {})[param.name] = value


def global_options() -> list[click.Parameter]:
    """Fresh parameters for one command."""
    common: dict[str, Any] = {"expose_value": False, "callback": _remember}
    eager: dict[str, Any] = {**common, "is_eager": True}
    return [
        GlobalOption(["--json"], is_flag=True, help="option.json", **common),
        GlobalOption(["--tenant"], metavar="NAME", help="option.tenant", **common),
        GlobalOption(["--project"], metavar="NAME", help="option.project", **common),
        GlobalOption(["--server"], metavar="URL", help="option.server", **common),
        GlobalOption(["--token"], metavar="TOKEN", help="option.token", **common),
        GlobalOption(["--lang"], type=click.Choice(["en", "zh"]), help="option.lang", **eager),
    ]


class Spoken(click.Command):
    """Help in the language of the call, with the global options in a section of their own."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        attrs["context_settings"] = settings | attrs.get("context_settings", {})
        super().__init__(*args, **attrs)
        self.params.extend(global_options())

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = translate(ctx, "option.help")
        return option

    def get_short_help_str(self, limit: int = 45) -> str:
        return Texts("en")(self.help)[:limit] if self.help and Texts("en").has(self.help) else (self.help or "")

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pieces = self.collect_usage_pieces(ctx)
        formatter.write_usage(ctx.command_path, " ".join(pieces), prefix=translate(ctx, "help.usage") + " ")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        for paragraph in translate(ctx, self.help).split("\n"):
            with formatter.indentation():
                formatter.write_text(paragraph)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = self.get_params(ctx)
        for heading, wanted in (("help.options", False), ("help.global_options", True)):
            records = [
                record
                for param in params
                if isinstance(param, GlobalOption) is wanted and (record := param.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(translate(ctx, heading)):
                    formatter.write_dl(records)


class Command(Spoken):
    """A command of millpond.  With `trailing`, what stands after ``--`` is set aside unparsed (`trailing_of`)."""

    def __init__(self, *args: Any, trailing: bool = False, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.trailing = trailing

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return super().collect_usage_pieces(ctx) + (["[-- COMMAND ...]"] if self.trailing else [])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.trailing and "--" in args:
            at = args.index("--")
            ctx.meta[_TRAILING] = tuple(args[at + 1 :])
            args = args[:at]
            # What stands before is ours, wherever it stands.  Without "--" a command may want its options left alone.
            ctx.allow_interspersed_args = True
        return super().parse_args(ctx, args)


def trailing_of(ctx: click.Context) -> tuple[str, ...] | None:
    """The words after ``--``; None when there was no ``--``."""
    found: tuple[str, ...] | None = ctx.meta.get(_TRAILING)
    return found


class Group(Spoken, click.Group):
    """A noun with verbs; without a verb it lists (`default`)."""

    def __init__(self, *args: Any, default: str = "list", **attrs: Any) -> None:
        super().__init__(*args, subcommand_metavar="[VERB] ...", **attrs)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = any(name in args for name in ctx.help_option_names)
        named = any(word in self.commands for word in args) or (args and not args[0].startswith("-"))
        return super().parse_args(ctx, args if named or asks_help else [self.default, *args])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _known_or_fail(ctx, args[0], tuple(self.commands))
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, first_line(translate(ctx, command.help))) for name, command in self.commands.items()]
        with formatter.section(texts_of(ctx)("help.verbs", default=self.default)):
            formatter.write_dl(rows)
        Spoken.format_options(self, ctx, formatter)


class LazyGroup(Spoken, click.Group):
    """The root: `sections` map a heading to ``{command: "module:attribute"}``.

    Nothing of a command is imported before it is called; its line in the list of commands is ``help.<command>``.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]], **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.sections = sections
        self.targets = {name: target for section in sections.values() for name, target in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.targets, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = self.targets.get(cmd_name)
        return command_load(cmd_name, target) if target is not None else super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _known_or_fail(ctx, args[0], tuple(self.targets))
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.targets)
        for heading, section in self.sections.items():
            with formatter.section(translate(ctx, heading)):
                formatter.write_dl(
                    [(name.ljust(width), first_line(translate(ctx, f"help.{name}"))) for name in section]
                )
        Spoken.format_options(self, ctx, formatter)


def command_load(name: str, target: str) -> click.Command:
    """The command at ``module:attribute``; `ExtraMissing` when its part is not installed."""
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ExtraMissing(name, error.name or module) from error
    assert isinstance(found, click.Command), f"{target} is not a command"  # noqa: S101
    return found


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def _known_or_fail(ctx: click.Context, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    texts = texts_of(ctx)
    near = get_close_matches(name, known, n=1)
    message = texts("error.no_command", name=name)
    if near:
        message += " " + texts("error.did_you_mean", name=near[0])
    raise click.UsageError(message, ctx)


def command(name: str, **attrs: Any) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a function that takes the `Session` first into a command; it returns its exit code (None: 0)."""
    attrs.setdefault("help", f"help.{name}")

    def wrap(function: Callable[..., int | None]) -> click.Command:
        return click.command(name, cls=Command, **attrs)(_with_session(function))

    return wrap


def group(name: str, default: str = "list") -> Group:
    """A noun with verbs, its help ``help.<name>``."""
    return Group(name, help=f"help.{name}", default=default)


def subgroup(parent: Group, name: str, default: str = "list") -> Group:
    """A noun below a noun: ``tenants projects``."""
    inner = Group(name, help=f"{parent.help}.{name}", default=default)
    parent.add_command(inner)
    return inner


def verb(parent: Group, name: str, **attrs: Any) -> Callable[[Callable[..., int | None]], click.Command]:
    """As `command`, inside a group; its help is ``help.<group>.<name>``."""
    attrs.setdefault("help", f"{parent.help}.{name}")

    def wrap(function: Callable[..., int | None]) -> click.Command:
        return parent.command(name, cls=Command, **attrs)(_with_session(function))

    return wrap


def _with_session(function: Callable[..., int | None]) -> Callable[..., int | None]:
    @functools.wraps(function)
    def call(**params: Any) -> int | None:
        return function(session_of(click.get_current_context()), **params)

    return call


def option(*names: str, help: str, **attrs: Any) -> Callable[[Any], Any]:  # noqa: A002
    """An option whose help is a key of the catalogue."""
    return click.option(*names, cls=Option, help=help, **attrs)


def argument(name: str, **attrs: Any) -> Callable[[Any], Any]:
    return click.argument(name, **attrs)
