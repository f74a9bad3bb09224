"""Places the utterances of a dialogue on its clock, in samples: gaps, early starts, interruptions, backchannels."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from data_schemas.config import MixingConfig
from data_schemas.records import Dialogue, Placement, Turn, UtteranceClip, UtteranceWords, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds, seconds_to_samples
from spoken.spoken_text import split_words

LEAD_OUTLASTS_S = 1.0
"""Minimum time, in seconds, that the lead of an early answer lasts beyond the question: the oracle arrives then."""

MOST_CUT_S = 0.3
"""Maximum time, in seconds, from an interruption until the assistant is silent."""

_LEAST_EARLY_S = 0.05
_BREATH_S = 0.1  # between a speaker's backchannel and their next utterance

Key = tuple[int, int]
"""Turn index and utterance index."""


class NoPlace(Exception):
    """The utterances of a dialogue cannot be placed as its script requires; `reason` is the reject's."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedUtterance:
    """A placed utterance: it occupies the samples [start, end) of the dialogue.

    `words` are those that are still spoken, timed from the start of the utterance. `is_cut` means that it ends before
    its clip does.
    """

    speaker: str
    is_speech: bool
    start: int
    end: int
    words: tuple[WordTiming, ...]
    is_cut: bool = False

    def get_word_end(self, index: int) -> int:
        """Returns the first sample of the dialogue after the end of word `index` of this utterance."""
        return self.start + math.ceil(self.words[index].end_s * SAMPLE_RATE_HZ - 0.02)  # 0.02: stored times are rounded


@dataclass(frozen=True, slots=True)
class Layout:
    """All utterances that are spoken, without what follows a cut; the indices of cut turns; the dialogue's length."""

    utterances: dict[Key, PlacedUtterance]
    cut_turns: frozenset[int]
    n_samples: int


def lay_out(
    dialogue: Dialogue,
    clips: Sequence[UtteranceClip],
    words: Sequence[UtteranceWords],
    config: MixingConfig,
    draw: random.Random,
) -> Layout:
    """Returns when each utterance of a dialogue is spoken, and the length of the dialogue.

    The backchannels over a turn are placed as soon as that turn is; silence follows the last utterance.

    Raises:
        NoPlace: `lead_too_short` for an early start, `word_not_said` if a placement names a word that the turn does not
            have or no longer has, `no_room` if a speaker would say two things at once.
        ValueError: a placement has an unknown rule, or lacks the turn, word or time that its rule needs.
    """
    clock = _Clock(
        dialogue,
        {(clip.turn_index, clip.utterance_index): clip.n_samples for clip in clips},
        {(each.turn_index, each.utterance_index): each.words for each in words},
        config,
        draw,
    )
    for turn in dialogue.turns:
        clock.lay_turn(turn)
        clock.lay_backchannels_over(turn)
    clock.check_placements()
    last = max(each.end for each in clock.laid.values())
    return Layout(clock.laid, frozenset(clock.cut_turns), last + seconds_to_samples(config.after_s))


