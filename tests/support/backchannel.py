"""Calls in which the assistant says a backchannel across the end of the first question, and answers much later."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from data_schemas.units import seconds_to_samples
from kame_model.evaluate.calls.call import Call, CalledServer
from tests.support.serving import saying

BACKCHANNEL_S: Final = (-0.1, 0.1)
"""From when to when the backchannel is heard, seconds from the question's end."""
ANSWER_S: Final = (3.0, 3.8)
"""The same for the answer."""

_make_call = CalledServer.call


def call_with_backchannel(server: CalledServer, *given: Any, **named: Any) -> Call:
    """Makes a call as `CalledServer.call` does, and replaces all that the assistant said.

    Use it in place of that method:

        monkeypatch.setattr(CalledServer, "call", call_with_backchannel)

    Its words (`Call.pieces`) are still those that the server sent.
    """
    call = _make_call(server, *given, **named)
    end_s = call.turns[0][1]
    spans = [
        (seconds_to_samples(end_s + from_s), seconds_to_samples(end_s + to_s))
        for from_s, to_s in (BACKCHANNEL_S, ANSWER_S)
    ]
    sound = np.zeros(max(len(call.user), spans[-1][1]), np.float32)
    tone = saying("alpha", 20)
    for start, end in spans:
        sound[start:end] = tone[: end - start]
    return replace(call, assistant=sound)
