"""Words spoken answers: by the last line of the solution if it states the answer, else by the option's text."""

import random
import re
from dataclasses import dataclass
from typing import Final

from data_schemas.records import Item
from pipelines.script.choices import join_sign, lower_start
from pipelines.script.rejections import refers_to_options
from spoken.number_words import find_cardinal
from spoken.reader import Unspeakable, read_aloud
from spoken.rules.numerals import spell_year
from spoken.rules.units import is_unit
from spoken.spoken_text import SpokenText, find_words, make_word_set, split_words

_COUNTED: Final = ("That would be {answer}.", "The answer is {answer}.", "That's {answer}.")
"""Sentences for a number with what it counts or measures."""

_STATED_SHARE: Final = 0.75
"""Share of answers in the words of the solution, if these can be spoken; the others are the number alone."""

_SHORT: Final = ("That would be {answer}.", "The answer is {answer}.", "It's {answer}.", "That's {answer}.")
_NOUN_STARTS: Final = make_word_set("the a an its their his her your my our one two three")
_BARE_STARTS: Final = make_word_set(
    "yes no none all both only statement statements because by to in on at from with for through when if during after "
    "before as it they he she there this that these we you i since while although under within into about whether "
    "where so not"
)
_FINITE: Final = re.compile(
    r"\b(?:is|are|was|were|will|would|can|could|may|might|must|should|has|have|had|does|do|did|cannot|\w+n't)\b"
)
_VERDICT: Final = re.compile(
    r"(?:yes|no|not|none|true|false|both|neither|always|never|only|sometimes|possibly|probably|maybe|correct|incorrect"
    r"|valid|invalid|un\w+|in\w+ible|it|they|he|she)\b",
    re.IGNORECASE,
)
_SHORT_SENTENCE: Final = re.compile(
    r"(?:[Tt]he |[Tt]here |[Ii]t |[A-Z])(?:(?!who|that|which|where|when|what|how|whose)\w+ ){0,2}"
    r"(?:is|are|was|were|has|have|will|can|cannot|does|did) \w"
)
"""A sentence of three or four words: "the shares are equal"."""

_MAX_SHORT_WORDS: Final = 4
_SENTENCE_WORDS: Final = 5
_VOWELS: Final = frozenset("aeio")
_MAX_STEM_WORDS: Final = 20
_WHOLE_SENTENCES: Final = 0.4
"""Share of completions answered by the whole sentence."""
_MONEY: Final = "$£€"
_CURRENCIES: Final = ((r"\$|\bdollars?\b", "${}"), (r"€|\beuros?\b", "{} euros"), (r"£", "£{}"))
_COUNTS_THINGS: Final = re.compile(
    r"\bhow many (?!(?:more |of his |of her )?(?:dollars|cents|euros))[^?]*\?\s*$", re.IGNORECASE
)
_ASKS_FOR_MONEY: Final = re.compile(
    r"\bhow much (?:money\b|(?:[^.?]* )?(?:pay|cost|spend|spent|earn|make|owe|save|charge|profit|raise)\b)[^.?]*\?$"
    r"|\bhow many dollars\b"
    r"|\bwhat (?:is|was|will be) (?![^?]*percent)(?:the|h(?:is|er)|their) [^.?]*"
    r"\b(?:spend|spent|pay|paid|costs?|price|profit|bill)\b[^.?]*\?$",
    re.IGNORECASE,
)
_TITLES: Final = re.compile(r"\b(Mrs?|Ms|Dr)\.")
_ASKED_AMOUNT: Final = re.compile(
    r"\bhow much (?!money|more money|time|longer|does|did|is|was|will|do|would|has|should)[^?]*\?\s*$", re.IGNORECASE
)
_AMOUNTS: Final = re.compile(
    r"\d (ounces|pounds|grams|kilograms|tons|liters|milliliters|gallons|cups|inches|feet|yards|meters|miles)\b"
)
_IN_UNIT: Final = re.compile(
    r"(?<![Hh]ow old)(?:\((?:in )?([^()\s]{1,12})\)[^()?]*|, in ([a-z]+(?: per [a-z]+)?)\b(?! of|/)[^?]*| in ([a-z]+))"
    r"\?\s*$"
)
"""The unit that a question asks for: "What is the time (in ms)?"."""

_LIST: Final = re.compile(r"((?:[-−–]?[$£€]?[\d.]+%?, ){2,})(?=[-−–]?[$£€]?[\d.]+%?$)")
"""Three or more numbers, before the last of which "and" is spoken."""

