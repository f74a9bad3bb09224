"""A session's chat model is changed again and again between two real servers while a caller talks over the network.

Two llama.cpp servers of the embedded engine, each with a prompt of its own, behind the real `kame serve`. The caller's
frames go by its own clock whatever comes of them, and every frame of the answer has its number, so that a swap that
holds up or loses one is seen.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from backends.protocols import Samples
from backends.tts.kokoro import Kokoro
from benchmarks.serve_arrivals import RealtimeSide, longest_wait_s, n_gaps
from benchmarks.serve_process import Running, running
from benchmarks.serve_realtime import RealtimeCall
from benchmarks.serve_verdict import MOST_GAPS, ON_ITS_WAY, SENTENCES
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.serve.prompts import Prompt
from kame_model.serve.talk import in_real_time

TURN_S = 15.0
"""From one sentence of the caller to the next: time enough for an answer on a machine with much else to do."""
_INTO_TURN_S = 2.0
"""The swap comes in the middle of a sentence."""
MOST_WAIT_S = 0.5
"""Between two frames of the answer. More would be heard as a gap by everybody, whatever a player holds back."""
PROMPTS = {"plain": "You are friendly.", "pirate": "You are a pirate."}
"""Short ones, for machines without an accelerator."""


@dataclass(frozen=True, slots=True)
class Swap:
    """One swap: when it was asked for and in force, and when the first words of the new back-end's oracle came.

    Attributes:
        n_elsewhere: requests after it, and before the next, that went to another back-end.
    """

    back_end: str
    asked_s: float
    changed_s: float | None
    oracle_s: float | None
    n_elsewhere: int


@dataclass(frozen=True, slots=True)
class SwapReport:
    """What came of it; `broken` are promises that were not kept, in words."""

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
        """Frames first, then each swap."""
        return [*self._broken_frames(), *self._broken_swaps()]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
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
    """What a client that was sent this makes of it.

    Args:
        asked: the swaps asked for, back-end and when.
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
    """What the events between a swap and the next say of it."""
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


def swap(checkpoint: str, n_swaps: int, settings: Sequence[str], on_swap: Callable[[Swap], None]) -> SwapReport:
    """The whole of it, on a server started for it.

    Args:
        on_swap: told of each swap at the end.

    Raises:
        RunError: the server does not start, or does not end.
    """
    sound = _sound(n_swaps)
    with tempfile.TemporaryDirectory() as folder:
        own = [f"back_ends={json.dumps(_back_ends(Path(folder)))}", "limits.max_sessions=1"]
        with running(checkpoint, [*own, *settings]) as server:
            report = asyncio.run(_talk(server, sound, n_swaps))
    for each in report.swaps:
        on_swap(each)
    return report


async def _talk(server: Running, sound: Samples, n_swaps: int) -> SwapReport:
    clock = asyncio.get_running_loop().time
    asked: list[tuple[str, float]] = []
    async with RealtimeCall(server.url) as call:
        began_s = clock()
        saying = asyncio.create_task(call.say(in_real_time(sound, 0.0)))
        for number in range(n_swaps):
            await asyncio.sleep(began_s + number * TURN_S + _INTO_TURN_S - clock())
            back_end = tuple(PROMPTS)[(number + 1) % len(PROMPTS)]
            asked.append((back_end, clock()))
            await call.change(back_end=back_end)
        await saying
        await call.until_answered()
        return report_of(call.side, asked, call.n_sent, call.ended)


def _sound(n_turns: int) -> Samples:
    """One sentence in each turn, silence after it."""
    kokoro = Kokoro()
    voice = kokoro.voices()[0].name
    n_samples = round(TURN_S * SAMPLE_RATE_HZ)
    said = [kokoro.synthesise(each.text, voice, 1.0).samples[:n_samples] for each in SENTENCES]
    turns = [np.pad(said[number % len(said)], (0, n_samples)) for number in range(n_turns)]
    return np.concatenate([turn[:n_samples] for turn in turns])


def _back_ends(folder: Path) -> list[dict[str, Any]]:
    """Two, each with a server of its own: they are told apart by what the endpoint is called."""
    back_ends = []
    for name, instructions in PROMPTS.items():
        file = folder / f"{name}.yaml"
        prompt = Prompt(
            version=name,
            instructions=instructions,
            system="Answer in one short sentence.",
            unfinished="{history}{heard}",
            finished="{history}{heard}",
            stop=["\n"],
        )
        file.write_text(yaml.safe_dump(prompt.model_dump()), encoding="utf-8")
        back_ends.append({"name": name, "prompt": str(file), "max_tokens": 24, "chat": {"endpoint": name}})
    return back_ends
