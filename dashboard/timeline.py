"""Layout of a dialogue's page: words and marks on one time axis, oracle events in lanes, texts side by side."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from typing import Any, Final

from data_schemas.records import AudioDialogue, Turn, Utterance, WordTiming

SPEAKERS: Final = {"B": "user", "A": "assistant"}
"""Order on the page: the user is above the assistant."""
_PAUSE_S = 0.4
"""Minimum length in seconds of a pause that is marked; between words of a sentence it is shorter."""
_OVERLAP_S = 0.05


@dataclass(frozen=True, slots=True)
class ShownWord:
    """A word on the time line. `part`: lead, body or tail of an answer, backchannel, or empty for a user's question."""

    text: str
    start_s: float
    end_s: float
    score: float
    part: str
    bears_answer: bool


@dataclass(frozen=True, slots=True)
class Span:
    """A time span of kind `lead`, `body`, `tail`, `asks`, `backchannel`, `pause`, `overlap` or `cut`."""

    kind: str
    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A text, and whether it differs from the text beside it."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn's texts: written, spoken, and as transcribed by a recogniser (None without a transcript)."""

    turn: Turn
    who: str
    written: list[DiffPiece]
    spoken: list[DiffPiece]
    heard: list[DiffPiece] | None
    n_words: int
    n_word_errors: int
    n_takes: int


@dataclass(frozen=True, slots=True)
class ShownOracle:
    """An oracle's text from its arrival until the next one, or until the end of the dialogue.

    `label_end_s` is the start of the next one of its level, or the end of the dialogue. `times_s` are the times of its
    events: the first one, and those that repeat it.
    """

    start_s: float
    end_s: float
    label_end_s: float
    times_s: list[float]
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Content of a dialogue's page."""

    words: dict[str, list[ShownWord]]
    spans: dict[str, list[Span]]
    marks: list[Span]
    lanes: dict[int, list[ShownOracle]]
    turns: list[ShownTurn]


def lay_out(row: AudioDialogue, events: Sequence[Mapping[str, Any]]) -> Timeline:
    """Returns the content of a dialogue's page: words, spans and marks in time, lanes of oracles, and texts of turns.

    Args:
        events: oracle events of one version and one direction, in order of time.
    """
    words: dict[str, list[ShownWord]] = {speaker: [] for speaker in SPEAKERS}
    spans: dict[str, list[Span]] = {speaker: [] for speaker in SPEAKERS}
    for turn in row.turns:
        shown = list(_list_words(turn))
        words[turn.speaker] += shown
        spans[turn.speaker] += _find_spans(turn, shown)
    for speaker in SPEAKERS:
        words[speaker].sort(key=lambda one: one.start_s)
        spans[speaker].sort(key=lambda one: one.start_s)
    return Timeline(
        words=words,
        spans=spans,
        marks=[*_find_cuts(row.turns), *_find_overlaps(words), *_find_pauses(words)],
        lanes=_make_lanes(events, row.duration_s),
        turns=[_make_shown_turn(turn) for turn in row.turns],
    )


def _keep_letters(text: str) -> str:
    """Returns the letters and digits of a text in lower case."""
    return "".join(re.findall(r"\w", text)).lower()


def _list_words(turn: Turn) -> Iterator[ShownWord]:
    """Yields the words of a turn; words of an answer with their part, found by the number of letters before."""
    n_lead = len(_keep_letters(turn.lead or ""))
    n_body = n_lead + len(_keep_letters(turn.body))
    n_before, index = 0, 0
    for utterance in turn.utterances:
        for word in utterance.words:
            if utterance.kind == "backchannel":
                part = "backchannel"
            elif turn.speaker == "B":
                part = ""
            else:
                part = "lead" if n_before < n_lead else "body" if n_before < n_body else "tail"
            is_speech = utterance.kind != "backchannel"
            bears = is_speech and index == turn.answer_word_index
            yield ShownWord(word.word, word.start_s, word.end_s, word.score, part, bears)
            if is_speech:
                n_before += len(_keep_letters(word.word))
                index += 1


def _find_spans(turn: Turn, words: Sequence[ShownWord]) -> Iterator[Span]:
    """Yields the time spans of consecutive words of one part."""
    run: list[ShownWord] = []
    for word in words:
        if run and run[-1].part != word.part:
            yield _make_span(turn, run)
            run = []
        run.append(word)
    if run:
        yield _make_span(turn, run)


def _make_span(turn: Turn, run: Sequence[ShownWord]) -> Span:
    """Makes the span from the first to the last of some words; of a user's question it has the kind `asks`."""
    return Span(run[0].part or "asks", run[0].start_s, run[-1].end_s, f"turn {turn.turn_index}")


def _find_cuts(turns: Iterable[Turn]) -> Iterator[Span]:
    """Yields a span without duration where a turn is cut off."""
    for turn in turns:
        if turn.cut_s is not None:
            yield Span("cut", turn.cut_s, turn.cut_s, f"{SPEAKERS[turn.speaker]} is cut off")


def _find_speech(words: Iterable[ShownWord]) -> list[tuple[float, float]]:
    """Returns start and end, in seconds, of each stretch of words without a pause of 0.4 s, in order."""
    stretches: list[tuple[float, float]] = []
    for word in sorted(words, key=lambda one: one.start_s):
        if stretches and word.start_s - stretches[-1][1] < _PAUSE_S:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], word.end_s))
        else:
            stretches.append((word.start_s, word.end_s))
    return stretches