_MEASURES: Final = make_word_set(
    "seconds minutes hours days weeks months years inches feet yards miles meters kilometers centimeters ounces pounds "
    "grams kilograms tons liters milliliters gallons cups dollars cents degrees"
)
_AREAS: Final = "feet|foot|ft|inches|inch|in|c?m|mm|km|(?:centi|milli|kilo)?meters?|yards?|miles?"
_IN_SHORT: Final = rf"(?:square|cubic|sq\.?|cu\.?) ?(?:{_AREAS})|min|mins|hrs?|ml|lbs?|oz|kg|m?g|cm|mm|km|mph|ft"
_UNIT: Final = re.compile(
    rf"(?P<whole> ?(?P<short>{_IN_SHORT})\b(?![/-])| (?P<counted>[a-z]+)\b(?!-)(?: ?(?:per|/) ?(?:an? )?[a-z]+)?)"
    r"(?P<more> (?:and|or|&) [a-z]+)?"
)
"""What follows a number: an abbreviated unit or one with "square", or a word, which may be a rate: "miles per hour"."""

_PLURAL: Final = re.compile(
    r"(?!(?:does|is|was|has|less)\b)[a-z]*s|people|(?:grand)?children|(?:wo)?men|[a-z]*fish|sheep|deer|geese|mice|teeth"
)
"""What a number counts, if recognisable; "seven green" of "seven green frogs" would not be an answer."""

NUMBER: Final = r"(?<![\w.,])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
"""A written number that is not part of another."""

_TENSES: Final = {
    **dict.fromkeys(("did", "was", "were", "had"), "past"),
    **dict.fromkeys(("do", "does", "is", "are", "has", "have"), "present"),
    **dict.fromkeys(("will", "would"), "will"),
    **dict.fromkeys(("can", "could"), "can"),
    **dict.fromkeys(("should", "must"), "must"),
}
"""Names for the tense of an auxiliary, to compare a question's with its answer's."""

_FIGURE: Final = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_QUANTITY: Final = rf"\(*[$£€]? ?{_FIGURE}(?:/\d+)?[%$]?(?: ?[A-Za-z]+\.?(?:[ /-][a-z]+){{0,3}})?\)*%?"
_OPERATION: Final = rf"{_QUANTITY}(?:\s*[-+*/x×X÷–−]\s*{_QUANTITY})+"
_EQUATION: Final = re.compile(
    rf"(?<![\w.,$£€])(?:{_OPERATION}\s*=\s*)*(?P<worked>{_OPERATION})\s*=\s*(?P<result>[$£€]? ?{_FIGURE})"
)
"""A calculation of numbers alone, each with a word or two for what it counts, and its result."""

_CONCLUDES: Final = re.compile(
    r"^(?:.* )?\b(?:so|thus|therefore|hence|which means(?: that)?|meaning(?: that)?|this means(?: that)?"
    r"|that means(?: that)?)\b,? (?!that\b|much\b|many\b|far\b|as\b|is\b|are\b)",
    re.IGNORECASE,
)
_CONNECTIVES: Final = re.compile(
    r"^(?:(?:so(?! far)|thus|therefore|hence|then|finally|now|and|but|or|consequently|in conclusion|lastly|next"
    r"|accordingly|also|meaning|(?:this|that|it|which) (?:means|implies)|as a result|from this|from there"
    r"|in other words|afterwards?|after that)\b,? (?:that |then )?)+",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"^(?:since|because|as|if|when|given that|seeing as)\b.*, (?:then )?((?:[^,]|,(?=\d))+)$", re.IGNORECASE
)
_REASON: Final = re.compile(r",? because\b.*|, (?:since|as) .*")
_IS: Final = re.compile(rf"(?<=[a-z]{{2}}) ?= ?(?=[$£€]?{_FIGURE})")

_PAST_VERBS: Final = make_word_set(
    "went took got bought sold gave drove drank wrote won ran lost ate caught threw became"
)
_VERBS: Final = _PAST_VERBS | make_word_set(
    "is are was were will would can could should must has have had does do did equals becomes became needs costs takes "
    "pays spends makes earns buys gets saves eats sells weighs receives leaves contains collects gives owes lasts"
)
"""Verbs that end the subject of a sentence, wherever they stand."""

_PAST: Final = make_word_set(
    "spent paid made earned used received scored saved kept read found contained left needed lasted cost sent swam "
    "rode grew drew built brought taught slept"
)
"""Past forms that may also be participles: "the amount spent $45" is not a sentence."""

