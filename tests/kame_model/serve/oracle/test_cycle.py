"""When the back-end is asked, and which answer is heard; on a clock that jumps."""

import asyncio

import pytest

from data_schemas.config.serving import RouteConfig
from data_schemas.errors import AnswerRefused, BackendError, ConfigError
from data_schemas.guesses import Guesses
from kame_model.serve.oracle.routing import Router
from kame_model.text.tokenizer import Tokenizer
from tests.support.timed_chat import QUICK, SIXTY, SLOW, CycleTalk, Step, TimedChat

QUESTION = "How many more litres are needed to fill it to the top"


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
    CycleTalk(tokenizer, {"a": chat}, min_words=2).plays("Wait", 2, "Wait.", 2, ".")  # the last is a noise
    assert chat.asked_s == [2.0]


def test_words_that_were_none_after_all_are_not_asked_for(tokenizer: Tokenizer) -> None:
    chat = TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)
    says = talk.conversation.add_assistant_text
    talk.plays("How many litres.", 0.1, lambda: says(" Sixty."), "uh huh", ".", 5, ".", 5)
    assert chat.asked_s == [0.0]


def test_an_older_answer_goes_on_until_the_newer_one_has_words(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW, [(0.5, "It is "), (0.1, "sixty litres "), (0.1, "more.")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)
    talk.plays("How many", 0.3, "How many litres", 2)
    assert chat.given_up == [0]
    assert chat.ended_s[0] == 0.8  # when the newer one had a whole word
    assert talk.queued() == "it is sixty litres more"
    oracles = [data["oracle"] for data in talk.told("oracle")]
    assert oracles == sorted(oracles)
    assert set(oracles) == {1, 2}


def test_an_empty_newer_answer_ends_nothing(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "she earned "), (1, "it all")], [(0.1, " ")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)
    talk.plays("How many", 0.3, "How many litres", 0.9)
    assert talk.queued() == "she earned it all"
    assert "empty" in talk.told("oracle_failed")[0]["reason"]


def test_a_back_end_slower_than_the_user_speaks_is_heard_all_the_same(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(1.5, "It is sixty litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.1, max_in_flight=2)
    talk.runs(lambda: talk.speaks(" ".join(["many"] * 60), is_final=False))
    assert chat.most_open <= 2
    assert len(talk.told("oracle_done")) >= 3


@pytest.mark.parametrize(("guesses", "queued"), [("withdraw", SIXTY), ("feed", "she earned it " + SIXTY)])
def test_a_guess_is_withdrawn_once_the_question_is_whole(tokenizer: Tokenizer, guesses: Guesses, queued: str) -> None:
    chat = TimedChat([(0.9, "she earned it all. "), (9, "late")], [(2, "It is sixty litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, guesses=guesses)
    talk.plays("How many", 0.5, "How many litres.", 1.6, talk.take, 1.6, talk.take)
    assert " ".join(filter(None, talk.taken)) == queued
    assert chat.given_up == [0]
    assert chat.ended_s[0] == (0.5 if guesses == "withdraw" else 2.5)


def test_what_waits_of_a_guess_is_discarded_once_the_whole_question_is_sent(tokenizer: Tokenizer) -> None:
    talk = CycleTalk(tokenizer, {"a": TimedChat([(0.1, "she earned it all. ")], [(2, "It is sixty litres.")])})
    talk.plays("How many", 0.3, talk.queue.pop, "How many litres.", 1, talk.take, 2, talk.take)
    assert talk.taken == ["", SIXTY]


def test_an_answer_to_the_whole_question_is_held_until_the_turn_ends_and_asked_for_once(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, "she earned it all.")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")
    talk.plays("How many", 0.5, "How many litres", 1, talk.take, "How many litres.", 0.01, talk.take, 2, talk.take)
    assert talk.taken == ["", SIXTY, ""], "neither the guess nor the answer before the turn has ended, and then at once"
    assert chat.asked_s == [0.0, 0.5]
    assert [told["text"] for told in talk.told("oracle")] == ["It is sixty litres."]


def test_held_answers_tell_the_question_so_far_as_if_it_were_finished(tokenizer: Tokenizer) -> None:
    held, whole = (TimedChat(QUICK) for _ in range(2))
    CycleTalk(tokenizer, {"a": held}, guesses="hold").plays("How many litres", 1)
    CycleTalk(tokenizer, {"a": whole}, guesses="withdraw").plays("How many litres.", 1)
    assert held.heard == whole.heard


def test_an_answer_that_is_being_written_when_the_turn_ends_is_fed_as_it_goes_on(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.4, "It is sixty "), (0.6, "litres.")])
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")
    talk.plays("How many litres", 0.5, "How many litres.", 0.01, talk.take, 1)
    assert talk.taken != [SIXTY]
    assert len(chat.asked_s) == 1
    assert " ".join(told["text"] for told in talk.told("oracle")) == "It is sixty litres."


@pytest.mark.parametrize(
    ("held", "heard", "given_up"),
    [
        ([(0.1, "she earned it all."), (9, "late")], "How many", [0]),
        ([(0.1, BackendError("down"))], "How many litres", []),
    ],
    ids=["of fewer words", "that failed"],
)
def test_in_place_of_a_held_answer_the_whole_question_is_asked(
    tokenizer: Tokenizer, held: list[Step], heard: str, given_up: list[int]
) -> None:
    chat = TimedChat(held, QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold", interval_s=5)
    talk.plays(heard, 0.5, "How many litres.", 1)
    assert talk.queued() == SIXTY
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5], given_up)


def test_an_answer_is_not_withdrawn_when_the_user_says_more(tokenizer: Tokenizer) -> None:
    talk = CycleTalk(tokenizer, {"a": TimedChat(QUICK, [(2, "she earned it all.")])})
    says = talk.conversation.add_assistant_text
    talk.plays("How many litres.", 0.5, lambda: says(" It"), "Yes.", 0.5, talk.take)
    assert talk.taken == [SIXTY]


def test_an_answer_that_has_not_begun_is_cancelled_when_the_user_says_more(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(2, "she earned it all.")], [(0.1, "She earned")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")
    talk.plays("How many litres.", 0.5, "No wait", 0.4, "No wait how many men.", 3)
    assert talk.queued() == SIXTY
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5, 0.9], [0])
    assert " ".join(told["text"] for told in talk.told("oracle")) == "It is sixty litres."


def test_a_cancelled_answer_is_requested_again_if_the_user_said_nothing_after_all(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(2, "she earned it all.")], [(2, "I did not understand.")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, guesses="hold")
    talk.plays("How many litres.", 0.5, "uh huh", 0.4, ".", 3, talk.take, ".", 3)
    assert talk.taken == [SIXTY]
    assert (chat.asked_s, chat.given_up) == ([0.0, 0.5, 0.9], [0, 1])
    assert chat.heard[-1] == chat.heard[0]


def test_a_refused_answer_is_not_requested_again_because_of_noise(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, AnswerRefused("Its filter refused."))], QUICK)
    CycleTalk(tokenizer, {"a": chat}, guesses="hold").plays("How many litres.", 0.5, ".", 3)
    assert chat.asked_s == [0.0]


