"""What a real soak of the server must show, judged from what its callers were told: no network, no clock."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

PATHS = ("/api/chat", "/v1/realtime")
MODES = ("tandem", "direct", "cascade")
WAYS = tuple(itertools.product(PATHS, MODES))
MOST_UNANSWERED, MOST_DROPPED, MOST_GAPS = 0.01, 0.01, 0.01
"""Of all frames of callers that did nothing wrong: not answered, thrown away, and after which a player ran dry."""
MOST_OF_ONE = 0.1
"""Of one caller's frames, of each of the three: nobody pays for the good mean of all."""
ON_ITS_WAY = 2
"""Frames of a call that may still be on their way at its end: the last one, and what Opus holds back."""
MOST_UNHEARD = 0.2
"""Of callers whose call no outage of the recogniser touched: those of whom no word was heard."""
TOLD_WITHIN_S = 2.0
"""A caller who talks this long after the recogniser has gone has to be told that nobody hears."""
LOADED = 2
"""Rounds after which all parts have been used by several callers: what is held then is the measure of the rest."""
_MOST_GROWN_MIB, _MOST_A_ROUND_MIB = 256.0, 3.0
"""All in all, and in the middle one of all rounds. A leak grows in each round; the voice's engine grows once, with the
longest sentence so far, and keeps that (170 MiB between 3 and 25 words)."""
_FEWEST_ROUNDS = 5
"""Of which a middle one tells more than chance."""


def words_of(text: str) -> list[str]:
    """Returns a text's words in small letters, without marks; apostrophes are kept."""
    return "".join(char if char.isalpha() or char in "' " else " " for char in text.lower()).split()


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a caller says; `marks` are words of it that are in no other, and that nobody says of his own accord."""

    text: str
    marks: frozenset[str]


SENTENCES = (
    Sentence("How long is the neck of a giraffe, and how much does a giraffe eat?", frozenset({"giraffe"})),
    Sentence("How deep can a submarine go, and why does a submarine not break?", frozenset({"submarine"})),
    Sentence("What makes a volcano wake up, and how hot is a volcano inside?", frozenset({"volcano"})),
    Sentence("How many strings has a violin, and what wood is a violin made of?", frozenset({"violin"})),
    Sentence("Who built the first pyramid, and how tall is the biggest pyramid?", frozenset({"pyramid"})),
)


@dataclass(frozen=True, slots=True)
class Outage:
    """When the recogniser was away, seconds on the callers' clock."""

    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Held:
    """What the server's process holds while nobody is connected."""

    n_files: int
    n_threads: int
    memory_mib: float


@dataclass(slots=True)
class Talk:
    """One call of a caller that did nothing wrong.

    Attributes:
        sentence: index in `SENTENCES`.
        path: of the socket.
        began_s, ended_s: on the callers' clock; the end is when the last frame had been sent.
        n_sent, n_answered, n_gaps: frames, and how often the answer's player ran dry.
        n_dropped: frames thrown away, by direction.
        texts: all text that the caller was told, by kind of event: heard, oracle, said.
        n_events: by kind.
        ended: why the server ended it; empty where the caller did.
    """

    sentence: int
    path: str
    mode: str
    began_s: float = 0.0
    ended_s: float = 0.0
    n_sent: int = 0
    n_answered: int = 0
    n_gaps: int = 0
    n_dropped: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)
    n_events: Counter[str] = field(default_factory=Counter)
    ended: str = ""

    @property
    def n_unanswered(self) -> int:
        """Frames that no answer came for, less those that may be on their way."""
        return max(0, self.n_sent - self.n_answered - ON_ITS_WAY)

    @property
    def who(self) -> str:
        """Description of the caller for messages."""
        return f"a caller in {self.mode} over {self.path} who said {SENTENCES[self.sentence].text!r}"


def broken_promises(talks: Sequence[Talk], outages: Sequence[Outage]) -> list[str]:
    """Returns the promises that were not kept, as sentences; empty if all were kept.

    Args:
        outages: outages of the recogniser, in order.
    """
    return [*_not_shown(talks), *_of_frames(talks), *_of_each(talks), *_of_hearing(talks, outages)]


def _not_shown(talks: Sequence[Talk]) -> Iterator[str]:
    """Yields a sentence for each path and mode in which nobody talked, and one if no oracle came in any call."""
    for path, mode in WAYS:
        if not any((talk.path, talk.mode) == (path, mode) for talk in talks):
            yield f"nobody talked over {path} in mode {mode}"
    if not any(talk.n_events["oracle"] for talk in talks):
        yield "no oracle came in any call"


