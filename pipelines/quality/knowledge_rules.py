"""Checks that level-0 requests contained no future words, by making them again from masked turns.

A request's id is a prefix of the digest of its payload. A payload made from a dialogue in which everything is masked
that the simulator must not know therefore has the id of the event; otherwise the original contained something else.
"""

from collections.abc import Sequence
from dataclasses import replace

from backends.chat.cache import make_reply_key, make_request_id
from backends.chat.protocol import Endpoint
from data_schemas.config import OracleConfig
from data_schemas.records import OracleRow, Turn, Utterance, WordTiming
from pipelines.oracle.plan import PlannedRequest, plan_dialogue
from pipelines.oracle.prompts import PromptSet, make_payload
from pipelines.oracle.schedule import list_words
from pipelines.quality.measured_rules import BrokenRules
from pipelines.quality.oracle_rules import read_settings
from spoken.spoken_text import split_words

N_REMADE = 64
"""Number of dialogues of each source that are checked; forms are drawn by seed, so all occur among them."""
SENTINEL = "unknown"
"""The replacement for every word that level 0 must not know."""


def check_knowledge(row: OracleRow, turns: Sequence[Turn], prompts: PromptSet) -> BrokenRules:
    """Yields a (rule, finding) pair for each level-0 event whose request contained more than had been said.

    Args:
        row: an oracle row that obeys the other rules.
        turns: the turns of its dialogue.
        prompts: those used for the row (`prompt_files.find_prompts`).
    """
    config = read_settings(row)
    endpoint = Endpoint(row.endpoint or "", "", row.model or "", row.model_digest or "")
    for place, event in enumerate(row.events):
        if event.level > 0 or event.status == "shared" or event.request_id is None:
            continue
        request = _find_request(place, mask_future(turns, event.t_s), config)
        payload = make_payload(prompts, request, config, row.seed, event.attempt or 0)
        if event.request_id != make_request_id(make_reply_key(endpoint, payload, event.attempt or 0)):
            yield "level 0 knows only what was said", f"{event.event_id}: its request was another"


def mask_future(turns: Sequence[Turn], t_s: float) -> list[Turn]:
    """Returns the turns with all words masked that had not been said by a time; times are kept."""
    return [_mask_turn(turn, t_s) for turn in turns]


def _mask_turn(turn: Turn, t_s: float) -> Turn:
    """Returns a turn without any words that had not been said by a time; its lead, body and tail are always masked."""
    utterances = tuple(_mask_utterance(utterance, t_s) for utterance in turn.utterances)
    words = list_words(turn)
    is_said = all(word.end_s <= t_s for word in words) and _has_exact_words(turn.spoken_text, words)
    return replace(
        turn,
        utterances=utterances,
        written_text=SENTINEL,
        spoken_text=turn.spoken_text if is_said else SENTINEL,
        lead=SENTINEL,
        body=SENTINEL,
        tail=SENTINEL,
        answer_word_index=None,
        keyword_delay_s=None,
    )


def _mask_utterance(utterance: Utterance, t_s: float) -> Utterance:
    """Returns an utterance whose words after a time are masked, and its text too unless all of it had been said."""
    words = tuple(_mask_word(word, t_s) for word in utterance.words)
    is_said = words == utterance.words and _has_exact_words(utterance.spoken_text, words)
    return replace(utterance, words=words, spoken_text=utterance.spoken_text if is_said else SENTINEL)


def _has_exact_words(text: str, words: Sequence[WordTiming]) -> bool:
    """Returns whether a text consists of exactly these words, in order; that of a cut-off turn may have more."""
    return split_words(text) == [word.word for word in words]


def _mask_word(word: WordTiming, t_s: float) -> WordTiming:
    """Returns a word as it is if it has ended by a time, else with `SENTINEL` as its text."""
    return word if word.end_s <= t_s else replace(word, word=SENTINEL)


def _find_request(place: int, turns: Sequence[Turn], config: OracleConfig) -> PlannedRequest:
    """Returns the request that is planned for the event at the index `place` of a dialogue with these turns."""
    plan = plan_dialogue(turns, config)
    request = plan.events[place].request
    assert request is not None, "an event of level 0 is asked for"
    return plan.requests[request]
