"""What happens when a back-end fails, stalls or heals; on a clock that jumps."""

import asyncio
import random
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import pytest

from data_schemas.errors import AnswerCut, AnswerRefused, BackendError, RequestError, UnexpectedThought
from kame_model.serve.oracle.cycle import MAX_TRIES
from kame_model.serve.oracle.routing import Router
from kame_model.text.tokenizer import Tokenizer
from tests.support.timed_chat import QUICK, SIXTY, CycleTalk, Step, TimedChat

DOWN = BackendError("nobody is there.")


@pytest.mark.parametrize("stalling", [[(60.0, "late")], [(0.1, "she earned it "), (60.0, "late")]])
def test_an_answer_that_stalls_fails_and_the_next_one_is_heard(tokenizer: Tokenizer, stalling: list[Step]) -> None:
    chat = TimedChat(stalling, QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, first_token_timeout_s=2.0)
    talk.plays("How many litres.", 10)
    assert talk.told("oracle_failed") == [{"oracle": 1, "back_end": "a", "reason": "nothing came for 2 s"}]
    assert talk.queued() == SIXTY
    assert talk.counts.n_failed == 1
    assert talk.counts.n_answered == 1


def test_a_back_end_that_is_down_is_asked_less_often_and_heals(tokenizer: Tokenizer) -> None:
    chat = TimedChat(*[[(0.01, DOWN)]] * 6, QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)
    talk.runs(lambda: talk.speaks(" ".join(["many"] * 300), is_final=False))
    waits = [round(after - before, 2) for before, after in pairwise(chat.asked_s[:7])]
    assert waits == [0.31, 0.61, 1.21, 2.41, 4.81, 4.81]
    healed = chat.asked_s[7:]
    assert all(after - before == pytest.approx(0.3) for before, after in pairwise(healed))
    assert len(talk.told("oracle_failed")) == 6
    assert talk.told("oracle_failed")[0] == {"oracle": 1, "back_end": "a", "reason": "nobody is there."}


def test_the_same_words_are_asked_for_a_few_times_only(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.01, RequestError("refused."))])
    CycleTalk(tokenizer, {"a": chat}).plays("How many.", 100, "How many litres.", 100)
    assert len(chat.asked_s) == 2 * MAX_TRIES


@pytest.mark.parametrize("piece", ["many ", "many litres\nmany ", "x" * 1_000])
def test_an_answer_that_never_ends_is_cut(tokenizer: Tokenizer, piece: str) -> None:
    chat = TimedChat([(0.01, piece)] * 10_000)
    talk = CycleTalk(tokenizer, {"a": chat})
    talk.plays("How many litres.", 50)
    assert chat.ended_s[0] < 1.5  # 128 pieces at most: twice the tokens that it was asked for
    assert chat.given_up == [0]
    assert len(talk.told("oracle_done") + talk.told("oracle_failed")) == 1  # no word has a thousand letters


class Lost(Router):
    """Chooses nobody."""

    async def choose(self, text: str, own: str) -> str:
        raise BackendError("The classifier failed.")


def test_a_classifier_s_fault_is_a_failure_that_is_shown(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, Lost(["a"]))
    talk.plays("How many litres.", 30)
    assert chat.asked_s == []
    assert [data["reason"] for data in talk.told("oracle_failed")] == ["The classifier failed."] * MAX_TRIES


def test_a_connection_that_closes_in_disorder_is_no_failure_of_what_is_asked_next(tokenizer: Tokenizer) -> None:
    class Disorderly(TimedChat):
        async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
            try:
                async for piece in super().stream(payload):
                    yield piece
            except asyncio.CancelledError:
                raise BackendError("the connection was closed in disorder") from None

    talk = CycleTalk(tokenizer, {"a": Disorderly([(5.0, "late")], QUICK)}, first_token_timeout_s=9.0)
    talk.plays("How many litres.", 1, talk.cycle.reset, 1, "And how many now.", 2)
    assert talk.queued() == SIXTY
    assert talk.told("oracle_failed") == []
    assert (talk.counts.n_given_up, talk.counts.n_failed, talk.counts.n_answered) == (1, 0, 1)


