"""Options that set one field of a configuration class: their help text is the field's description.

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


def make_field_option(name: str, field: str, more: str = "", **options: Any) -> Any:
    """Makes an option whose help text is the description of a field.

    Args:
        name: of the option, such as `--seed`.
        field: module, class and field: `data_schemas.config:RefreshConfig.seed`.
        more: text that is added to the description; `{default}` stands for the field's default value.
        options: other arguments of `typer.Option`.
    """
    return typer.Option(name, help=f"{_MARK}{field}\n{more}", **options)


class CommandApp(typer.Typer):
    """A group of commands that may have such options."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Adds a command, as `typer.Typer.command`."""
        return super().command(name, cls=_FieldHelpCommand, **options)


class _FieldHelpCommand(TyperCommand):
    """A command whose options' help texts are read from fields when they are needed."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, as the base class, with marked help texts replaced."""
        for each in self.params:
            text = getattr(each, "help", None) or ""
            if text.startswith(_MARK):
                each.help = _read_help(text.removeprefix(_MARK))  # type: ignore[attr-defined]
        return super().get_params(ctx)


def _read_help(text: str) -> str:
    """Makes the help text of an option from `MODULE:CLASS.FIELD` and, after a line break, text that is added.

    `Empty:` in the field's description becomes `Default:`, and markup of Rich is escaped.
    """
    place, _, more = text.partition("\n")
    model, _, name = place.rpartition(".")
    field = pkgutil.resolve_name(model).model_fields[name]
    default = ", ".join(field.default) if isinstance(field.default, list) else field.default
    # on the command line, an option is omitted instead of a field being empty
    description = re.sub(r"\b([Ee])mpty:", lambda found: f"{'D' if found[1] == 'E' else 'd'}efault:", field.description)
    return escape(f"{description} {more.format(default=default)}".strip())
