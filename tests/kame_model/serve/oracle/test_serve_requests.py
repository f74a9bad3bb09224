"""One request to a chat model that thinks before it answers; on a clock that jumps."""

import asyncio

import pytest

from data_schemas.errors import AnswerCut
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.requests import read_answer
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.session.conversation import Conversation
from spoken.oracle_text import UnusableAnswer
from tests.support.timed_chat import Step, TimedChat

pytestmark = [pytest.mark.looptime]

THOUGHT: Step = (1.0, "")


async def answer(*steps: Step, max_thought_s: float = 10.0) -> str:
    """The whole answer of a model that is asked for 8 tokens and may be silent for 2 s."""
    back_end = BackEnd("a", TimedChat(steps), load_prompt("tandem"), max_tokens=8, max_thought_s=max_thought_s)
    conversation = Conversation(12, lambda: asyncio.get_running_loop().time())
    return "".join([piece async for piece in read_answer(back_end, conversation.make_messages(back_end.prompt), 2.0)])


async def test_thinking_is_no_silence_and_takes_no_token_of_the_answer_s() -> None:
    assert await answer(*[(0.2, "")] * 40, (0.1, "Saturn"), (0.1, ".")) == "Saturn."


async def test_a_thought_that_takes_too_long_is_told_and_not_asked_for_again() -> None:
    with pytest.raises(UnusableAnswer, match=r"still thinking after 3\.5 s") as raised:
        await answer(*[THOUGHT] * 20, (0.1, "Saturn."), max_thought_s=3.5)
    assert "max_thought_s" in raised.value.remedy
    assert asyncio.get_running_loop().time() == pytest.approx(3.5)


async def test_silence_in_a_thought_or_after_it_is_silence() -> None:
    for steps in ([THOUGHT, (5.0, "Saturn.")], [THOUGHT, (0.1, "It "), (5.0, "is.")]):
        before_s = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await answer(*steps)
        assert asyncio.get_running_loop().time() - before_s < 3.5


@pytest.mark.parametrize("end", [[], [(0.1, AnswerCut("cut"))]])
async def test_nothing_but_thoughts_is_no_answer_and_would_come_again(end: list[Step]) -> None:
    with pytest.raises(UnusableAnswer, match="nothing but thoughts") as raised:
        await answer(THOUGHT, *end)
    assert "docs/llm.md" in raised.value.remedy


async def test_an_answer_after_thoughts_may_be_cut() -> None:
    with pytest.raises(AnswerCut):
        await answer(THOUGHT, (0.1, "It is"), (0.1, AnswerCut("cut")))
    assert await answer() == ""
