"""The registry of forms: each has a share in `FormShares`, with its reason, and a file with its name here.

A file has `fits(exchange)`, whether the form suits an exchange, and `write(exchange, config, rng)`, which makes its
turns. docs/extending.md has an example.
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
class DialogueForm:
    """A form of dialogue: which exchanges it fits, and how it makes their turns."""

    fits: Callable[[Exchange], bool]
    write: Callable[[Exchange, FormsConfig, random.Random], tuple[Turn, ...]]


def _load_form(name: str) -> DialogueForm:
    """Returns the form whose functions are in the file with its name."""
    file = import_module(f"pipelines.script.forms.{name}")
    return DialogueForm(file.fits, file.write)


FORMS: Final[Mapping[str, DialogueForm]] = {name: _load_form(name) for name in FormShares.model_fields}

RECORDED: Final = "recorded"
"""The form of recorded sessions, which have no script and are therefore not in `FORMS`."""


def draw_form(exchange: Exchange, config: FormsConfig, rng: random.Random) -> str | None:
    """Draws the name of a form by the configured shares, from those that fit; None if none does.

    A form that fits 70% of the items is used that much less than its share, and the others proportionally more. Nothing
    compensates for that, since a dialogue's form depends on no other item.
    """
    shares = config.shares.model_dump()
    fitting = [name for name, form in FORMS.items() if shares[name] > 0 and form.fits(exchange)]
    return rng.choices(fitting, [shares[name] for name in fitting])[0] if fitting else None
