"""The wording stage: a chat model rewords the question and the answer of a dialogue, if the meaning is kept.

What the model writes is checked (`faithful.py`) and requested again if it fails. Text without an acceptable wording
keeps the rules' words, and `provenance.script_method` names the reworded turns: `rules-13; turns 0, 1 by NAME`. Turns
that are interrupted at a word, or spoken in several utterances, keep their words, because the script counts them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from backends.chat.client import ask_all
from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from data_schemas import ids
from data_schemas.errors import RequestError
from data_schemas.records import Dialogue, Turn, WrittenSpan
from pipelines.asking import read_prompt_texts
from pipelines.script.forms.turns import make_spoken
from pipelines.stage import StageResult
from pipelines.wording.faithful import NotFaithful, check_wording
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import SpokenText, find_last_words, join_spoken, split_lower_words, split_words

MAX_ATTEMPTS: Final = 3
MAX_TOKENS: Final = 400
_CHECKS_VERSION: Final = 3
"""Rises with what `check_wording` takes. The stage's version would make datasets without new wordings again, too."""
_FEW_WORDS: Final = 5
"""Texts with fewer words are not reworded."""

_SAID_TWICE: Final = frozenset({"self_correction"})
"""Forms whose question has words that are taken back: a new wording could take back the wrong ones."""

TEMPERATURE: Final = 0.7
TurnKey = tuple[str, int]
"""Dialogue id and turn index."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A text to reword, a `question` or an `answer`, and the spoken form of the item's true answer."""

    said: str
    kind: str
    answer: str


