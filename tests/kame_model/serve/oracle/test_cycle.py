"""When the back-end is asked, and which answer is heard; on a clock that jumps."""

import asyncio
from pathlib import Path

import pytest

from data_schemas.config.serving import RouteConfig
from data_schemas.errors import AnswerRefused, BackendError, ConfigError
from data_schemas.guesses import Guesses
from kame_model.serve.oracle.routing import Router
from kame_model.text.tokenizer import Tokenizer
from tests.support.timed_chat import QUICK, SIXTY, SLOW, CycleTalk, TimedChat
from tests.support.vocabularies import make_vocabulary

QUESTION = "How many more litres are needed to fill it to the top"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder)


def test_it_asks_as_the_transcript_grows_and_at_once_when_the_turn_has_ended(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)

    async def course() -> None:
        await talk.speaks(QUESTION, word_s=0.11)
        await asyncio.sleep(5)

    talk.runs(course)
    assert chat.asked_s == [0.11, 0.41, 0.71, 1.01, 1.31, 1.32]  # from the second word on; the last for the ended turn
    assert chat.heard[0].startswith("User (unfinished): How many ...")
    assert chat.heard[-1].startswith(f"User: {QUESTION}\n")
    assert [data["n_words"] for data in talk.told("oracle_asked")] == [2, 4, 7, 10, 12, 12]
    assert talk.queued() == SIXTY
    assert talk.told("oracle_done")[-1] == {"oracle": 6, "n_tokens": len(tokenizer.encode("It is sixty litres."))}
    assert [data["age_s"] for data in talk.told("oracle")[-3:]] == [0.1, 0.15, 0.2]


def test_one_word_is_too_little_unless_it_is_the_turn(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, min_words=2)

    async def course() -> None:
        talk.user("Wait")
        await asyncio.sleep(2)
        assert chat.asked_s == []
        talk.user("Wait", is_final=True)
        await asyncio.sleep(2)
        talk.user("", is_final=True)  # a noise

    talk.runs(course)
    assert chat.asked_s == [2.0]


def test_words_that_were_none_after_all_are_not_asked_for(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)

    async def course() -> None:
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(0.1)
        talk.conversation.add_assistant_text(" Sixty.")
        talk.user("uh huh")  # waits for the interval
        talk.user("", is_final=True)
        await asyncio.sleep(5)
        talk.user("", is_final=True)
        await asyncio.sleep(5)

    talk.runs(course)
    assert chat.asked_s == [0.0]


def test_an_older_answer_goes_on_until_the_newer_one_has_words(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW, [(0.5, "It is "), (0.1, "sixty litres "), (0.1, "more.")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.3)
        talk.user("How many litres")
        await asyncio.sleep(2)

    talk.runs(course)
    assert chat.given_up == [0]
    assert chat.ended_s[0] == 0.8  # when the newer one had a whole word
    assert talk.queued() == "it is sixty litres more"
    oracles = [data["oracle"] for data in talk.told("oracle")]
    assert oracles == sorted(oracles)
    assert set(oracles) == {1, 2}


def test_an_empty_newer_answer_ends_nothing(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "she earned "), (1, "it all")], [(0.1, " ")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.3)
        talk.user("How many litres")
        await asyncio.sleep(0.9)

    talk.runs(course)
    assert talk.queued() == "she earned it all"
    assert "empty" in talk.told("oracle_failed")[0]["reason"]


