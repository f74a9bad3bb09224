"""Items, and the dialogues of turns, utterances and words that are made from them."""

from dataclasses import dataclass
from typing import Literal, Self

from data_schemas import ids

Speaker = Literal["A", "B"]  # A: the assistant, left channel; B: the user, right channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question with its answer, as in its source.

    `answer` is the final answer, or the text of the right option. `explanation` is the reasoning, if the source has
    one. `options` is empty for an open question. `picture` is the path of a picture that belongs to the question,
    `picture_digest` a hash of its content (null: no picture), and `picture_text` a description by a model of what the
    question needs from it.
    """

    item_id: str
    group_id: str
    source: str
    native_id: str | None
    split: str
    language: str
    question: str
    answer: str
    explanation: str | None
    options: tuple[str, ...]
    answer_index: int | None
    category: str | None
    picture: str | None
    picture_digest: str | None
    picture_text: str | None
    licence: str | None
    revision: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTiming:
    """One spoken word and its time; `score` is the aligner's: higher is better, comparable within one `method`."""

    word: str
    start_s: float
    end_s: float
    score: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSpan:
    """Characters of the turn's `written_text` that a spoken word came from; nulls if there are none."""

    start_char: int | None
    end_char: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Position of an utterance in time, as planned by the script before any time is known.

    `after`: `seconds` of silence after all speech before it (null: drawn by the mixing stage). `early`: the assistant
    starts at most `seconds` before the user's turn ends. `interrupt`: starts at the end of word `word_index` of the
    other's last turn, which is then cut off `seconds` later. `over`: starts `seconds` after the end of word
    `word_index` of the other's turn `turn_index`, which goes on (backchannels). `recorded`: as in a recorded session.
    """

    rule: str
    seconds: float | None
    turn_index: int | None
    word_index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """Result of a recogniser for an utterance; counts, so that they can be summed over utterances.

    `n_words` is the number of reference words and `n_word_errors` that of substitutions, deletions and insertions;
    numbers and names are counted separately. `n_takes` is the number of attempts until it passed the checks.
    """

    text: str
    n_words: int
    n_word_errors: int
    n_numbers: int
    n_numbers_heard: int
    n_names: int
    n_names_heard: int
    n_takes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One piece of speech. `kind` is `speech` or `backchannel`; a backchannel counts neither in r nor in the history.

    `written_spans` has one span per spoken word. `hearing` is null if no recogniser was used.
    """

    kind: str
    spoken_text: str
    written_spans: tuple[WrittenSpan, ...]
    placement: Placement
    hearing: Hearing | None
    voice: str | None
    speed: float | None
    start_s: float | None
    end_s: float | None
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One speaker's turn. `written_text` is the planned text as it is written; `spoken_text` is as it was spoken.

    An assistant's turn is lead + body + tail; `body` alone is the true answer (hint of levels 1-4, text of level 5).
    `answer_word_index` is the turn's first word that carries the answer, `keyword_delay_s` its time after the start
    of the turn. A turn that was interrupted has `cut_s`, the time at which it stops: words that would have ended later
    are not in its utterances, while `written_text`, `lead`, `body` and `tail` stay as planned.
    """

    turn_index: int
    speaker: str
    written_text: str
    spoken_text: str
    lead: str | None
    body: str
    tail: str | None
    answer_word_index: int | None
    keyword_delay_s: float | None
    cut_s: float | None
    start_s: float | None
    end_s: float | None
    utterances: tuple[Utterance, ...]


USERS_BY = "; users by "
"""Separator in `Provenance.tts` before the engine of the user's voices, if it is not the assistant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of each part of a dialogue, summarised in the card. `asr` is the recogniser that checked it, or null.

    `tts` is the engine of both speakers, or the assistant's and the user's as `piper; users by kokoro`; then
    `tts_digest` has both digests, separated by `; `.
    """

    script_method: str
    tts: str | None
    tts_digest: str | None
    voice_a: str | None
    voice_b: str | None
    asr: str | None
    asr_digest: str | None
    aligner: str | None
    aligner_digest: str | None
    seed: int | None

    @classmethod
    def from_script(cls, script_method: str, seed: int | None) -> Self:
        """Returns the provenance of a dialogue that is not synthesised yet."""
        return cls(
            script_method=script_method,
            tts=None,
            tts_digest=None,
            voice_a=None,
            voice_b=None,
            asr=None,
            asr_digest=None,
            aligner=None,
            aligner_digest=None,
            seed=seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Turns of a user and an assistant made from an item; a data shard's row without its audio."""

    dialogue_id: str
    item_id: str
    group_id: str
    source: str
    native_id: str | None
    variant: int
    split: str
    language: str
    category: str | None
    licence: str | None
    revision: str | None
    form: str
    question: str
    answer: str
    turns: tuple[Turn, ...]
    provenance: Provenance

    @classmethod
    def from_item(
        cls,
        item: Item,
        variant: int,
        *,
        form: str,
        question: str,
        answer: str,
        turns: tuple[Turn, ...],
        provenance: Provenance,
    ) -> Self:
        """Makes a dialogue of an item; fields that are not given are copied from the item."""
        return cls(
            dialogue_id=ids.make_dialogue_id(item.item_id, variant),
            item_id=item.item_id,
            group_id=item.group_id,
            source=item.source,
            native_id=item.native_id,
            variant=variant,
            split=item.split,
            language=item.language,
            category=item.category,
            licence=item.licence,
            revision=item.revision,
            form=form,
            question=question,
            answer=answer,
            turns=turns,
            provenance=provenance,
        )
