"""The forms by name. Their default shares stand in `FormShares`, with a reason each."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.forms import (
    backchannel,
    early_start,
    follow_up,
    interruption,
    pauses,
    plain,
    self_correction,
)
from pipelines.script.phrasing import Exchange


@dataclass(frozen=True, slots=True)
class Form:
    """A shape of dialogue: which exchanges it fits, and the turns it makes of one."""

    fits: Callable[[Exchange], bool]
    write: Callable[[Exchange, FormsConfig, random.Random], tuple[Turn, ...]]


FORMS: Final[Mapping[str, Form]] = {
    "plain": Form(plain.fits, plain.write_plain),
    "greeting": Form(plain.fits, plain.write_greeting),
    "two_breaths": Form(pauses.fits_two_breaths, pauses.write_two_breaths),
    "follow_up": Form(follow_up.fits, follow_up.write),
    "interruption": Form(interruption.fits, interruption.write),
    "self_correction": Form(self_correction.fits, self_correction.write),
    "early_start": Form(early_start.fits, early_start.write),
    "backchannel": Form(backchannel.fits, backchannel.write),
    "thinking_pause": Form(pauses.fits_thinking_pause, pauses.write_thinking_pause),
}

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
