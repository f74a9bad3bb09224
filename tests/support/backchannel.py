"""Calls in which the assistant says a backchannel across the end of the question, and its answer three seconds later."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from backends.engine import Samples
from data_schemas.units import seconds_to_samples
from kame_model.evaluate.calls.call import Call, CalledServer
from tests.support.serving import saying

RUNS_OVER_S: Final = 0.1
"""How long the backchannel continues after the question's end."""
ANSWERS_AFTER_S: Final = 3.0
"""When the answer begins, from the question's end."""

_make_call = CalledServer.call


def call_with_backchannel(server: CalledServer, *given: Any, **named: Any) -> Call:
    """Makes a call as `CalledServer.call` does, and replaces what the assistant said around the first question."""
    call = _make_call(server, *given, **named)
    end_s = call.turns[0][1]
    sound = np.zeros(max(len(call.user), seconds_to_samples(end_s + ANSWERS_AFTER_S + 1)), np.float32)
    for start_s, spoken in _speak(end_s):
        start = seconds_to_samples(start_s)
        sound[start : start + len(spoken)] = spoken
    return replace(call, assistant=sound)


def _speak(end_s: float) -> Iterator[tuple[float, Samples]]:
    """Yields what is said, and from when."""
    tone = saying("alpha", 10)
    yield end_s - RUNS_OVER_S, tone[: seconds_to_samples(2 * RUNS_OVER_S)]
    yield end_s + ANSWERS_AFTER_S, tone
