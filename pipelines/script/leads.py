"""Leads and tails: words of the assistant before and after its answer, while which the oracle can arrive.

A lead needs no knowledge but fits the question: by its kind, and sometimes by repeating what is asked for. It consists
of an opener, a core and a closer, none of which says anything about the answer; one that contains a word of the answer
by chance ("right", "time") is excluded.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain, product
from typing import Final

from data_schemas.config import FormsConfig
from pipelines.script.exchange import Exchange
from pipelines.script.forms.turns import make_spoken
from pipelines.script.question_kinds import Kind, classify_question, find_echo
from spoken.spoken_text import SpokenText, make_word_set, split_words

WORDS_PER_S: Final = 2.7
"""Speaking rate by which a lead's length is estimated: 162 words a minute, Kokoro at speed 1."""

LONG_LEAD_WORDS: Final = 9

_OPENERS: Final = (
    "", "Okay,", "Right,", "Sure,", "Well,", "So,", "All right,", "Okay.", "Sure.", "All right.", "Good question.",
    "Let me see.", "I see.", "Thanks for asking.", "Happy to help.",
)  # fmt: skip
_CLOSERS: Final = (
    "", "Just a moment.", "Give me a moment.", "Bear with me.", "Let me make sure I get it right.", "Here we go.",
)  # fmt: skip
_ANY: Final = (
    "", "let me think.", "let me think about that.", "let me think for a moment.", "I can help with that.",
    "let me look at that with you.", "that is something I can help you with.", "that deserves a careful answer.",
)  # fmt: skip
_CORES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "number": ("let me recall the number for you.", "let me think what the number is.", "let me get the number right."),
    "sum": (
        "let me work that out.", "let me do the math.", "let me run the numbers.", "let me go through the numbers.",
        "let me work it out step by step.", "that takes a little arithmetic.", "let me put the numbers together.",
    ),
    "what": ("let me think what that is.", "let me find the words for it.", "let me put that into words."),
    "which": ("let me think which that is.", "let me see which fits best.", "let me narrow that down for you."),
    "who": ("let me think who that is.", "let me think who fits that.", "let me recall the name for you."),
    "why": ("let me think about the reason.", "let me think why that is.", "let me explain the reason behind that."),
    "when": ("let me think when that is.", "let me place that for you.", "let me get the timing straight."),
    "where": ("let me think where that is.", "let me place that for you.", "let me think about the place."),
    "how": ("let me think how that goes.", "let me think how to put it.", "let me go through it in my head."),
    "finish": ("let me think how that goes on.", "let me complete that for you.", "let me find the missing words."),
    "choice": ("let me go through the choices.", "let me weigh them up.", "let me compare them for you."),
    "verdict": ("let me think that through.", "let me weigh that for you.", "let me check that for you."),
    "task": ("let me work on that.", "let me work through that for you.", "let me go through it step by step."),
}  # fmt: skip
_ECHOES: Final = (
    "{echo}.", "you want to know {echo}.", "you are asking {echo}.", "the question is {echo}.",
)  # fmt: skip
_NAMED_ECHOES: Final = ("{echo}.", "this is about {echo}.", "you want to know {echo}.", "let me think about {echo}.")

_TAILS: Final = (
    "Does that help?", "Anything else?", "Does that make sense?", "Does that answer your question?", "Hope that helps.",
    "Is there anything else you would like to know?", "Let me know if you want more on that.", "Was that clear?",
    "Happy to go over it again.", "Just ask if anything is unclear.", "What else can I do for you?",
    "Is that what you wanted to know?", "Feel free to ask more.",
)  # fmt: skip
_TAIL_SHARE: Final = 0.25
"""Share of tails among the leads and tails that are drawn without a question."""

_TAILS_BY_KIND: Final[Mapping[Kind, tuple[str, ...]]] = {
    "sum": ("Does that add up for you?", "Does that match what you have?"),
    "why": ("Does that explain it?",),
    "finish": ("Does that complete it for you?",),
    "choice": ("Is that what you would have picked?",),
    "task": ("Shall we do another?",),
}

_STALL_OPENERS: Final = (
    "", "Let me see.", "Let me think.", "One moment.", "Just a moment.", "Give me a moment.", "Sorry,", "Well,",
    "I'm afraid", "To be honest,",
)  # fmt: skip
_STALLS: Final = (
    "I don't know yet.", "I don't know that yet.", "I'm not sure yet.", "I can't tell you yet.", "I can't say yet.",
    "I don't have it yet.", "I don't have the answer yet.", "I'm still thinking.", "I'm still thinking about it.",
    "I'm still looking.", "I'm still working on it.", "I need a little longer.", "I need a bit more time.",
    "I still have to find out.",
)  # fmt: skip

FUNCTION_WORDS: Final = make_word_set(
    "a about all an and any are at be by can do does for from get give go goes have here how i if in is it just know "
    "let like me more my of on or so some that the them there these they think this those to up was we well what when "
    "where which who why will with would you your"
)
"""Words that reveal nothing even if the answer contains them."""


