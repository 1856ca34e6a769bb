"""Typer, with a hint if somebody gives a value without its option: `replog topic create orders`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from replog.command.output import harmless

_OF_ALL = ("--bootstrap-server", "--bootstrap-controller", "--format")  # options that nobody means by a bare word


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        takes_any, ctx.allow_extra_args = ctx.allow_extra_args, True
        fail: Callable[[str], NoReturn] = ctx.fail
        try:
            extra = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            words = self.make_parser(ctx).parse_args(given)[1]
            if error.message or not words or error.param is None:  # a missing option has no message
                _reword(error)
                raise
            fail(f"Missing option '{error.param.opts[0]}'.{self._hint(words[0])}")
        if extra and not takes_any:
            fail(f"Got unexpected extra argument ({harmless(' '.join(extra))}).{self._hint(extra[0])}")
        return extra

    def _hint(self, word: str) -> str:
        """Names the option that was probably meant: --topic, or the first; for a number, the first that takes one."""
        params: list[Any] = list(self.params)
        if any(each.param_type_name == "argument" for each in params):
            return ""  # the word may be meant as one of these
        of_kind = [each for each in params if ("int" in str(each.type_descriptor.annotation)) is word.isdecimal()]
        names = [each.opts[0] for each in of_kind if not each.is_flag and each.opts[0] not in _OF_ALL]
        name = "--topic" if "--topic" in names else next(iter(names), "")
        return f" Perhaps you mean: {name} {harmless(word)}" if name else ""


def _reword(error: Any) -> None:
    """Say in our words what a value is not, and which there are: typer says it in those of its parser."""
    if (faults := getattr(error.__cause__, "errors", None)) is None:
        return
    fault, option = faults()[0], error.param.type_descriptor
    error.message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] != "value_error":
        least, most = option.parameter_info.min, option.parameter_info.max
        span = ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
        kind = "whole number" if "int" in str(option.annotation) else "number"
        error.message = f"{str(fault['input'])[:60]!r}; give a {kind}{span}."


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.invoke_without_command and Path(args[0]).is_file():  # `replog broker broker.properties`
            ctx.fail(f"No such command '{harmless(args[0])}'. Perhaps you mean: --config {harmless(args[0])}")
        return super().resolve_command(ctx, args)


class App(typer.Typer):
    """A Typer with other defaults."""

    def __init__(self, **options: Any) -> None:
        shown = {"rich_markup_mode": "markdown", "context_settings": {"help_option_names": ["-h", "--help"]}}
        super().__init__(
            **{"cls": _Group, "no_args_is_help": True, "pretty_exceptions_enable": False, **shown, **options}
        )

    def command(self, *names: Any, **options: Any) -> Callable[[Any], Any]:
        return super().command(*names, **{"cls": _Command, **options})
