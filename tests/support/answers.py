"""Answers as chat models write them to spoken questions: sentences with numbers, money, decimals and names."""

import random
from collections.abc import Callable, Iterator

_NAMES = ("Natalia", "Mr. Brown", "Dr. Smith", "Tom's sister", "Mary", "Isaac Newton", "the U.S.", "NASA", "New York")
_THINGS = ("apples", "litres of water", "tickets", "eggs", "miles", "hours", "bags of flour", "students", "people")
_TEMPLATES = (
    "{name} has {count} {things}, so {count} are left.",
    "I think that it is about {count} {things}.",
    "That makes {money} in all, or {money} each.",
    "It costs {money} a year, which is {decimal}% of the budget.",
    "{name} earned {money}, because {small} minutes are {small}/{small2} of an hour.",
    "Well, {small} times {small2} is {count}!",
    "It was founded in {year} and had {count} {things} by {year}.",
    "So the answer is {count} {things}.",
    "Does {name} have {count} {things} or {decimal}?",
    "It's {name} who found it in the {decade}s, isn't it?",
    "You need {decimal} kg of {things}; that is {count} g too little.",
    "The train leaves at {small}:30 pm, and {name} arrives {small2} hours later.",
    "The speed is {decimal} m/s in the {nth} case, e.g. for {things}.",
    "{small} + {small2} = {count}, so {name} is right.",
    "About {small}-{small2} {things}, I'd say.",
    "Heat flows from the hot block to the cold one, until both are equally warm.",
    'They called it "The {nth} Hour", and {name} liked it.',
    "It has DNA, and its pH is {decimal}.",
)


def drawn_answer(draw: random.Random) -> str:
    """Returns one to four random sentences."""
    return " ".join(_sentence(draw) for _ in range(draw.randint(1, 4)))


def for_the_eye(answer: str, draw: random.Random) -> str:
    """Returns an answer with emphasis, code and emoji at one to four random words, as many models write."""
    words = answer.split(" ")
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(words))
        words[at] = draw.choice(_DECORATIONS)(words[at])
    return " ".join(words)


def _wrapped(mark: str) -> Callable[[str], str]:
    """Returns a function that writes a mark before and after a word, inside the punctuation at its end."""

    def wrap(word: str) -> str:
        bare = word.rstrip(",.?!;:")
        return f"{mark}{bare}{mark}{word[len(bare) :]}" if bare else word

    return wrap


_DECORATIONS: tuple[Callable[[str], str], ...] = (
    *map(_wrapped, ("*", "**", "***", "_", "`")),
    lambda word: f"{word} 😊",
    lambda word: f"👍🏽 {word}",
    lambda word: f"{word[:-1]} 🇫🇷{word[-1]}" if word[-1:] in (",", ".") else f"{word}✨",
)


def pieces_of(text: str, draw: random.Random, longest: int = 9) -> Iterator[str]:
    """Yields a text in pieces of random lengths from 1 to `longest`."""
    at = 0
    while at < len(text):
        end = at + draw.randint(1, longest)
        yield text[at:end]
        at = end


def _sentence(draw: random.Random) -> str:
    """Returns a random template, filled in at random."""
    written = draw.choice(_TEMPLATES)
    kinds: dict[str, Callable[[], str]] = {
        "name": lambda: draw.choice(_NAMES),
        "things": lambda: draw.choice(_THINGS),
        "count": lambda: draw.choice([f"{draw.randrange(2, 99)}", f"{draw.randrange(100, 999_999):,}", "3 million"]),
        "money": lambda: f"${draw.randrange(2, 999)}{draw.choice(['', '', '.50', '.05', ' million'])}",
        "decimal": lambda: f"{draw.randrange(0, 99)}.{draw.randrange(1, 99)}",
        "small": lambda: str(draw.randrange(1, 12)),
        "small2": lambda: str(draw.randrange(2, 12)),
        "year": lambda: str(draw.randrange(1500, 2026)),
        "decade": lambda: str(draw.randrange(150, 203) * 10),
        "nth": lambda: draw.choice(["1st", "2nd", "23rd", "20th"]),
    }
    for kind, value in kinds.items():
        while f"{{{kind}}}" in written:
            written = written.replace(f"{{{kind}}}", value(), 1)
    return written[0].upper() + written[1:]