async def test_a_fault_of_ours_ends_the_cycle_instead_of_going_unseen(tokenizer: Tokenizer) -> None:
    talk = CycleTalk(tokenizer, {"a": TimedChat([(0.1, ZeroDivisionError())])})

    talk.user("How many litres", is_final=True)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(talk.cycle.run(), 5)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_places_are_kept_and_the_last_turn_is_answered(tokenizer: Tokenizer, seed: int) -> None:
    draw = random.Random(seed)
    begins: list[str | Exception] = ["It is ", DOWN]
    answers: list[list[Step]] = [
        [(draw.uniform(0.01, 2), draw.choice(begins)), (draw.uniform(0.01, 1), "so.")] for _ in range(200)
    ]
    chat = TimedChat(*answers, QUICK)
    most = draw.randint(1, 3)
    talk = CycleTalk(tokenizer, {"a": chat}, max_in_flight=most, interval_s=draw.uniform(0.1, 0.5))

    async def course() -> None:
        for turn in range(6):
            await talk.speaks(f"How many more litres are needed to fill tank {turn}", word_s=draw.uniform(0.05, 0.4))
            await asyncio.sleep(draw.uniform(0, 3))
            if draw.random() < 0.3:
                talk.cycle.reset()
                talk.queue.reset()
        chat._answers = (QUICK,)
        talk.user("And how many litres now", is_final=True)
        await asyncio.sleep(10)

    talk.runs(course)
    counts = talk.counts
    assert chat.most_open <= most + 1  # one that is being given up has a moment left
    assert counts.n_asked == counts.n_answered + counts.n_given_up + counts.n_failed == len(chat.asked_s)
    assert talk.queued().endswith(SIXTY)
    assert len(talk.told("oracle_failed")) == counts.n_failed


def asked_once(chat: TimedChat, tokenizer: Tokenizer) -> CycleTalk:
    """A talk in which one question was asked, and time has passed."""
    talk = CycleTalk(tokenizer, {"a": chat}, first_token_timeout_s=2.0)
    talk.plays("How many litres.", 60)
    return talk


@pytest.mark.parametrize(
    ("steps", "reasons", "queued"),
    [
        ([(0.1, "I'm sorry, but I cannot help.")], ["The chat model refuses to answer."], ""),
        ([(0.1, "It is sixty litres. She earned"), (0.1, AnswerCut("cut"))], [], SIXTY),
        ([*QUICK, (0.1, UnexpectedThought("It thinks aloud."))], ["It thinks aloud."], ""),
        ([(0.1, AnswerRefused("Its filter refused."))], ["Its filter refused."], ""),
        ([(0.1, "你好")], ["The answer cannot be said (non_latin: 你好)."], ""),
        ([(1.0, "")] * 100, ["The chat model was still thinking after 10 s."], ""),
    ],
    ids=["refusal", "half sentence", "thought aloud", "filter", "not sayable", "thinks too long"],
)
def test_what_is_no_answer_is_not_whispered_and_is_asked_for_once(
    tokenizer: Tokenizer, steps: list[Step], reasons: list[str], queued: str
) -> None:
    chat = TimedChat(steps)
    talk = asked_once(chat, tokenizer)
    assert [each["reason"] for each in talk.told("oracle_failed")] == reasons
    assert (talk.queued().rstrip("."), len(chat.asked_s)) == (queued, 1)
    assert chat.given_up == [0] or len(steps) < 100, "what never ends is cancelled"


def test_a_sentence_that_cannot_be_said_is_left_out_and_told(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "It is sixty litres. That lies in [0, 1]."), (0.1, " See https://example.com/a?b.")])
    talk = asked_once(chat, tokenizer)
    assert talk.queued().rstrip(".") == SIXTY.rstrip(".")
    assert ["cannot be said" in each["reason"] for each in talk.told("sentence_left_out")] == [True, True]
    assert talk.told("oracle_failed") == []
    assert [each["oracle"] for each in talk.told("oracle_done")] == [1]
    assert talk.counts.n_answered == 1