def _find_overlaps(words: Mapping[str, Sequence[ShownWord]]) -> Iterator[Span]:
    """Yields the spans of at least 50 ms in which both speak."""
    for first in _find_speech(words["A"]):
        for second in _find_speech(words["B"]):
            start_s, end_s = max(first[0], second[0]), min(first[1], second[1])
            if end_s - start_s >= _OVERLAP_S:
                yield Span("overlap", start_s, end_s, f"both speak, {end_s - start_s:.2f} s")


def _find_pauses(words: Mapping[str, Sequence[ShownWord]]) -> Iterator[Span]:
    """Yields the spans of at least 0.4 s in which neither speaks."""
    for (_, start_s), (end_s, _) in pairwise(_find_speech([*words["A"], *words["B"]])):
        yield Span("pause", start_s, end_s, f"{end_s - start_s:.1f} s")


def _make_lanes(events: Sequence[Mapping[str, Any]], duration_s: float) -> dict[int, list[ShownOracle]]:
    """Returns the oracles by hint level, in order; consecutive events with equal text, turn and error are one."""
    runs: list[list[Mapping[str, Any]]] = []
    for event in events:
        before = runs[-1][-1] if runs else None
        if before and all(event[name] == before[name] for name in ("text", "level", "turn_index", "error")):
            runs[-1].append(event)
        else:
            runs.append([event])
    lanes: dict[int, list[ShownOracle]] = {}
    for run, after in zip_longest(runs, runs[1:]):
        level = run[0]["level"]
        same = next(
            (each[0]["t_s"] for each in runs if each[0]["level"] == level and each[0]["t_s"] > run[-1]["t_s"]), None
        )
        lanes.setdefault(level, []).append(
            ShownOracle(
                start_s=run[0]["t_s"],
                end_s=after[0]["t_s"] if after else duration_s,
                label_end_s=duration_s if same is None else same,
                times_s=[each["t_s"] for each in run],
                event=run[0],
            )
        )
    return dict(sorted(lanes.items()))


def _make_shown_turn(turn: Turn) -> ShownTurn:
    """Returns the written, spoken and recognised texts of a turn, without backchannels, for display side by side."""
    speech = [each for each in turn.utterances if each.kind != "backchannel"]
    heard = [each.hearing for each in speech if each.hearing is not None]
    spoken_words = turn.spoken_text.split()
    heard_words = " ".join(each.text for each in heard).split()
    spoken, heard_pieces = (
        compare_words(spoken_words, heard_words) if heard else ([DiffPiece(turn.spoken_text, False)], None)
    )
    return ShownTurn(
        turn=turn,
        who=SPEAKERS[turn.speaker],
        written=_make_written_pieces(turn, speech),
        spoken=spoken,
        heard=heard_pieces,
        n_words=sum(each.n_words for each in heard),
        n_word_errors=sum(each.n_word_errors for each in heard),
        n_takes=sum(each.n_takes for each in heard),
    )


def compare_words(
    left: Sequence[str], right: Sequence[str], key: Callable[[str], str] = _keep_letters
) -> tuple[list[DiffPiece], list[DiffPiece]]:
    """Compares two texts, given as words; returns the pieces of each, marked if they differ from the other text.

    Args:
        key: what of a word is compared; by default its letters, ignoring case and marks.
    """
    matcher = SequenceMatcher(None, [key(each) for each in left], [key(each) for each in right], False)
    pieces: tuple[list[DiffPiece], list[DiffPiece]] = ([], [])
    for tag, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        for side, words in ((0, left[left_from:left_to]), (1, right[right_from:right_to])):
            if words:
                pieces[side].append(DiffPiece(" ".join(words), tag != "equal"))
    return pieces


def _make_written_pieces(turn: Turn, speech: Sequence[Utterance]) -> list[DiffPiece]:
    """Returns a turn's written text, with marks where it is spoken in other words (numbers, signs), by their spans."""
    said: dict[tuple[int, int], list[str]] = {}
    for utterance in speech:
        for word, span in zip(_split_spoken_words(utterance), utterance.written_spans, strict=False):
            if span.start_char is not None and span.end_char is not None:
                said.setdefault((span.start_char, span.end_char), []).append(word)
    pieces, at = [], 0
    for (start, end), words in sorted(said.items()):
        if start < at:
            continue  # it reads a place that another word has read already
        if _keep_letters(turn.written_text[start:end]) != _keep_letters("".join(words)):
            pieces += [DiffPiece(turn.written_text[at:start], False), DiffPiece(turn.written_text[start:end], True)]
            at = end
    return [each for each in (*pieces, DiffPiece(turn.written_text[at:], False)) if each.text]


def _split_spoken_words(utterance: Utterance) -> list[str]:
    """Returns the spoken words to which `written_spans` belong, also those without a time in an interrupted turn.

    If the text has another number of words than spans, the words with a time are returned.
    """
    timed: Sequence[WordTiming] = utterance.words
    words = re.findall(r"[^\W_]+(?:'[^\W_]+)*", utterance.spoken_text)
    return words if len(words) == len(utterance.written_spans) else [each.word for each in timed]
