"""What a recogniser hears of a free run's own sound."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from backends.codec.protocol import Codec
from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.evaluate.conditions import question_end_frame
from kame_model.evaluate.proof import Outcome, Ran
from kame_model.evaluate.said import times_said

Hearing = Callable[[Samples], Sequence[str]]
"""A sound at 24 kHz to the words heard in it, as they are said (digits read out), in small letters."""


def listened(ran: Ran, codec: Codec, hear: Hearing) -> Outcome:
    """The outcome with what is heard of the model's voice once the question was heard."""
    sound = codec.decode(ran.run.own)[question_end_frame(ran.row) * FRAME_N_SAMPLES :]
    words = list(hear(sound))
    return replace(ran.outcome, heard=" ".join(words), n_heard=times_said(ran.outcome.answer.split(), words))
