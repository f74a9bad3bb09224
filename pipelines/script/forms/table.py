"""The forms by name: each has a share in `FormShares`, with its reason, and a file of its name here.

A file has `fits(exchange)`, which exchanges the form is for, and `write(exchange, config, rng)`, the turns it makes of
one. docs/extending.md has an example.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from data_schemas.config import FormsConfig, FormShares
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Form:
    """A shape of dialogue: which exchanges it fits, and the turns it makes of one."""

    fits: Callable[[Exchange], bool]
    write: Callable[[Exchange, FormsConfig, random.Random], tuple[Turn, ...]]


def _load_form(name: str) -> Form:
    """The form whose file has that name."""
    file = import_module(f"pipelines.script.forms.{name}")
    return Form(file.fits, file.write)


FORMS: Final[Mapping[str, Form]] = {name: _load_form(name) for name in FormShares.model_fields}

RECORDED: Final = "recorded"
"""The form of what people and a server really said: nobody wrote it, so it is none of `FORMS`."""


def draw_form(exchange: Exchange, config: FormsConfig, rng: random.Random) -> str | None:
    """The name of a form, drawn by the configured shares among those that fit; None where none does.

    A form that fits 70% of the items is made of that much less than its share, and the others of more in proportion:
    nothing makes up for it, for a dialogue's form depends on no other item.
    """
    shares = config.shares.model_dump()
    fitting = [name for name, form in FORMS.items() if shares[name] > 0 and form.fits(exchange)]
    return rng.choices(fitting, [shares[name] for name in fitting])[0] if fitting else None
