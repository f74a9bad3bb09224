"""Help texts of commands. Options that set one field of a configuration class have its description and default.

The description is read when a command is parsed or its help is shown, not when the module is imported: configuration
classes need Pydantic, which takes longer to import than all of `kame --help`.
"""

import pkgutil
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperCommand

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK: Final = "field "
"""A help text that begins with this is replaced by the description of the field that follows."""
_LINE_BREAK: Final = re.compile(r"(?<!\n)\n(?![\n \-*])")
"""A line break within a paragraph: Typer would print it. Those before list items and indented lines are kept."""


def make_field_option(name: str, field: str, more: str = "", **options: Any) -> Any:
    """Makes an option whose help text is the description of a field.

    Args:
        name: of the option, such as `--seed`.
        field: module, class and field: `data_schemas.config:RefreshConfig.seed`.
        more: text that is added to the description, before the default.
        options: other arguments of `typer.Option`.
    """
    return typer.Option(name, help=f"{_MARK}{field}\n{more}", **options)


class CommandApp(typer.Typer):
    """A group of commands that may have such options, and whose help texts are wrapped at the width of the terminal."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Adds a command, as `typer.Typer.command`."""
        return super().command(name, cls=_FieldHelpCommand, **options)


class _FieldHelpCommand(TyperCommand):
    """A command whose options' help texts are read from fields when they are needed."""

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        """Makes a command, as the base class, with each paragraph of its help text on one line."""
        super().__init__(*arguments, help=_LINE_BREAK.sub(" ", help or ""), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, as the base class, with marked help texts replaced."""
        for each in self.params:
            text = getattr(each, "help", None) or ""
            if text.startswith(_MARK):
                each.help = _read_help(text.removeprefix(_MARK), each.default is None)  # type: ignore[attr-defined]
        return super().get_params(ctx)


def _read_help(text: str, shows_default: bool) -> str:
    """Makes the help text of an option from `MODULE:CLASS.FIELD` and, after a line break, text that is added.

    `Empty:` in the field's description becomes `Default:`, and markup of Rich is escaped.

    Args:
        shows_default: whether the field's default is added, because the option has none that Typer would show.
    """
    place, _, more = text.partition("\n")
    model, _, name = place.rpartition(".")
    field = pkgutil.resolve_name(model).model_fields[name]
    default = field.get_default() if shows_default else None
    shown = f"{default:g}" if isinstance(default, float) else default
    default_text = f"Default: {shown}." if isinstance(shown, str | int) else ""
    # on the command line, an option is omitted instead of a field being empty
    description = re.sub(r"\b([Ee])mpty:", lambda found: f"{'D' if found[1] == 'E' else 'd'}efault:", field.description)
    return escape(" ".join(filter(None, (description, more, default_text))))