Lead = tuple[str, str, str]
"""Opener, core and closer; each may be empty, but not all."""


def draw_lead(exchange: Exchange, config: FormsConfig, rng: random.Random) -> SpokenText | None:
    """Draws the words before an answer, of an estimated length uniform in `lead_min_s` to `lead_max_s`.

    Returns None in the configured share, and if no lead fits.
    """
    if rng.random() < config.share_without_lead:
        return None
    target = rng.uniform(config.lead_min_s, config.lead_max_s) * WORDS_PER_S
    by_distance: dict[float, list[Lead]] = defaultdict(list)
    for lead in list_leads(exchange):
        by_distance[abs(count_words(lead) - target)].append(lead)
    return make_spoken(format_lead(rng.choice(by_distance[min(by_distance)]))) if by_distance else None


def list_leads(exchange: Exchange) -> list[Lead]:
    """Returns all leads that fit an exchange."""
    return _combine_leads(exchange, [*_list_plain_cores(exchange), *_list_echoes(exchange)])


def list_long_leads(exchange: Exchange) -> list[Lead]:
    """Returns leads of at least `LONG_LEAD_WORDS` words, without those that repeat words of the question."""
    return [
        lead for lead in _combine_leads(exchange, _list_plain_cores(exchange)) if count_words(lead) >= LONG_LEAD_WORDS
    ]


def count_words(lead: Lead) -> int:
    """Returns the number of words of a lead."""
    return sum(map(_count_words, lead))


def format_lead(lead: Lead) -> str:
    """Returns a lead as running text, with a capital at the start and after a full stop, but not after a comma."""
    text = ""
    for part in lead:
        if part:
            start = part[0].lower() if text.endswith(",") and not part.startswith("I ") else part[0].upper()
            text = f"{text} {start}{part[1:]}".strip()
    return text


def draw_general_lead(rng: random.Random) -> str:
    """Draws words that may come before or after an answer (a lead or a tail), independently of any question."""
    if rng.random() < _TAIL_SHARE:
        return rng.choice((*_TAILS, *chain.from_iterable(_TAILS_BY_KIND.values())))
    core = rng.choice([each for each in (*_ANY, *chain.from_iterable(_CORES.values())) if each])
    openers = [each for each in _OPENERS if not ("help" in each and "help" in core)]
    return format_lead((rng.choice(openers), core, rng.choice(_CLOSERS)))


def draw_stall(rng: random.Random) -> str:
    """Draws a sentence of a speaker who does not know the answer yet ("I'm still thinking.")."""
    return f"{rng.choice(_STALL_OPENERS)} {rng.choice(_STALLS)}".strip()


def list_tails(exchange: Exchange) -> list[str]:
    """Returns all tails, words after an answer, that fit an exchange."""
    return [*_TAILS, *_TAILS_BY_KIND.get(classify_question(exchange.question.text), ())]


def list_answer_words(exchange: Exchange) -> list[str]:
    """Returns the words of the true answer alone, in lower case."""
    return [word.lower() for word in split_words(exchange.short_answer.text)[exchange.short_answer_word_index :]]


def drop_answer_words(parts: Iterable[str], exchange: Exchange) -> list[str]:
    """Returns those of the texts that contain no word of the answer.

    Function words and words of the question do not count, since they reveal nothing.
    """
    secret = set(list_answer_words(exchange)) - FUNCTION_WORDS
    secret -= {word.lower() for word in split_words(exchange.question.text)}
    return [part for part in parts if not secret & {word.lower() for word in split_words(part)}]


def _list_plain_cores(exchange: Exchange) -> list[str]:
    """Returns the cores of leads that fit the kind of the question and do not repeat it."""
    return [*_ANY, *_CORES[classify_question(exchange.question.text)]]


def _list_echoes(exchange: Exchange) -> list[str]:
    """Returns the cores of leads that repeat what is asked for ("how many apples."); none if that is uncertain."""
    repeated = find_echo(exchange.question.text)
    if repeated is None:
        return []
    frames = _ECHOES if repeated.startswith(("how", "which", "what")) else _NAMED_ECHOES
    return [frame.format(echo=repeated) for frame in frames]


def _combine_leads(exchange: Exchange, cores: Iterable[str]) -> list[Lead]:
    """Returns all combinations of openers, cores and closers, without those that contain a word of the answer.

    A bare echo ("How many apples.") never follows a comma, an opener that ends in one never stands alone, and help is
    offered once.
    """
    openers, cores, closers = (drop_answer_words(parts, exchange) for parts in (_OPENERS, cores, _CLOSERS))
    bare_echo = f"{find_echo(exchange.question.text)}."
    return [
        (opener, core, closer)
        for opener, core, closer in product(openers, cores, closers)
        if (core or closer or opener.endswith("."))
        and not (opener.endswith(",") and core == bare_echo)
        and not ("help" in opener and "help" in core)
    ]


@lru_cache(maxsize=1024)
def _count_words(part: str) -> int:
    """Returns the number of words of one part of a lead."""
    return len(part.split())