_SUBJECTS: Final = make_word_set("he she they it there i who")
_BEFORE_VERB: Final = _SUBJECTS | make_word_set(
    "will would can could should must to did does do not still only now then each"
)
_JOINS: Final = make_word_set(
    "of for by in at to with only about another exactly just up worth performing him her them me an a additional extra "
    "or still currently now be been cost costs"
)
"""Words beside verbs that a result may follow."""

_MEASURED: Final = re.compile(
    r"(?:(?:the|his|her|their|its|each|\w+'s) )?(?:\w+ ){0,3}?(?:total|sum|number|amount|cost|price|time|difference"
    r"|weight|distance|profit|money|rest|percentage|score|average)\b",
    re.IGNORECASE,
)
_NO_SENTENCE: Final = re.compile(
    r"[^A-Za-z\d ,.$£€%'-]|\d ?-(?![a-z])|-\d|\d \d|\b(?![ai]\b)[a-z]\b(?!')|(?<![a-z])'(?!s\b)"
    r"|\b(?:we|us|you|your|let|equations?|answer|sides|divid\w+|multipl\w+|subtract\w*|add|adding|equal|find|solve"
    r"|calculate|which|respectively|fraction|then|remaining|or|for a total|once|this|that)\b"
    r"|\b(?:has|have|had|is|are|was|were|spent|paid|be|pay|of) is\b|[a-z]\. ",
    re.IGNORECASE,
)
_LEAVES_OFF: Final = re.compile(r"\b(?:leaving|making|giving|bringing|totaling|equaling|means?)\b")
_NO_START: Final = re.compile(
    r"(?:the|over|for|in|on|at|after|before|by|from|with|to|of|out|altogether|together|overall|an?|and|but|will|that|if"
    r"|since|because|when|as|while|given|is|are|this|these|those|total|number|result|his|her|their|its|my|your|combined"
    r"|take|use|convert|combine|\w+ing)\b",
    re.IGNORECASE,
)
_NUMBER_FIRST: Final = re.compile(r" (?:[a-z]+ ){1,4}?(?:is|are|was|were|will|can|would|could|remain(?:s|ed)?)\b")
_COUNTED_TWICE: Final = re.compile(r"\b(?:number|amount) of (?:\w+ )?(\w+)\b.* \1$")
"""Such as "the number of roses is twenty two roses"."""
_MAX_SENTENCE_WORDS: Final = 16


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """A spoken answer and the index of the first word of the answer itself."""

    said: SpokenText
    word_index: int


@dataclass(frozen=True, slots=True)
class ExplainedAnswers:
    """The answers of an item with a solution: in the words of the solution if these can be spoken, and alone.

    `calculation` is the one that yields the answer, "Twelve times four equals forty eight."; None if there is none.
    """

    full: SpokenAnswer
    short: SpokenAnswer
    calculation: SpokenText | None


def find_conclusion(answer: str, last_line: str, question: str) -> str | None:
    """Returns the answer's number with its currency, percent sign, unit or counted thing, as the last line has it.

    If the line shows none of these, the question may; else the number is returned alone.

    Returns None if that line does not have the number, or has it in another currency than the question.
    """
    number = answer.strip().lstrip("$").rstrip(".")
    same = [found for found in re.finditer(NUMBER, last_line) if is_same_number(found[0], number)]
    if not same or ("$" in last_line and "$" not in question and re.search("[£€]", question)):
        return None
    because = last_line.rfind(" because ")
    stated = [found for found in same if found.end() <= because]
    places = [same[-1], *stated[-1:]]
    with_units = (full for each in places if (full := _add_unit_of_line(number, last_line, each, question)) != number)
    return next(with_units, _add_unit_of_question(number, _TITLES.sub(r"\1", question)))


def _add_unit_of_question(number: str, question: str) -> str:
    """Returns the number with its unit if the question asks for an amount and names exactly one currency or measure.

    Else the number is returned as it is.
    """
    if _ASKS_FOR_MONEY.search(question.strip()):
        shown = [form for pattern, form in _CURRENCIES if re.search(pattern, question)]
    else:
        shown = [f"{{}} {unit}" for unit in set(_AMOUNTS.findall(question)) if _ASKED_AMOUNT.search(question)]
    return shown[0].format(number) if len(shown) == 1 else number


