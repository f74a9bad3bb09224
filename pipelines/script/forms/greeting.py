"""The form with a greeting: the two greet first; then question and answer."""

import random
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import Reply, make_assistant_turn, make_spoken, make_user_turn

_GREETINGS: Final = (
    "Hello.", "Hi there.", "Hello there.", "Hey, are you there?", "Good morning.", "Good afternoon.", "Good evening.",
    "Hi, can you hear me?", "Hello, I have a question.", "Hi, can I ask you something?", "Hey, how are you?",
    "Hello, nice to talk to you.",
)  # fmt: skip
_ANSWERS: Final = {
    "Hey, are you there?": ("Yes, I'm here. What can I do for you?", "I'm here. How can I help?"),
    "Hi, can you hear me?": ("Yes, I can hear you. How can I help?", "Loud and clear. What can I do for you?"),
    "Hello, I have a question.": ("Hello. Go ahead.", "Sure, ask away."),
    "Hi, can I ask you something?": ("Of course, go ahead.", "Sure, what would you like to know?"),
    "Hey, how are you?": ("Fine, thank you. How can I help?", "Very well, thanks. What can I do for you?"),
    "Hello, nice to talk to you.": ("Nice to talk to you too. How can I help?", "Likewise. What's on your mind?"),
}
_ANY_ANSWER: Final = (
    "Hello. How can I help?", "Hi. What can I do for you?", "Hello. What would you like to know?",
    "Hi there. What's on your mind?", "Hello. I'm listening.",
)  # fmt: skip


def fits(exchange: Exchange) -> bool:
    """Returns True: every exchange fits."""
    return True


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes a greeting of the user, one of the assistant, then question and answer."""
    greeting = rng.choice(_GREETINGS)
    back = rng.choice(_ANSWERS.get(greeting, _ANY_ANSWER))
    return (
        make_user_turn(0, make_spoken(greeting)),
        make_assistant_turn(1, Reply(None, make_spoken(back), None, None)),
        make_user_turn(2, exchange.question),
        make_assistant_turn(3, answer(exchange, config, rng)),
    )
