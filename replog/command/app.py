"""Typer, with a word more where somebody gives a value without its option: `replog topic create orders`."""

from collections.abc import Callable
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            words = self.make_parser(ctx).parse_args(given)[1]
            if error.message or not words or error.param is None:  # a missing one has no message of its own
                raise
            name = error.param.opts[0]
            fail: Callable[[str], NoReturn] = ctx.fail
            fail(f"Missing option '{name}'. Perhaps you mean: {name} {words[0]}")


class App(typer.Typer):
    """As typer's, with other defaults."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"no_args_is_help": True, "rich_markup_mode": "markdown", **options})

    def command(self, *names: Any, **options: Any) -> Callable[[Any], Any]:
        return super().command(*names, **{"cls": _Command, **options})