def _add_unit_of_line(number: str, line: str, found: re.Match[str], question: str) -> str:
    """Returns the number with what it counts or measures where the line has it (`found`); alone if unknown."""
    before, after = line[: found.start()].rstrip(), re.sub(r"^\.?0*", "", line[found.end() :])
    if before and before[-1] in _MONEY:
        return number if _COUNTS_THINGS.search(question) else f"{before[-1]}{number}"
    if re.match(r" ?%", after) or re.search(r"(?i)\bwhat percent(?:age)?\b", question):
        return f"{number}%"
    if re.match(r" ?\$(?! ?\d)", after):
        return f"${number}"
    unit = _UNIT.match(after)
    if unit is None or (unit["counted"] == "years" and re.search(r"(?i)\bhow old\b", question)):
        return number
    counted = unit["counted"] or ""
    if unit["short"] or counted in _MEASURES or (_is_asked_for(counted, question) and not unit["more"]):
        return f"{number} {unit['whole'].strip()}"
    return f"{number} {counted}" if is_same_number(number, "1") and f"{counted}s" in _MEASURES else number


def _is_asked_for(counted: str, question: str) -> bool:
    """Returns whether `counted`, a plural, is what the question asks for.

    That is so after "how many apples", or if "how much …?" leaves open what is counted.
    """
    asked = re.findall(r"how (?:many|much)(?: more| fewer| less| total)? ([a-z]+)\b(?! (?:and|or)\b)", question.lower())
    is_open = re.search(r"(?i)\bhow much\b[^?]*\?\s*$", question) is not None
    return _PLURAL.fullmatch(counted) is not None and (is_open or counted in asked[-1:])


def to_asked_form(answer: str, question: str) -> str:
    """Returns a written answer in the form that the question asks for, without a final stop and ".0".

    An hour becomes a time ("5:00"), a year is put in words, and other numbers get the unit that the question asks for.
    """
    bare = re.sub(r"^(-?\d+)\.0$", r"\1", answer.strip().rstrip("."))
    if re.fullmatch(r"[1-9]|1[0-2]", bare) and re.search(r"(?i)\bwhat time\b[^.?]*\?\s*$", question):
        return f"{bare}:00"
    if re.fullmatch(r"1[1-9]\d\d|20[0-4]\d", bare) and re.search(r"(?i)\b(?:what|which) year\b|^when\b", question):
        return spell_year(int(bare))
    asked = _IN_UNIT.search(question.replace("µ", "μ"))
    if asked is None or not re.fullmatch(NUMBER, bare) or is_same_number(bare, "1"):
        return bare
    unit = next(filter(None, asked.groups()), "")
    return f"{bare} {unit}" if unit.partition(" ")[0] in _MEASURES or is_unit(unit) else bare


def find_last_step(explanation: str) -> str:
    """Returns the last line of a solution that is not the result (`####`); empty if there is none."""
    lines = [line.strip() for line in explanation.splitlines()]
    lines = [line for line in lines if line and not line.startswith("####")]
    return lines[-1] if lines else ""


def answer_by_reasoning(item: Item, max_words: int, rng: random.Random) -> ExplainedAnswers:
    """Makes the spoken answers of an item with a solution; each is one sentence that says the number once.

    The full answer is, in most cases, the statement in the solution's last line, if that is a plain sentence of at most
    `max_words` that fits the question; else it is the number alone, with what it counts if the line shows that.

    Raises:
        Unspeakable: the answer itself cannot be spoken.
    """
    line = find_last_step(item.explanation or "")
    number = item.answer.strip().lstrip("$").rstrip(".")
    concluded = find_conclusion(item.answer, line, item.question)
    shown = to_asked_form(concluded or item.answer, item.question)
    short = _frame_answer(rng.choice(_COUNTED if shown.split()[1:] else _SHORT), shown)
    if concluded is None:
        return ExplainedAnswers(short, short, None)
    stated, calculation = find_sentence(line, number), find_calculation(line, number)
    full = None
    if stated is not None and not _agrees_with_question(stated, item.question):
        stated = None
    if stated is not None and rng.random() < _STATED_SHARE and ("$" in stated) == ("$" in shown):
        full = _read_single_answer(f"{stated}.", [shown, number], max_words)
    worked = (
        None if calculation is None else _read_single_answer(f"{calculation} = {shown}.", [shown, number], max_words)
    )
    return ExplainedAnswers(full or short, short, None if worked is None else worked.said)