def test_a_back_end_slower_than_the_user_speaks_is_heard_all_the_same(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(1.5, "It is sixty litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.1, max_in_flight=2)

    async def course() -> None:
        await talk.speaks(" ".join(["many"] * 60), is_final=False)

    talk.runs(course)
    assert chat.most_open <= 2
    assert len(talk.told("oracle_done")) >= 3


@pytest.mark.parametrize(("guesses", "queued"), [("withdraw", SIXTY), ("feed", "she earned it " + SIXTY)])
def test_a_guess_is_withdrawn_once_the_whole_question_is_sent(
    tokenizer: Tokenizer, guesses: Guesses, queued: str
) -> None:
    chat = TimedChat([(0.9, "she earned it all. "), (9, "late")], [(2, "It is sixty litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, guesses=guesses)
    heard: list[str] = []

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.5)
        talk.user("How many litres", is_final=True)
        for _ in range(2):
            await asyncio.sleep(1.6)
            heard.append(talk.queued())

    talk.runs(course)
    assert " ".join(filter(None, heard)) == queued
    assert chat.given_up == [0]
    assert chat.ended_s[0] == (0.5 if guesses == "withdraw" else 2.5)


def test_what_waits_of_a_guess_is_discarded_once_the_whole_question_is_sent(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "she earned it all. ")], [(2, "It is sixty litres.")])
    talk = CycleTalk(tokenizer, {"a": chat})

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.3)
        talk.queue.pop()
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(1)
        assert talk.queued() == ""
        await asyncio.sleep(2)

    talk.runs(course)
    assert talk.queued() == SIXTY


def test_an_answer_to_the_whole_question_is_held_until_the_turn_ends_and_not_asked_for_again(
    tokenizer: Tokenizer,
) -> None:
    chat = TimedChat([(0.1, "she earned it all.")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.5)
        talk.user("How many litres")
        await asyncio.sleep(1)
        assert talk.queued() == "", "neither the guess nor the answer before the turn has ended"
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(0.01)
        assert talk.queued() == SIXTY, "at once"
        await asyncio.sleep(2)

    talk.runs(course)
    assert chat.asked_s == [0.0, 0.5]
    assert talk.queued() == ""
    assert [told["text"] for told in talk.told("oracle")] == ["It is sixty litres."]


def test_held_answers_tell_the_question_so_far_as_if_it_were_finished(tokenizer: Tokenizer) -> None:
    held, whole = (TimedChat(QUICK) for _ in range(2))
    for chat, guesses, is_final in ((held, "hold", False), (whole, "withdraw", True)):
        talk = CycleTalk(tokenizer, {"a": chat}, guesses=guesses)

        async def course(talk: CycleTalk = talk, is_final: bool = is_final) -> None:
            talk.user("How many litres", is_final=is_final)
            await asyncio.sleep(1)

        talk.runs(course)
    assert held.heard == whole.heard


def test_an_answer_that_is_being_written_when_the_turn_ends_is_fed_as_it_goes_on(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.4, "It is sixty "), (0.6, "litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        talk.user("How many litres")
        await asyncio.sleep(0.5)
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(0.01)
        assert talk.queued() != SIXTY
        await asyncio.sleep(1)

    talk.runs(course)
    assert len(chat.asked_s) == 1
    assert " ".join(told["text"] for told in talk.told("oracle")) == "It is sixty litres."


def test_a_held_answer_to_fewer_words_is_given_up_and_the_whole_question_asked(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "she earned it all."), (9, "late")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.5)
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(1)
        assert talk.queued() == SIXTY

    talk.runs(course)
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5], [0])


def test_the_whole_question_is_asked_again_if_the_held_answer_failed(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, BackendError("down"))], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold", interval_s=5)

    async def course() -> None:
        talk.user("How many litres")
        await asyncio.sleep(0.5)
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(1)
        assert talk.queued() == SIXTY

    talk.runs(course)
    assert chat.asked_s == [0.0, 0.5]


def test_an_answer_is_not_withdrawn_when_the_user_says_more(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK, [(2, "she earned it all.")])
    talk = CycleTalk(tokenizer, {"a": chat})

    async def course() -> None:
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(0.5)
        talk.conversation.add_assistant_text(" It")
        talk.user("Yes", is_final=True)
        await asyncio.sleep(0.5)
        assert talk.queued() == SIXTY

    talk.runs(course)


async def speak_again(talk: CycleTalk, text: str, final_text: str) -> None:
    """A question, words of the user while it is being answered, and the end of these words."""
    talk.user("How many litres", is_final=True)
    await asyncio.sleep(0.5)
    talk.user(text)
    await asyncio.sleep(0.4)
    talk.user(final_text, is_final=True)
    await asyncio.sleep(3)


def test_an_answer_that_has_not_begun_is_cancelled_when_the_user_says_more(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(2, "she earned it all.")], [(0.1, "She earned")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        await speak_again(talk, "No wait", "No wait how many men")
        assert talk.queued() == SIXTY

    talk.runs(course)
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5, 0.9], [0])
    assert " ".join(told["text"] for told in talk.told("oracle")) == "It is sixty litres."


