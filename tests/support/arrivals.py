"""Frames of a server as they came: which are missing, and how often a player would have run dry."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from data_schemas.units import FRAME_S
from kame_model.serve.client.talk_record import PLAYER_S


class Arrived(NamedTuple):
    """A frame by its number on the session's clock, and when it came, seconds."""

    number: int
    at_s: float


def n_missing(frames: Sequence[Arrived]) -> int:
    """Returns how many frames are missing between others; a number that comes twice or too early counts as well."""
    return sum(abs(after.number - before.number - 1) for before, after in pairwise(frames))


def n_gaps(frames: Sequence[Arrived]) -> int:
    """Returns how often a player that holds back `PLAYER_S` runs dry, as `talk_record.Player` counts it."""
    gaps, held_s = 0, float("-inf")
    for index, frame in enumerate(frames):
        way_s = frame.at_s - frame.number * FRAME_S
        if way_s > held_s:
            gaps += index > 0
            held_s = way_s + PLAYER_S
    return gaps


def longest_wait_s(frames: Sequence[Arrived]) -> float:
    """Returns the longest time between a frame and the next, in seconds; 0 for fewer than two frames."""
    return max((after.at_s - before.at_s for before, after in pairwise(frames)), default=0.0)


@dataclass(slots=True)
class RealtimeSide:
    """What a client of `/v1/realtime` is sent: frames by the response they are of, and our events.

    A client that asks for a response at once and whenever one is done (`asks_again`) is sent every frame but those that
    pass while it asks.

    Attributes:
        responses: frames of each; a response is never continued after another has begun.
        resets: how many responses had begun when the session began anew, for each time.
        events: our events, each with `at_s`, when it came.
        errors: the protocol's.
    """

    responses: list[list[Arrived]] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def take(self, message: dict[str, Any], at_s: float) -> None:
        """Takes the next message, which came at `at_s`; messages that are not kept are ignored."""
        match message["type"]:
            case "response.created":
                self.responses.append([])
            case "response.output_audio.delta":
                self.responses[-1].append(Arrived(message["kame_frame"], at_s))
            case "error":
                self.errors[message["error"]["code"]] += 1
            case "kame.event":
                event = message["event"]
                if event["kind"] == "started" and self.events:
                    self.resets.append(len(self.responses))
                self.events.append({"at_s": at_s, **event})
            case _:
                pass

    @staticmethod
    def asks_again(message: dict[str, Any]) -> bool:
        """Whether a client that wants every frame asks for a response now."""
        return bool(message["type"] in ("session.created", "response.done"))

    def runs(self) -> Iterator[list[Arrived]]:
        """Yields the frames of each beginning of the session; their numbers start anew with each."""
        for start, end in pairwise((0, *self.resets, len(self.responses))):
            yield [frame for response in self.responses[start:end] for frame in response]

    @property
    def n_missing_in_responses(self) -> int:
        """Frames missing where the server has no reason to leave one out."""
        return sum(n_missing(response) for response in self.responses)

    @property
    def n_unasked(self) -> int:
        """Frames that passed before the first response and between two, while the client asked for one."""
        n_before = sum(run[0].number for run in self.runs() if run)
        return n_before + sum(n_missing(run) for run in self.runs()) - self.n_missing_in_responses