def _agrees_with_question(stated: str, question: str) -> bool:
    """Returns whether a sentence has the tense of a question, and tells what somebody has only if that is asked."""
    sentences = re.split(r"(?<=[.!?]) +(?=[A-Z])", _TITLES.sub(r"\1", question.strip()))
    last = next((each for each in reversed(sentences) if each.endswith("?")), sentences[-1])
    asked = re.split(r"(?i)\b(?:how|what|which|who|when)\b", last, maxsplit=1)[-1]
    is_owned = re.search(r"\b(?:ha[sd]|have|left|with|own|get|got|receive|remain\w*)\b", asked) is not None
    owns = re.match(r"(?:\w+ ){1,3}(?:has|had|have) (?!to\b|\w+ed\b|been\b)", stated) is not None
    return _find_tense(asked) == _find_tense(stated) and (is_owned or not owns)


def _find_tense(text: str) -> str:
    """Returns the tense of the first auxiliary of a text (`_TENSES`), else past if a verb shows it, else present."""
    words = re.findall(r"[a-z']+", text.lower())
    tenses = [_TENSES[word] for word in words if word in _TENSES]
    tenses += ["past" for word in words if word in _PAST | _PAST_VERBS or re.search("[^e]ed$", word)]
    return next(iter(tenses), "present")


def _read_single_answer(written: str, answers: list[str], max_words: int) -> SpokenAnswer | None:
    """Returns a sentence as a spoken answer; None if it cannot be spoken, or has more than `max_words`.

    It must say the answer, in one of the wordings `answers`, exactly once; else None is returned too.
    """
    try:
        said = read_aloud(written)
    except Unspeakable:
        return None
    words = split_words(said.text)
    is_bare = answers[0].endswith("%") and "percent" not in words
    if is_bare or "parenthesis" in words:
        return None
    found = {place for answer in answers for place in find_words(split_words(read_aloud(answer).text), words)}
    return SpokenAnswer(said, found.pop()) if len(found) == 1 and len(words) <= max_words else None


def _frame_answer(frame: str, answer: str) -> SpokenAnswer:
    """Makes the spoken answer of a sentence with `{answer}` in it, in whose place the answer is put."""
    return SpokenAnswer(read_aloud(frame.format(answer=answer)), len(split_words(frame.partition("{")[0])))


def answer_by_option(option: str, stem: str, rng: random.Random) -> SpokenAnswer:
    """Returns an option as a spoken answer; in some cases, drawn by `rng`, as the whole sentence that it completes.

    Args:
        stem: the unfinished sentence, with `___` in place of the option; empty if there is none.

    Raises:
        Unspeakable: the option cannot be spoken.
    """
    if stem and len(stem.split()) <= _MAX_STEM_WORDS and rng.random() < _WHOLE_SENTENCES:
        before, _, after = stem.partition("___")
        goes_in = lower_start(_strip_option(option))
        if goes_in[:1] in _VOWELS:
            before = re.sub(r"\b([Aa]) $", r"\1n ", before)
        whole = read_aloud(f"{before}{goes_in}{after.rstrip()}.")
        if not before.strip():
            return SpokenAnswer(whole, 0)
        head = read_aloud(before)
        if split_words(whole.text)[: head.n_words] == split_words(head.text):
            return SpokenAnswer(whole, head.n_words)
    return answer_alone(option, bool(stem), rng)


def answer_alone(option: str, completes: bool, rng: random.Random) -> SpokenAnswer:
    """Returns an option as a spoken answer that stands by itself.

    A completion, a sentence, a phrase such as "by heating" or a capitalised one is spoken as it is; a name, a thing
    with its article, a number, "true" or "false" is put into a sentence; anything else stands alone.

    Args:
        completes: whether the option completes the question's sentence.

    Raises:
        Unspeakable: the option cannot be spoken.
    """
    text = _strip_option(option)
    if text.lower() in {"true", "false"}:
        return _frame_answer("That's {answer}.", text.lower())
    words = text.split()
    first = words[0].lower().strip(",") if words else ""
    is_capital = text[:1].isupper() and first not in _NOUN_STARTS
    is_sentence = len(words) >= _SENTENCE_WORDS and _FINITE.search(text) is not None
    is_sentence |= _SHORT_SENTENCE.match(text) is not None
    is_value = re.match(r"[^A-Za-z]*\d", text) is not None or find_cardinal(first) is not None
    is_name = all(word[:1].isupper() for word in words) and lower_start(text) == text
    is_thing = len(words) <= _MAX_SHORT_WORDS and (is_name or first in _NOUN_STARTS)
    if (
        completes
        or first in _BARE_STARTS
        or is_sentence
        or not (is_value or is_thing)
        or (is_capital and len(words) > 2)
    ):
        return _frame_answer("{answer}.", f"{text[:1].upper()}{text[1:]}")
    return _frame_answer(rng.choice(_SHORT), lower_start(text))


