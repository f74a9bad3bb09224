"""Timed dialogues of every form for tests of oracles, a word every 0.35 s, and a chat model by a function."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from data_schemas import ids
from data_schemas.config import ChatConfig, MixingConfig, OracleConfig
from data_schemas.errors import RequestError
from data_schemas.records import Dialogue, Turn, Utterance, UtteranceClip, UtteranceWords, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, round_s
from pipelines.mixing.layout import NoPlace, lay_out
from pipelines.mixing.timing import place_turn
from pipelines.oracle.prompts import choose_prompts
from pipelines.oracle.stage import OracleStage
from spoken.spoken_text import split_words
from tests.support.builders import make_dialogue, make_turn, make_utterance

WORD_S = 0.35
QUESTION = "How many apples does Anna have when she picks twelve of them on each of four days?"
ANSWER = "She has forty eight apples, because four times twelve is forty eight."
NEXT_QUESTION = "And how many are left when she gives ten of them away to her neighbour?"
NEXT_ANSWER = "Then thirty eight apples are left in her basket."


def said(text: str, start_s: float, n_words: int | None = None, **fields: Any) -> Utterance:
    """Makes an utterance that begins at a time; of its words, only the first `n_words` were said (None: all)."""
    words = [
        WordTiming(
            word=word,
            start_s=round_s(start_s + place * WORD_S),
            end_s=round_s(start_s + (place + 0.9) * WORD_S),
            score=0.0,
            method="made",
        )
        for place, word in enumerate(split_words(text)[:n_words])
    ]
    shown = text if n_words is None else " ".join(word.word for word in words)
    return make_utterance(shown, words, **fields)


def ends_s(utterance: Utterance) -> float:
    """Returns the end of the last word of an utterance, in seconds."""
    return utterance.words[-1].end_s


def answer_turn(index: int, text: str, start_s: float) -> Turn:
    """An answer between a lead and a tail."""
    utterance = said(f"Let me think. {text} Anything else?", start_s)
    return make_turn(index, "A", [utterance], lead="Let me think.", body=text, tail="Anything else?")


def plain(asks: str = QUESTION, answers: str = ANSWER, **fields: Any) -> Dialogue:
    """A question and its answer."""
    asked = said(asks, 0.4)
    return make_dialogue(make_turn(0, "B", [asked]), answer_turn(1, answers, ends_s(asked) + 0.5), **fields)


def two_breaths(**fields: Any) -> Dialogue:
    """A question with a pause of two seconds in it."""
    first = said(QUESTION[:31], 0.4)
    second = said(QUESTION[31:], ends_s(first) + 2)
    turn = make_turn(0, "B", [first, second])
    return make_dialogue(turn, answer_turn(1, ANSWER, ends_s(second) + 0.5), form="two_breaths", **fields)


def greeting(**fields: Any) -> Dialogue:
    """The two greet, then the user asks."""
    hello = said("Hello there, I have got a question.", 0.2)
    hello_too = said("Hello, what is it?", ends_s(hello) + 0.3)
    asked = said(QUESTION, ends_s(hello_too) + 0.4)
    turns = [make_turn(0, "B", [hello]), make_turn(1, "A", [hello_too]), make_turn(2, "B", [asked])]
    return make_dialogue(*turns, answer_turn(3, ANSWER, ends_s(asked) + 0.5), form="greeting", **fields)


def follow_up(**fields: Any) -> Dialogue:
    """A second question after the first answer."""
    first = plain().turns
    asked = said(NEXT_QUESTION, ends_s(first[1].utterances[-1]) + 0.6)
    turns = [*first, make_turn(2, "B", [asked]), answer_turn(3, NEXT_ANSWER, ends_s(asked) + 0.5)]
    return make_dialogue(*turns, form="follow_up", **fields)


def interruption(**fields: Any) -> Dialogue:
    """The user cuts into the first answer, which stops 0.5 s later."""
    question, answer = plain().turns
    whole = answer.utterances[0]
    asked = said(NEXT_QUESTION, whole.words[6].end_s)
    cut_s = asked.words[0].start_s + 0.5
    spoken = said(whole.spoken_text, whole.words[0].start_s, sum(word.end_s <= cut_s for word in whole.words))
    cut = make_turn(1, "A", [spoken], written_text=whole.spoken_text, lead=answer.lead, body=answer.body, cut_s=cut_s)
    turns = [question, cut, make_turn(2, "B", [asked]), answer_turn(3, NEXT_ANSWER, ends_s(asked) + 0.5)]
    return make_dialogue(*turns, form="interruption", **fields)


def early_start(**fields: Any) -> Dialogue:
    """The assistant begins while the user still speaks."""
    asked = said(QUESTION, 0.4)
    answer = answer_turn(1, ANSWER, asked.words[-3].start_s)
    return make_dialogue(make_turn(0, "B", [asked]), answer, form="early_start", **fields)


def backchannel(**fields: Any) -> Dialogue:
    """The assistant nods while the user speaks."""
    asked = said(QUESTION, 0.4)
    nod = said("okay", asked.words[4].start_s, kind="backchannel")
    answer = said(ANSWER, ends_s(asked) + 0.5)
    turns = [make_turn(0, "B", [asked]), make_turn(1, "A", [nod, answer], body=ANSWER)]
    return make_dialogue(*turns, form="backchannel", **fields)


FORMS: tuple[Callable[..., Dialogue], ...] = (
    plain,
    two_breaths,
    greeting,
    follow_up,
    interruption,
    early_start,
    backchannel,
)
"""One maker a form of dialogue."""


def laid_out(dialogue: Dialogue) -> Dialogue | None:
    """Places a dialogue of the script stage on the mixing stage's clock, a word every 0.35 s; None if that fails."""
    clips, words = [], []
    for turn in dialogue.turns:
        for index, each in enumerate(turn.utterances):
            timed = said(each.spoken_text, 0.0).words
            key = {"turn_index": turn.turn_index, "utterance_index": index}
            n_samples = round(len(timed) * WORD_S * SAMPLE_RATE_HZ)
            clips.append(
                UtteranceClip(**key, voice="made", speed=1.0, n_samples=n_samples, flac=b"", words=timed, hearing=None)
            )
            words.append(UtteranceWords(**key, words=timed))
    draw = random.Random(ids.derive_seed("laid out", dialogue.dialogue_id))
    try:
        layout = lay_out(dialogue, clips, words, MixingConfig(), draw)
    except NoPlace:
        return None
    by_key = {(clip.turn_index, clip.utterance_index): clip for clip in clips}
    return replace(dialogue, turns=tuple(place_turn(turn, layout, by_key) for turn in dialogue.turns))


