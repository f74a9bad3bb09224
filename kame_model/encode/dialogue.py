"""Converts one dialogue with its oracles into one token row. All functions here are pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from backends.codec.protocol import Codes
from data_schemas.records import AudioDialogue, OracleEvent, OracleRow, SpokenSentence, Turn, WordTiming
from data_schemas.units import FRAME_S, find_event_frame, round_s
from kame_model.encode.manifest import RowCounts
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.inner_monologue import place_text
from kame_model.frames.oracle_stream import OracleTokens
from kame_model.text.tokenizer import Tokenizer

SPEECH = "speech"
"""Source of rows that are single utterances of the assistant."""

HINT_FROM_R = 0.5
"""Up to this spoken ratio an event has no hint (KAME's level 0)."""


def make_token_row(
    dialogue: AudioDialogue, oracle: OracleRow | None, codes: tuple[Codes, Codes], tokenizer: Tokenizer
) -> tuple[TokenRow, RowCounts]:
    """Makes the token row of a dialogue, and counts what was dropped or moved.

    Args:
        dialogue: its turns with word timings; the audio is not used.
        oracle: None if this version of the oracles has none for the dialogue; its row then has no events.
        codes: codes of A and B, [n_codebooks, n_frames] each.
    """
    n_frames = codes[0].shape[1]
    events = oracle.events if oracle else ()
    a, a_counts = _encode_speaker(dialogue, "A", events, codes[0], tokenizer)
    b, b_counts = _encode_speaker(dialogue, "B", events, codes[1], tokenizer)
    question, answer = find_question_and_answer(dialogue.turns)
    row = TokenRow(
        dialogue_id=dialogue.dialogue_id,
        item_id=dialogue.item_id,
        source=dialogue.source,
        split=dialogue.split,
        form=dialogue.form,
        question=question,
        answer=answer,
        n_frames=n_frames,
        duration_s=dialogue.duration_s,
        a=a,
        b=b,
    )
    own = RowCounts(n_rows=1, n_frames=n_frames, n_without_oracles=int(oracle is None))
    return row, own + a_counts + b_counts


def make_utterance_row(
    said: SpokenSentence, codes: Codes, silence: Codes, before_s: float, tokenizer: Tokenizer
) -> tuple[TokenRow, RowCounts]:
    """Makes the token row of a single utterance of the assistant: no oracle, no answer, and B is silent.

    Args:
        said: the utterance with its word timings.
        codes: codes of A, [n_codebooks, n_frames].
        silence: codes of B, at least as many frames.
        before_s: silence before the utterance's first sample, seconds.
    """
    n_frames = codes.shape[1]
    words = [replace(each, start_s=each.start_s + before_s, end_s=each.end_s + before_s) for each in said.words]
    text = place_text(words, tokenizer, n_frames)
    unsaid = np.full(n_frames, PADDING_ID, np.int32)
    row = TokenRow(
        dialogue_id=said.sentence_id,
        item_id=said.item_id or said.sentence_id,
        source=SPEECH,
        split=said.split,
        form=said.kind,
        question="",
        answer="",
        n_frames=n_frames,
        duration_s=round_s(n_frames * FRAME_S),
        a=_make_tokens_without_oracle(text.tokens, codes),
        b=_make_tokens_without_oracle(unsaid, silence[:, :n_frames]),
    )
    return row, RowCounts(
        n_rows=1, n_frames=n_frames, n_moved_tokens=text.n_moved_tokens, n_cut_tokens=text.n_cut_tokens
    )


def _make_tokens_without_oracle(text: NDArray[np.int32], codes: Codes) -> SpeakerTokens:
    """Makes the tokens of a speaker without oracle events and without an answer."""
    return SpeakerTokens(text, codes, OracleTokens.pack([], [], [], [], [], []), np.zeros(len(text), np.bool_))


def find_answer_words(turn: Turn) -> range:
    """Returns the indices of the words of a turn's answer, up to the end of the sentence; empty without an answer.

    It relies on the pipelines: spoken text has one space between words, and punctuation is attached to words.
    """
    words, start = turn.spoken_text.split(), turn.answer_word_index
    if start is None:
        return range(0)
    ends = (at + 1 for at in range(start, len(words)) if words[at][-1] in ".?!")
    return range(start, next(ends, len(words)))


def find_question_and_answer(turns: Sequence[Turn]) -> tuple[str, str]:
    """Returns what the user said before the turn with the answer, and the words of the answer; both are spoken text.

    That turn is the first that contains the answer and was not cut off; if all were cut off, the first that contains
    part of it. Without such a turn, all that the user said is returned, and an empty answer.
    """
    bearing = [turn for turn in turns if turn.speaker == "A" and turn.answer_word_index is not None]
    tells = next((turn for turn in bearing if turn.cut_s is None), bearing[0] if bearing else None)
    before = turns if tells is None else turns[: turns.index(tells)]
    question = " ".join(turn.spoken_text for turn in before if turn.speaker == "B")
    if tells is None:
        return question, ""
    words = find_answer_words(tells)
    return question, " ".join(tells.spoken_text.split()[words.start : words.stop])


def _encode_speaker(
    dialogue: AudioDialogue, speaker: str, events: Sequence[OracleEvent], codes: Codes, tokenizer: Tokenizer
) -> tuple[SpeakerTokens, RowCounts]:
    """Makes a speaker's tokens, with the oracles of what this speaker will say, and counts moved and cut tokens."""
    n_frames = codes.shape[1]
    said = _find_words(dialogue.turns, speaker)
    text = place_text([word for word, _ in said], tokenizer, n_frames)
    bears_answer = np.asarray([*(bears for _, bears in said), False])  # -1, no word, finds the last
    mask: NDArray[np.bool_] = bears_answer[text.word_of_frame]
    oracle, counts = make_oracle_tokens([each for each in events if each.speaker == speaker], n_frames, tokenizer)
    tokens = SpeakerTokens(text.tokens, codes, oracle, mask)
    return tokens, counts + RowCounts(n_moved_tokens=text.n_moved_tokens, n_cut_tokens=text.n_cut_tokens)


def _find_words(turns: Sequence[Turn], speaker: str) -> list[tuple[WordTiming, bool]]:
    """Returns all words of a speaker, including backchannels, by time, each with whether it is part of the answer."""
    said: list[tuple[WordTiming, bool]] = []
    for turn in turns:
        if turn.speaker != speaker:
            continue
        bearing, n_speech = find_answer_words(turn), 0
        for utterance in turn.utterances:
            is_speech = utterance.kind == "speech"  # `answer_word_index` counts no backchannels
            for word in utterance.words:
                said.append((word, is_speech and n_speech in bearing))
                n_speech += is_speech
    return sorted(said, key=lambda each: each[0].start_s)


def make_oracle_tokens(
    events: Sequence[OracleEvent], n_frames: int, tokenizer: Tokenizer
) -> tuple[OracleTokens, RowCounts]:
    """Encodes the oracle events of one speaker in order of time, with their hints, and counts what was skipped.

    A hint is the true answer of the event's turn, taken from its event with r = 1; events up to r = 0.5 have no hint.
    Events that failed or that come after the last frame are skipped and counted. A run is the events of one turn.
    """
    answered = [each for each in events if each.text is not None]
    kept = sorted((each for each in answered if find_event_frame(each.t_s) < n_frames), key=lambda each: each.t_s)
    truth = {each.turn_index: each.text for each in answered if each.status == "truth"}
    last = {each.turn_index: each.event_id for each in kept}
    encoded: dict[str, list[int]] = defaultdict(list)
    for text in {str(each.text) for each in kept} | {str(each) for each in truth.values()}:
        encoded[text] = tokenizer.encode(text)
    hints = [str(truth.get(each.turn_index, "")) if each.r > HINT_FROM_R else "" for each in kept]
    packed = OracleTokens.pack(
        frame=[find_event_frame(each.t_s) for each in kept],
        ratio=[each.r for each in kept],
        level=[each.level for each in kept],
        skip_forbid=[last[each.turn_index] == each.event_id for each in kept],
        preds=[encoded[str(each.text)] for each in kept],
        hints=[encoded[hint] if hint else [] for hint in hints],
    )
    n_failed, n_late = len(events) - len(answered), len(answered) - len(kept)
    return packed, RowCounts(n_events=len(kept), n_failed_events=n_failed, n_late_events=n_late)