def is_no_verdict(answer: str) -> bool:
    """Returns whether an answer cannot answer a yes-no question: it is a number, or a few words without a verdict."""
    text = _strip_option(answer)
    is_short = len(text.split()) <= _MAX_SHORT_WORDS and _FINITE.search(text) is None
    return _VERDICT.match(text) is None and (is_short or re.match(r"[^A-Za-z]*\d", text) is not None)


def _strip_option(option: str) -> str:
    """Returns an option without marks at its end, with "and" before the last number of a list and joined signs."""
    return _LIST.sub(r"\1and ", join_sign(re.sub(r"[\s.;,:]+$", "", option.strip())))


def to_noun_phrase(option: str) -> str | None:
    """Returns an option as it can stand in "Isn't it …?".

    Returns None if it is a sentence, "true" or "yes", a phrase such as "by heating", has more than four words, or
    refers to other options.
    """
    text = _strip_option(option)
    words = text.split()
    if not 1 <= len(words) <= _MAX_SHORT_WORDS or _FINITE.search(text) or re.search(r"[,;:]\s", text):
        return None
    first = words[0].lower()
    if (
        first in _BARE_STARTS
        or first in {"true", "false", "all", "none", "neither", "either"}
        or refers_to_options(text)
    ):
        return None
    return lower_start(text)


def is_same_number(left: str, right: str) -> bool:
    """Returns whether two written numbers are the same ("1,200" and "1200.00"); False if one is no number."""
    try:
        return float(left.replace(",", "")) == float(right.replace(",", ""))
    except ValueError:
        return False


def find_sentence(line: str, number: str) -> str | None:
    """Returns a solution's last line as one plain sentence that has the number once, without calculations.

    Returns None if it cannot be made so plain.
    """
    line = line.replace("’", "'").strip().rstrip(" .:,;")
    text = _EQUATION.sub(lambda found: _replace_equation(found, number), line)
    text = _REASON.sub("", _CONNECTIVES.sub("", _CONCLUDES.sub("", text)))
    text = " ".join(_IS.sub(" is ", _CONDITION.sub(r"\1", text)).split())
    places = [found for found in re.finditer(NUMBER, text) if is_same_number(found[0], number)]
    if len(places) != 1 or len(text.split()) > _MAX_SENTENCE_WORDS or _NO_START.match(text):
        return None
    if _NO_SENTENCE.search(text) or _COUNTED_TWICE.search(text) or _LEAVES_OFF.search(text):
        return None
    before, after = text[: places[0].start()].rstrip(" $£€"), text[places[0].end() :]
    is_stated = _has_subject_and_verb(before) if before else _NUMBER_FIRST.match(after) is not None
    return f"{text[:1].upper()}{text[1:]}" if is_stated else None


def find_calculation(line: str, number: str) -> str | None:
    """Returns the last calculation in a line that yields the number, such as "40 - 10"; None if there is none."""
    worked = [found["worked"].strip() for found in _EQUATION.finditer(line) if _equals_number(found, number)]
    return worked[-1] if worked else None


def _replace_equation(found: re.Match[str], number: str) -> str:
    """Returns the result of an equation if that is the number, else the equation unchanged."""
    return f" {found['result']}" if _equals_number(found, number) else found[0]


def _equals_number(found: re.Match[str], number: str) -> bool:
    """Returns whether the result of a matched equation is the number."""
    return is_same_number(found["result"].strip("$£€ "), number)


def _has_subject_and_verb(before: str) -> bool:
    """Returns whether the words before a number are a subject and a verb, and the number can follow the last one."""
    words = [word.strip(",").lower() for word in before.split()]
    is_named = before[:1].isupper() and words[0] not in _VERBS and _MEASURED.match(before) is None
    verbs = {at for at, word in enumerate(words) if word in _VERBS}
    verbs |= {at + 1 for at, word in enumerate(words[:-1]) if word in _SUBJECTS}
    if is_named:
        verbs |= {at for at, word in enumerate(words) if word in _PAST or word.endswith("ed")}
    last = words[-1]
    is_verb_place = len(words) > 1 and words[-2] in _BEFORE_VERB
    is_joined = last in _JOINS | _VERBS | _PAST or last.endswith("ed") or is_verb_place
    return is_joined and not before.endswith(",") and bool(verbs - {0})