DOUBLE = Endpoint("double", "", "double", "double-1")
USABLE = "I think that she may have quite a few of them in the end."


class Scripted:
    """A chat model that answers by a function of payload and attempt; what it returns as an error is raised."""

    def __init__(self, answer: Callable[[dict[str, Any], int], str | Exception] = lambda *_: USABLE) -> None:
        self.answer = answer
        self.asked: list[tuple[dict[str, Any], int]] = []
        self.who: tuple[str | None, str | None] = (None, None)

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        self.asked.append((payload, attempt))
        told = self.answer(payload, attempt)
        if isinstance(told, Exception):
            raise told
        return ChatReply(told, f"request-{len(self.asked)}", 10, 0, 5, False, None, *self.who)

    @property
    def prompts(self) -> list[str]:
        """The last message of each request, in the order of asking."""
        return [payload["messages"][-1]["content"] for payload, _ in self.asked]


def refused_request() -> RequestError:
    """Makes the error that a client raises for a request that is lost."""
    return RequestError("Request 1 was refused.")


def oracle_stage(config: OracleConfig, seed: int = 0, endpoint: Endpoint = DOUBLE) -> OracleStage:
    """Makes the stage with the prompts that a run with the embedded model would give it."""
    return OracleStage(config, seed, endpoint, choose_prompts(config, ChatConfig()))


def batch_of(dialogues: Sequence[Dialogue]) -> list[tuple[Dialogue]]:
    """Converts dialogues to the inputs of a stage."""
    return [(dialogue,) for dialogue in dialogues]


def opened(client: Scripted) -> Callable[[], AbstractAsyncContextManager[ChatClient]]:
    """Returns a function that opens the client, as a stage takes it."""

    @asynccontextmanager
    async def open_client() -> AsyncIterator[ChatClient]:
        yield client

    return open_client