def test_a_cancelled_answer_is_requested_again_if_the_user_said_nothing_after_all(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(2, "she earned it all.")], [(2, "I did not understand.")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        await speak_again(talk, "uh huh", "")
        assert talk.queued() == SIXTY
        talk.user("", is_final=True)
        await asyncio.sleep(3)

    talk.runs(course)
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5, 0.9], [0, 1])
    assert chat.heard[-1] == chat.heard[0]


def test_a_refused_answer_is_not_requested_again_because_of_noise(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, AnswerRefused("Its filter refused."))], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")

    async def course() -> None:
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(0.5)
        talk.user("", is_final=True)
        await asyncio.sleep(3)

    talk.runs(course)
    assert chat.asked_s == [0.0]


def test_the_ended_turn_takes_the_place_of_the_newest_that_has_not_begun(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW, [(9, "late")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3, max_in_flight=2, guesses="feed")

    async def course() -> None:
        talk.user("How many")
        await asyncio.sleep(0.4)
        talk.user("How many more litres")
        await asyncio.sleep(0.4)
        talk.user("How many more litres are there", is_final=True)
        await asyncio.sleep(0)
        await asyncio.sleep(2)

    talk.runs(course)
    assert chat.asked_s == [0.0, 0.4, 0.8]
    assert chat.ended_s[1] == 0.8
    assert chat.ended_s[0] == 0.9
    assert talk.queued() == SIXTY


def test_another_back_end_is_asked_at_once_and_the_old_one_given_up(tokenizer: Tokenizer) -> None:
    old, new = TimedChat(SLOW), TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"old": old, "new": new})

    async def course() -> None:
        talk.user("How many litres")
        await asyncio.sleep(0.5)
        with pytest.raises(ConfigError, match="Choose one of: old, new"):
            talk.use("newest")
        with pytest.raises(ConfigError):
            talk.use("new", "no-such-prompt")
        assert talk.choice.own == "old"
        talk.use("new", "You speak like a pirate.")
        await asyncio.sleep(2)

    talk.runs(course)
    assert (old.given_up, old.ended_s[0], new.asked_s) == ([0], 0.5, [0.5])
    assert talk.queued() == SIXTY
    assert new.payloads[0]["messages"][0]["content"].startswith("You speak like a pirate.")


def test_a_change_after_the_answer_asks_nobody(tokenizer: Tokenizer) -> None:
    chat, other = TimedChat(QUICK), TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat, "b": other})

    async def course() -> None:
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(3)
        talk.use("b")
        await asyncio.sleep(3)
        talk.user("And how many gallons", is_final=True)
        await asyncio.sleep(3)

    talk.runs(course)
    assert (len(chat.asked_s), len(other.asked_s)) == (1, 1)


def test_after_a_reset_nothing_is_asked_and_nothing_comes(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)

    async def course() -> None:
        talk.user("My secret is")
        await asyncio.sleep(0.25)
        talk.user("My secret is blue")  # waits for the interval
        talk.cycle.reset()
        talk.queue.reset()
        talk.conversation.reset()
        n_events = len(talk.events)
        await asyncio.sleep(60)
        assert len(talk.events) == n_events
        assert talk.queued() == ""
        talk.user("How many litres")
        await asyncio.sleep(1)

    talk.runs(course)
    assert chat.given_up[0] == 0
    assert chat.ended_s[0] == 0.25
    assert "secret" not in chat.heard[-1]


def test_rules_choose_the_back_end_by_what_is_said(tokenizer: Tokenizer) -> None:
    plain, maths = TimedChat(SLOW), TimedChat(QUICK)
    router = Router(["plain", "maths"], [RouteConfig(words=["litres"], back_end="maths")])
    talk = CycleTalk(tokenizer, {"plain": plain, "maths": maths}, router)

    async def course() -> None:
        await talk.speaks("How many more litres", word_s=0.4)
        await asyncio.sleep(2)

    talk.runs(course)
    assert [data["back_end"] for data in talk.told("oracle_asked")] == ["plain", "plain", "maths", "maths"]
    assert talk.queued() == SIXTY