def test_the_ended_turn_takes_the_place_of_the_newest_that_has_not_begun(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW, [(9, "late")], QUICK)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3, max_in_flight=2, guesses="feed")
    talk.plays("How many", 0.4, "How many more litres", 0.4, "How many more litres are there.", 2)
    assert chat.asked_s == [0.0, 0.4, 0.8]
    assert chat.ended_s[1] == 0.8
    assert chat.ended_s[0] == 0.9
    assert talk.queued() == SIXTY


def test_another_back_end_is_asked_at_once_and_the_old_one_given_up(tokenizer: Tokenizer) -> None:
    old, new = TimedChat(SLOW), TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"old": old, "new": new})

    def change() -> None:
        with pytest.raises(ConfigError, match="Choose one of: old, new"):
            talk.use("newest")
        with pytest.raises(ConfigError):
            talk.use("new", "no-such-prompt")
        assert talk.choice.own == "old"
        talk.use("new", "You speak like a pirate.")

    talk.plays("How many litres", 0.5, change, 2)
    assert (old.given_up, old.ended_s[0], new.asked_s) == ([0], 0.5, [0.5])
    assert talk.queued() == SIXTY
    assert new.payloads[0]["messages"][0]["content"].startswith("You speak like a pirate.")


def test_a_change_after_the_answer_asks_nobody(tokenizer: Tokenizer) -> None:
    chat, other = TimedChat(QUICK), TimedChat(QUICK)
    talk = CycleTalk(tokenizer, {"a": chat, "b": other})
    talk.plays("How many litres.", 3, lambda: talk.use("b"), 3, "And how many gallons.", 3)
    assert (len(chat.asked_s), len(other.asked_s)) == (1, 1)


def test_after_a_reset_nothing_is_asked_and_nothing_comes(tokenizer: Tokenizer) -> None:
    chat = TimedChat(SLOW)
    talk = CycleTalk(tokenizer, {"a": chat}, interval_s=0.3)
    n_events: list[int] = []

    def reset() -> None:
        talk.cycle.reset()
        talk.queue.reset()
        talk.conversation.reset()

    def count() -> None:
        n_events.append(len(talk.events))

    waits_for_the_interval = "My secret is blue"
    talk.plays("My secret is", 0.25, waits_for_the_interval, reset, count, 60, count, talk.take, "How many litres", 1)
    assert n_events[0] == n_events[1]
    assert talk.taken == [""]
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
