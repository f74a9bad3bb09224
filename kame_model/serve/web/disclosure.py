"""What callers are told: of a fault that there is one, for why is the host's to know; and what they consent to."""

import hashlib
from dataclasses import replace

from kame_model.serve.session.events import EventKind, SessionEvent

_FAULTS: dict[EventKind, str] = {
    "listening_failed": "The recogniser does not work just now.",
    "oracle_failed": "The chat model did not answer as it should.",
}


def for_callers(event: SessionEvent) -> SessionEvent:
    """An event as its caller is told it.

    Reasons of back-ends hold addresses inside the host's network and words of foreign servers; what failed stands in
    the log (backends/listener, `BackEndCycle`). An empty reason, of a fault that is over, stays empty.
    """
    reason = _FAULTS.get(event.kind)
    if reason is None or not event.data.get("reason"):
        return event
    return replace(event, data={**event.data, "reason": reason})


def consent_to(notice: str) -> str:
    """The word by which a caller agrees to be recorded; only who was given the notice with it can know it.

    It is of the notice alone: where that changes, nobody has agreed to it yet.
    """
    return hashlib.sha256(notice.encode()).hexdigest()[:32]