@dataclass(slots=True)
class _Clock:
    """Places the utterances of a dialogue one after another, and has those placed so far."""

    dialogue: Dialogue
    n_samples: Mapping[Key, int]
    words: Mapping[Key, tuple[WordTiming, ...]]
    config: MixingConfig
    draw: random.Random
    laid: dict[Key, PlacedUtterance] = field(default_factory=dict)
    cut_turns: set[int] = field(default_factory=set)

    def lay_turn(self, turn: Turn) -> None:
        """Places the speech of a turn, without its backchannels, which are said over other turns."""
        for index, utterance in enumerate(turn.utterances):
            if utterance.kind == "speech":
                self._add_utterance(turn, index, self._find_start(turn, index))

    def lay_backchannels_over(self, other: Turn) -> None:
        """Places all backchannels that are said over a turn, which is placed, each after the word that it names.

        Raises:
            NoPlace, ValueError: as `lay_out`.
        """
        for turn in self.dialogue.turns:
            for index, utterance in enumerate(turn.utterances):
                place = utterance.placement
                if utterance.kind != "speech" and place.turn_index == other.turn_index:
                    laid, word = self._find_word(other.turn_index, place.word_index)
                    self._add_utterance(turn, index, laid.get_word_end(word) + _get_offset_samples(place))

    def check_placements(self) -> None:
        """Checks that every backchannel is placed, and that no speaker says two things at once.

        Raises:
            NoPlace: a speaker does.
            ValueError: a backchannel names no turn to be said over.
        """
        asides = {
            (turn.turn_index, index)
            for turn in self.dialogue.turns
            for index, each in enumerate(turn.utterances)
            if each.kind != "speech"
        }
        if lost := asides - self.laid.keys():
            raise ValueError(f"{self.dialogue.dialogue_id}: backchannels with no turn to be said over: {sorted(lost)}")
        ends: dict[str, int] = {}
        for laid in sorted(self.laid.values(), key=lambda each: each.start):
            if laid.start < ends.get(laid.speaker, 0):
                raise NoPlace("no_room", f"{laid.speaker} still speaks at {samples_to_seconds(laid.start):.2f} s")
            ends[laid.speaker] = laid.end

    def _add_utterance(self, turn: Turn, index: int, start: int) -> None:
        """Places a whole utterance at the sample `start`."""
        key = turn.turn_index, index
        self.laid[key] = PlacedUtterance(
            speaker=turn.speaker,
            is_speech=turn.utterances[index].kind == "speech",
            start=start,
            end=start + self.n_samples[key],
            words=self.words[key],
        )

    def _find_start(self, turn: Turn, index: int) -> int:
        """Returns the first sample of an utterance of speech, by its placement.

        If that is an interruption, the interrupted turn is cut too.

        Raises:
            NoPlace, ValueError: as `lay_out`.
        """
        place = turn.utterances[index].placement
        if place.rule == "early":
            return self._compute_early_start(turn, index)
        if place.rule == "interrupt":
            return self._start_interruption(turn, place)
        if place.rule != "after":
            raise ValueError(f"{self.dialogue.dialogue_id}: speech cannot be placed by the rule {place.rule!r}")
        return self._compute_start_after_speech(turn, place)

    def _compute_start_after_speech(self, turn: Turn, place: Placement) -> int:
        """Returns the start of an utterance that follows all speech so far, after the given pause or else a drawn one.

        It also follows the speaker's own backchannels.
        """
        ends = [laid.end for laid in self.laid.values() if laid.is_speech]
        config = self.config
        bounds_s = (config.gap_min_s, config.gap_max_s) if ends else (config.before_min_s, config.before_max_s)
        drawn_s = self.draw.uniform(*bounds_s)  # always drawn, so that one placement does not change other gaps
        start = max(ends, default=0) + seconds_to_samples(drawn_s if place.seconds is None else place.seconds)
        asides = [laid.end for laid in self.laid.values() if laid.speaker == turn.speaker and not laid.is_speech]
        return max([start, *(end + seconds_to_samples(_BREATH_S) for end in asides)])

    def _compute_early_start(self, turn: Turn, index: int) -> int:
        """Returns the start of an answer, up to its placement's `seconds` before the end of the question.

        The lead must outlast the question by `LEAD_OUTLASTS_S`, and half of the question's last utterance is heard
        alone.

        Raises:
            NoPlace: the lead is too short for an early start.
        """
        question = max((laid for laid in self.laid.values() if laid.is_speech), key=lambda each: each.end)
        n_lead = len(split_words(turn.lead or ""))
        lead = self.words[turn.turn_index, index][:n_lead]
        lead_s = lead[-1].end_s if lead else 0.0
        early = min(
            _get_offset_samples(turn.utterances[index].placement),
            math.floor((lead_s - LEAD_OUTLASTS_S) * SAMPLE_RATE_HZ),
            (question.end - question.start) // 2,
        )
        if early < seconds_to_samples(_LEAST_EARLY_S):
            raise NoPlace("lead_too_short", f"a lead of {lead_s:.2f} s lets turn {turn.turn_index} not start early")
        return question.end - early

    def _start_interruption(self, turn: Turn, place: Placement) -> int:
        """Cuts the other speaker's last turn, and returns the start of the interruption.

        It starts at the end of the word that its placement names; the turn is cut the placement's `seconds` later.

        Raises:
            NoPlace: a backchannel would come later, or the turn no longer has that word.
            ValueError: the other speaker has no turn yet, or the placement names no word.
        """
        others = [index for (index, _), laid in self.laid.items() if laid.is_speech and laid.speaker != turn.speaker]
        if not others:
            raise ValueError(f"{self.dialogue.dialogue_id}: turn {turn.turn_index} interrupts nobody")
        other = max(others)
        laid, word = self._find_word(other, place.word_index)
        start = laid.get_word_end(word)
        if any(each.end > start for each in self.laid.values() if not each.is_speech):
            raise NoPlace("no_room", f"a backchannel comes after turn {turn.turn_index} has interrupted")
        self._cut_turn(other, start + _get_offset_samples(place))
        return start

    def _cut_turn(self, turn_index: int, cut: int) -> None:
        """Ends a placed turn at the sample `cut`; an utterance that would keep no whole word is removed."""
        for key, laid in list(self._list_speech(turn_index)):
            if laid.end <= cut:
                continue
            self.cut_turns.add(turn_index)
            n_words = sum(laid.get_word_end(index) <= cut for index in range(len(laid.words)))
            if n_words == 0:
                del self.laid[key]
            else:
                self.laid[key] = replace(laid, end=cut, words=laid.words[:n_words], is_cut=True)

    def _find_word(self, turn_index: int, word_index: int | None) -> tuple[PlacedUtterance, int]:
        """Returns the utterance that contains a turn's word, and the word's index in it.

        Raises:
            NoPlace: `word_not_said`: the turn has fewer words.
            ValueError: `word_index` is None.
        """
        if word_index is None:
            raise ValueError(f"{self.dialogue.dialogue_id}: a placement in turn {turn_index} names no word")
        left = word_index
        for _, laid in self._list_speech(turn_index):
            if left < len(laid.words):
                return laid, left
            left -= len(laid.words)
        raise NoPlace("word_not_said", f"turn {turn_index} has no word {word_index}")

    def _list_speech(self, turn_index: int) -> Iterator[tuple[Key, PlacedUtterance]]:
        """Returns the placed utterances of a turn in order, without backchannels."""
        return ((key, laid) for key, laid in sorted(self.laid.items()) if key[0] == turn_index and laid.is_speech)


def _get_offset_samples(place: Placement) -> int:
    """Returns the seconds of a placement in samples; raises `ValueError` if it has none."""
    if place.seconds is None:
        raise ValueError(f"a placement of the rule {place.rule!r} says no seconds")
    return seconds_to_samples(place.seconds)