def _of_frames(talks: Sequence[Talk]) -> Iterator[str]:
    """Yields a sentence each if too many frames of all calls were not answered, were dropped, or came too late."""
    n_sent = max(1, sum(talk.n_sent for talk in talks))
    for what, n, most in (
        ("were not answered", sum(talk.n_unanswered for talk in talks), MOST_UNANSWERED),
        ("were dropped", sum(talk.n_dropped.total() for talk in talks), MOST_DROPPED),
        ("came so late that a player ran dry", sum(talk.n_gaps for talk in talks), MOST_GAPS),
    ):
        if n > most * n_sent:
            yield f"{n} of {n_sent} frames {what}: more than {most:.0%}"


def _of_each(talks: Sequence[Talk]) -> Iterator[str]:
    """Yields sentences on single calls.

    They are on calls that the server ended, without frames, with too many faults, or that were told words of others.
    """
    for talk in talks:
        if talk.ended:
            yield f"{talk.who} was let go: {talk.ended}"
        if not talk.n_sent:
            yield f"{talk.who} said nothing"
        worst = max(talk.n_unanswered, talk.n_dropped.total(), talk.n_gaps)
        if worst > MOST_OF_ONE * talk.n_sent:
            told = f"{talk.n_unanswered} not answered, {talk.n_dropped.total()} dropped, {talk.n_gaps} gaps"
            yield f"{talk.who} sent {talk.n_sent} frames: {told}"
        others = {mark for n, each in enumerate(SENTENCES) if n != talk.sentence for mark in each.marks}
        for kind, text in talk.texts.items():
            if strange := {word for word in words_of(text) if word.rstrip("s").removesuffix("'") in others}:
                yield f"{talk.who} was told {sorted(strange)} ({kind}): {text[:300]!r}"


def _of_hearing(talks: Sequence[Talk], outages: Sequence[Outage]) -> Iterator[str]:
    """Yields sentences on calls of which no word was heard, and on what outages of the recogniser should have shown."""
    undisturbed = [talk for talk in talks if not any(_is_touched(talk, outage) for outage in outages)]
    n_unheard = sum(not talk.texts.get("heard", "").strip() for talk in undisturbed)
    if n_unheard > MOST_UNHEARD * len(undisturbed):
        yield f"no word was heard of {n_unheard} of {len(undisturbed)} callers while the recogniser was there"
    if not outages:
        return
    present = [talk for talk in talks if any(_is_present(talk, outage) for outage in outages)]
    if not present:
        yield "nobody talked when the recogniser went away"
    for talk in present:
        if not talk.n_events["listening_failed"]:
            yield f"{talk.who} was not told that the recogniser had gone"
    if not any(talk.began_s > outages[-1].ended_s for talk in undisturbed):
        yield "nobody talked after the recogniser had come back"


def _is_present(talk: Talk, outage: Outage) -> bool:
    """Whether the caller was there when the recogniser went, and long enough after it to be told."""
    return talk.began_s < outage.began_s and talk.ended_s > outage.began_s + TOLD_WITHIN_S


def _is_touched(talk: Talk, outage: Outage) -> bool:
    """Whether the recogniser was away in the call, or may not have been found again yet: who comes later finds it."""
    return talk.began_s < outage.ended_s and talk.ended_s > outage.began_s


def grown(held: Sequence[Held]) -> list[str]:
    """Returns sentences on what a server held too much more of after its last round than once all was loaded.

    Args:
        held: what it held after each round; at least `LOADED`.
    """
    first, last = held[LOADED - 1], held[-1]
    found = [
        f"{what}: {was:.0f} once all was loaded, {now:.0f} after the last round"
        for what, was, now, more in (
            ("file handles", first.n_files, last.n_files, 2),
            ("threads", first.n_threads, last.n_threads, 2),
            ("MiB", first.memory_mib, last.memory_mib, _MOST_GROWN_MIB),
        )
        if now > was + more
    ]
    a_round = [after.memory_mib - before.memory_mib for before, after in itertools.pairwise(held[LOADED - 1 :])]
    if len(a_round) >= _FEWEST_ROUNDS and (middle := median(a_round)) > _MOST_A_ROUND_MIB:
        found.append(f"MiB: {middle:.1f} more in each round")
    return found