class WordingStage:
    """Rewords questions and answers; without an endpoint `run_with` must not be called."""

    name: ClassVar[str] = "wording"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("script",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = Dialogue

    def __init__(self, endpoint: Endpoint | None, seed: int) -> None:
        self._endpoint = endpoint
        self._seed = seed

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the wordings besides the inputs, or that no model is used."""
        if self._endpoint is None:
            return {"model": None}
        model = [self._endpoint.name, self._endpoint.model, self._endpoint.model_digest]
        return {
            "model": model,
            "prompt": ids.digest(read_prompt_texts("pipelines.wording")),
            "attempts": MAX_ATTEMPTS,
            "checks": _CHECKS_VERSION,
            "seed": self._seed,
        }

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[Dialogue]:
        """Returns every dialogue unchanged, in the rules' words; no model is called."""
        return StageResult([dialogue for (dialogue,) in batch], [])

    async def run_with(self, batch: Sequence[tuple[Dialogue]], client: ChatClient) -> StageResult[Dialogue]:
        """Returns every dialogue, with new wordings where the model has written some that keep the meaning.

        Others keep the rules' words; failed requests are repeated by a later run.
        """
        dialogues = [dialogue for (dialogue,) in batch]
        wanted = {
            (dialogue.dialogue_id, turn.turn_index): each
            for dialogue in dialogues
            for turn in dialogue.turns
            if (each := _find_wanted(dialogue, turn)) is not None
        }
        said, n_failed = await self._ask(wanted, client)
        return StageResult([self._apply_wordings(dialogue, said) for dialogue in dialogues], [], n_to_retry=n_failed)

    async def _ask(
        self, wanted: Mapping[TurnKey, _Wanted], client: ChatClient
    ) -> tuple[dict[TurnKey, SpokenText], int]:
        """Requests wordings, again if they fail the checks; returns them by place, and how many requests failed."""
        said: dict[TurnKey, SpokenText] = {}
        failed: set[TurnKey] = set()
        for attempt in range(MAX_ATTEMPTS):
            asked = [place for place in wanted if place not in said and place not in failed]
            payloads = [self._make_payload(place, wanted[place], attempt) for place in asked]
            for place, answer in zip(asked, await ask_all(client, payloads, None, attempt), strict=True):
                if isinstance(answer, RequestError):
                    failed.add(place)
                elif (new := _check_answer(answer, wanted[place])) is not None:
                    said[place] = new
        return said, len(failed)

    def _make_payload(self, place: TurnKey, wanted: _Wanted, attempt: int) -> dict[str, Any]:
        """Makes the request for a wording; each attempt has its own seed."""
        prompt = read_prompt_texts("pipelines.wording")
        request = prompt[wanted.kind].strip().replace("{text}", wanted.said)
        return {
            "messages": [{"role": "system", "content": prompt["system"].strip()}, {"role": "user", "content": request}],
            "max_tokens": MAX_TOKENS,
            "temperature": TEMPERATURE,
            "seed": ids.derive_seed(self._seed, *place, attempt) % 2**31,
        }

    def _apply_wordings(self, dialogue: Dialogue, said: Mapping[TurnKey, SpokenText]) -> Dialogue:
        """Returns a dialogue with the new wordings of its turns; provenance names these turns and the model."""
        turns, by_model = [], []
        for turn in dialogue.turns:
            new = said.get((dialogue.dialogue_id, turn.turn_index))
            turns.append(turn if new is None else _replace_body(dialogue, turn, new))
            by_model += [] if new is None else [str(turn.turn_index)]
        if not by_model:
            return dialogue
        assert self._endpoint is not None
        method = f"{dialogue.provenance.script_method}; turns {', '.join(by_model)} by {self._endpoint.model}"
        provenance = replace(dialogue.provenance, script_method=method)
        return replace(dialogue, turns=tuple(turns), provenance=provenance)


def _find_wanted(dialogue: Dialogue, turn: Turn) -> _Wanted | None:
    """Returns what to reword in a turn: the item's question or its answer, spoken as one utterance.

    Returns None for other turns, which are set phrases; for short ones, and those whose words the script counts or a
    speaker takes back; for answers without the true answer's words; and for questions that contain them, as those do
    that read out options.
    """
    speech = [utterance for utterance in turn.utterances if utterance.kind == "speech"]
    if turn.turn_index in _find_counted_turns(dialogue) or len(speech) != 1 or dialogue.form in _SAID_TWICE:
        return None
    try:
        answer = speak(dialogue.answer).rstrip(".?!,;:")
    except Unspeakable:
        return None  # spoken in other words than written: a new wording could not be checked
    is_answer = turn.speaker == "A" and turn.answer_word_index is not None
    asks = turn.speaker == "B" and _is_first_answer(dialogue, turn.turn_index + 1)
    if len(split_words(turn.body)) < _FEW_WORDS or not (is_answer or asks):
        return None
    has_answer = find_last_words(split_lower_words(answer), split_lower_words(turn.body)) is not None
    if is_answer:
        return _Wanted(turn.body, "answer", answer) if has_answer else None
    return None if has_answer else _Wanted(turn.body, "question", answer)


def _is_first_answer(dialogue: Dialogue, turn_index: int) -> bool:
    """Returns whether a turn is the first one that contains the answer."""
    bearing = [turn.turn_index for turn in dialogue.turns if turn.answer_word_index is not None]
    return bool(bearing) and bearing[0] == turn_index


def _find_counted_turns(dialogue: Dialogue) -> set[int]:
    """Returns the turns whose words the script counted: another speaker interrupts, or speaks over them, at a word."""
    return {
        turn.turn_index - 1 if (over := utterance.placement.turn_index) is None else over
        for turn in dialogue.turns
        for utterance in turn.utterances
        if utterance.placement.word_index is not None
    }


def _check_answer(answer: ChatReply, wanted: _Wanted) -> SpokenText | None:
    """Returns the new wording in a model's reply; None if it fails the checks."""
    try:
        return check_wording(answer.text, wanted.said, wanted.answer, must_answer=wanted.kind == "answer")
    except NotFaithful:
        return None  # requested again; after the last attempt the rules' words stay, and provenance says so


def _replace_body(dialogue: Dialogue, turn: Turn, body: SpokenText) -> Turn:
    """Returns the turn with another body between its lead and tail, with the written span of each word.

    The turn's speech must be one utterance; if it bears the answer, the new body must, too.
    """
    lead, tail = ([] if part is None else [make_spoken(part)] for part in (turn.lead, turn.tail))
    whole = join_spoken([*lead, body, *tail])
    answer_word_index = turn.answer_word_index
    if answer_word_index is not None:
        at = find_last_words(split_lower_words(speak(dialogue.answer)), split_lower_words(body.text))
        assert at is not None  # `check_wording` has found it
        answer_word_index = at + len(split_words(turn.lead or ""))
    spans = tuple(
        WrittenSpan(start_char=None, end_char=None)
        if span is None
        else WrittenSpan(start_char=span[0], end_char=span[1])
        for span in whole.spans
    )
    utterances = tuple(
        replace(each, spoken_text=whole.text, written_spans=spans) if each.kind == "speech" else each
        for each in turn.utterances
    )
    return replace(
        turn,
        written_text=whole.written,
        spoken_text=whole.text,
        body=body.text,
        answer_word_index=answer_word_index,
        utterances=utterances,
    )
