"""What a chat model is told of a conversation: as training tells it, and nothing that is too old."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.serve.oracle.prompts import Prompt
from kame_model.serve.session.conversation import MAX_HISTORY_CHARS, MAX_TURN_CHARS, PAUSE_S, Conversation
from spoken.conversation import CUT_OFF

BARE = Prompt(
    version="t", instructions="", system="", unfinished="{history}U> {heard} ...", finished="{history}U> {heard}"
)


class Talk:
    """A conversation with a clock that stands until it is set."""

    def __init__(self, max_turns: int = 12) -> None:
        self.now_s = 0.0
        self.held = Conversation(max_turns, lambda: self.now_s)

    def user(self, text: str, *, is_final: bool = True) -> None:
        self.held.add_user_text(text, is_final)

    def assistant(self, text: str, pause_s: float = 5.0) -> None:
        """Word by word, a tenth of a second each, after a pause."""
        self.now_s += pause_s
        for word in text.split():
            self.held.add_assistant_text(f" {word}")
            self.held.add_assistant_text("")
            self.now_s += 0.1

    @property
    def told(self) -> list[str]:
        return self.held.make_messages(BARE)[-1]["content"].split("\n")


def test_the_unfinished_turn_takes_the_place_of_what_it_was_before() -> None:
    talk = Talk()
    talk.user("how", is_final=False)
    talk.user("how many litres", is_final=False)
    assert talk.told == ["U> how many litres ..."]
    assert not talk.held.is_finished
    talk.user("How many litres are there?")
    assert talk.told == ["U> How many litres are there?"]
    assert talk.held.is_finished


def test_turns_before_are_told_with_what_was_said_of_them() -> None:
    talk = Talk()
    talk.assistant("Hello!")
    talk.user("Hi. How far is the moon?")
    talk.assistant("It is far away. Very")
    talk.user("Sorry", is_final=False)
    assert talk.told == [
        "Assistant: Hello!",
        "User: Hi. How far is the moon?",
        f"Assistant: It is far away. Very{CUT_OFF}",
        "U> Sorry ...",
    ]


def test_a_turn_goes_on_after_a_silence_in_which_nobody_spoke() -> None:
    talk = Talk()
    talk.user("I have a question.")
    talk.user("How far is", is_final=False)
    talk.user("How far is the moon?")
    assert talk.told == ["U> I have a question. How far is the moon?"]
    assert talk.held.heard == "I have a question. How far is the moon?"


def test_an_interrupted_answer_goes_on_until_its_pause_and_an_early_answer_is_not_told() -> None:
    talk = Talk()
    talk.user("How far is the moon?")
    talk.assistant("It is very far")
    talk.user("Wait", is_final=False)
    talk.assistant("away.", pause_s=0)
    assert talk.told[1:] == ["Assistant: It is very far away.", "U> Wait ..."]
    talk.assistant("Yes, sure", pause_s=PAUSE_S + 0.1)
    talk.user("Wait, in miles?")
    assert talk.told[1:] == ["Assistant: It is very far away.", "U> Wait, in miles?"]
    talk.user("Or", is_final=False)
    assert talk.told[2:] == ["User: Wait, in miles?", f"Assistant: Yes, sure{CUT_OFF}", "U> Or ..."]


def test_a_noise_is_no_turn() -> None:
    talk = Talk()
    talk.user("How far is the moon?")
    talk.assistant("Far.")
    talk.user("", is_final=False)
    talk.user(" ")
    assert talk.told == ["U> How far is the moon?"]


def test_after_a_reset_nothing_of_before_is_told() -> None:
    talk = Talk()
    talk.user("My secret is blue.")
    talk.assistant("I keep blue")
    talk.user("blue", is_final=False)
    talk.held.reset()
    assert talk.held.heard == ""
    talk.assistant("Hello", pause_s=0)
    talk.user("Hi")
    assert talk.told == [f"Assistant: Hello{CUT_OFF}", "U> Hi"]


@pytest.mark.parametrize("max_turns", [0, 1, 4])
def test_only_the_newest_turns_are_told(max_turns: int) -> None:
    talk = Talk(max_turns)
    for number in range(5):
        talk.user(f"question {number}")
        talk.assistant(f"Answer {number}.")
    talk.user("last")
    lines = [f"{who} {number}" for number in range(5) for who in ("User: question", "Assistant: Answer")]
    told = [line.rstrip(".") for line in talk.told[:-1]]
    assert told == (lines[-max_turns:] if max_turns else [])


def test_a_speaker_who_never_stops_is_told_by_the_end() -> None:
    talk = Talk()
    talk.user("word " * 3_000 + "end", is_final=False)
    assert len(talk.held.heard) <= MAX_TURN_CHARS
    assert talk.held.heard.endswith("word end")
    talk.user("stop")
    talk.assistant("well " * 20_000)
    for _ in range(3):
        talk.user("again " * 1_000)
        talk.assistant("yes " * 1_000)
    talk.user("now")
    assert sum(map(len, talk.told)) < MAX_HISTORY_CHARS + 100


def test_a_text_without_spaces_is_told_by_its_end() -> None:
    talk = Talk()
    talk.user("begin" + "x" * MAX_TURN_CHARS)
    assert talk.held.awaits_answer
    assert talk.told == ["U> " + "x" * MAX_TURN_CHARS]


Step = st.tuples(st.sampled_from(["user", "final", "assistant", "pause"]), st.sampled_from(["", "one", "two three"]))


@given(steps=st.lists(Step, max_size=30))
def test_whatever_happens_speakers_take_turns_and_the_user_is_last(steps: list[tuple[str, str]]) -> None:
    talk = Talk()
    for kind, text in steps:
        if kind == "pause":
            talk.now_s += 2
        elif kind == "assistant":
            talk.assistant(text, pause_s=0)
        else:
            talk.user(text, is_final=kind == "final")
    speakers = [line.partition(":")[0] for line in talk.told[:-1]]
    assert all(before != after for before, after in pairwise(speakers))
    assert talk.told[-1].startswith("U> ")
    assert not speakers or speakers[-1] == "Assistant"
