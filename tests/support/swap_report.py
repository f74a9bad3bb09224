"""What a swap of the chat model in the middle of a talk must show, judged from what a client was sent."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.support.arrivals import RealtimeSide, longest_wait_s, n_gaps
from tests.support.soak_verdict import MOST_GAPS, ON_ITS_WAY

MOST_WAIT_S = 0.5
"""Between two frames of the answer. More would be heard as a gap by everybody, whatever a player holds back."""


@dataclass(frozen=True, slots=True)
class Swap:
    """One swap of the back-end; times are in seconds, and None if the event did not come before the next swap.

    Attributes:
        asked_s: when the client asked for the swap.
        changed_s: when the server confirmed it.
        oracle_s: when the first words of an oracle came that the new back-end was asked for.
        n_elsewhere: requests after the confirmation, and before the next swap, that went to another back-end.
    """

    back_end: str
    asked_s: float
    changed_s: float | None
    oracle_s: float | None
    n_elsewhere: int


@dataclass(frozen=True, slots=True)
class SwapReport:
    """What a talk with swaps showed; `broken` has the promises that were not kept, as sentences."""

    swaps: list[Swap]
    n_sent: int
    n_answered: int
    n_missing: int
    n_unasked: int
    n_dropped: int
    n_gaps: int
    longest_wait_s: float
    n_failed: int
    ended: str

    @property
    def broken(self) -> list[str]:
        """Promises that were not kept, as sentences: first those on frames, then those on each swap."""
        return [*self._broken_frames(), *self._broken_swaps()]

    def as_json(self) -> dict[str, Any]:
        """Converts it to a dictionary for JSON, with `broken`."""
        return asdict(self) | {"broken": self.broken}

    def _broken_frames(self) -> Iterator[str]:
        if self.ended:
            yield f"the server ended the session: {self.ended}"
        if self.n_missing:
            yield f"the numbers of the frames are not consecutive: {self.n_missing} are missing"
        if self.n_dropped:
            yield f"{self.n_dropped} frames were dropped"
        if not self.n_sent or self.n_answered < self.n_sent - ON_ITS_WAY:
            yield f"{self.n_answered} of {self.n_sent} frames were answered"
        if self.n_gaps > MOST_GAPS * self.n_sent:
            yield f"a player ran dry {self.n_gaps} times in {self.n_sent} frames: more than {MOST_GAPS:.0%}"
        if self.longest_wait_s > MOST_WAIT_S:
            yield f"a frame came {self.longest_wait_s:.2f} s after the one before: more than {MOST_WAIT_S} s"

    def _broken_swaps(self) -> Iterator[str]:
        if len({swap.back_end for swap in self.swaps}) < 2:
            yield "the chat model was not swapped there and back"
        for number, swap in enumerate(self.swaps, 1):
            who = f"swap {number} to {swap.back_end!r}"
            if swap.changed_s is None:
                yield f"{who} was not confirmed"
            if swap.oracle_s is None:
                yield f"{who}: no oracle of it came before the next swap"
            if swap.n_elsewhere:
                yield f"{who}: {swap.n_elsewhere} requests went elsewhere afterwards"


def report_of(side: RealtimeSide, asked: Sequence[tuple[str, float]], n_sent: int, ended: str = "") -> SwapReport:
    """Makes the report of a talk from what its client was sent.

    Args:
        asked: back-end and time in seconds of each swap that was asked for, in order.
        n_sent: number of frames that the client sent.
        ended: why the server ended the session; empty if it did not.
    """
    runs = list(side.runs())
    n_came = sum(map(len, runs))
    ends_s = [at_s for _, at_s in asked[1:]] + [float("inf")]
    return SwapReport(
        swaps=[_swap(side.events, *each, end_s) for each, end_s in zip(asked, ends_s, strict=True)],
        n_sent=n_sent,
        n_answered=n_came + side.n_unasked,
        n_missing=side.n_missing_in_responses,
        n_unasked=side.n_unasked,
        n_dropped=sum(event["data"]["n_frames"] for event in side.events if event["kind"] == "dropped"),
        n_gaps=sum(n_gaps(run) for run in runs),
        longest_wait_s=max(map(longest_wait_s, runs), default=0.0),
        n_failed=sum(event["kind"] == "oracle_failed" for event in side.events),
        ended=ended,
    )


def _swap(events: Sequence[dict[str, Any]], back_end: str, asked_s: float, end_s: float) -> Swap:
    """Makes the report of one swap from the events between it and `end_s`, at which the next swap was asked for."""
    changed_s = oracle_s = None
    n_elsewhere = 0
    its_own: set[int] = set()
    for event in events:
        data, at_s = event["data"], event["at_s"]
        if not asked_s <= at_s < end_s:
            continue
        if event["kind"] == "changed" and data["back_end"] == back_end:
            changed_s = changed_s or at_s
        elif event["kind"] == "oracle_asked" and changed_s is not None:
            n_elsewhere += data["back_end"] != back_end
            its_own |= {data["oracle"]} if data["back_end"] == back_end else set()
        elif event["kind"] == "oracle" and data["oracle"] in its_own:
            oracle_s = oracle_s or at_s
    return Swap(back_end, asked_s, changed_s, oracle_s, n_elsewhere)
