"""Detects questions that depend on a picture, and removes references to it if they do not, or if it is described."""

import re
from typing import Final

from data_schemas.records import Item
from pipelines.script.rejections import NotAskable, join_patterns

_VISUAL: Final = (
    "(?:picture|image|figure|diagram|cartoon|graph|chart|map|photo|photograph|painting|table|illustration|exhibit"
    "|drawing|poster|sketch|circuit|plot|matrix|histogram|schedule)"
)

_POINTS_AT_PICTURE: Final = join_patterns(
    rf"\b{_VISUAL}s? (?:above|below|shown|at (?:the )?(?:right|left)|on the (?:right|left))\b",
    rf"\b(?:the|this) (?:\w+ )?{_VISUAL} (?:shows|depicts)\b",
    rf"\b(?:above|below|following|accompanying|attached|preceding) {_VISUAL}s?\b",
    rf"\b(?:shown|pictured|depicted|illustrated|sketched|drawn|given) in the {_VISUAL}\b",
    r"\b(?:shown|pictured|depicted|illustrated|sketched|drawn|listed|tabulated|given) (?:below|above|here)\b",
    r"\bas shown\b",
    r"\bfollowing (?:data|table) (?:shows?|are|were|was|is|gives?)\b",
    r"\b(?:question|problem|exercise|example) (?:\d+|number|above|below)\b",
    r"\babove (?:statement|table|data|information|figure|example|problem|equation|reaction)s?\b|\bpattern below\b",
    r"\b(?:preceding|previous) (?:question|problem|exercise)\b",
    r"\b(?:statement|transaction|situation|scenario|case|reaction|argument|data|equation) (?:above|below)\b|\babove\?",
    r"\bshaded (?:area|region|part)\b",
    r"\bthe (?:figure|diagram|cartoon|illustration)\b",
    r"\b(?:see|refer to|in|from) fig\.",
    r"\b(?:Table|Figure|Fig\.|Exhibit|Scenario) ?\d+(?:[-.]\d+)?(?! and table)\b",
)
"""For items without a picture, in which "table" and "picture" are mostly things."""

_SPEAKS_OF_PICTURE: Final = join_patterns(
    rf"\b(?<!\bpublic )(?!figures? of speech\b){_VISUAL}s?\b",
    r"\b(?:shown|depicted|pictured|displayed|portrayed|observ(?!ed that\b)\w+|look(?:ing)? at|visible)\b",
    r"\b(?:scene|artifact|model here)\b",
    r"\b(?:above|below|here|left|right|background|foreground|labell?ed|shaded|panel)\b",
    r"\bcurves? (?:[A-Z]\w{0,2}|illustrates?|represents?|shows?|looks?|has|have|shift\w*)\b",
    r"\brepresents?\b.*\brepresents?\b",
    r"(?<!hich of )\b(?:these|those)\b|\bthis (?!year|time|question|sentence|case)\w+\b",
    r"\b(?:the|this) (?:shift|movement|figure|scenario|game|matrix|following)\b",
    r"\b(?:[A-Z]\d+|[A-Z]_\w|(?:points?|areas?|curves?|firms?|bundles?|countr(?:y|ies)) \(?[A-Z]\b)",
    r"\b(?:postures?|gestures?|decorations?|logo|composition|costume details|mask details|surface patterns?)\b",
    r"\bfigurines? (?:is|are|has|have)\b",
    r"\b(?:painters?|artists?|author|decorative|embroider\w+|murals?|statues?|sculptures?|portraits?|reliefs?)\b",
    r"\bsymbols on\b|\b(?:is|are|as)\s*[:.]",
)
"""For items with a picture: anything that may be in it, or refer to it."""

_NOT_GIVEN: Final = join_patterns(
    r"\b(?:the|this|that|these|those) (?:\w+ )?(?:cartoon|comic|poem|passage|excerpt|document|article|letter|contract"
    r"|notice|advertisement|slogan|report|dialogue|news|materials?|information|data|statistics|survey|interview)s?\b",
    r"\b(?:the|of) (?:two|three|four|five|six|[2-6]) (?:\w+ )?(?:offer|job|plan|project|option|proposal|bundle"
    r"|candidate|painting|stamp|poster)s?\b",
)
"""A text, or several things, that would have to be given: for items with a picture."""

_ROLE: Final = re.compile(
    r"\b[Tt]he ((?:lender|borrower|buyer|seller|landlord|tenant|employer|employee|speaker|narrator|poet|student|teacher"
    r"|manager|owner|customer|investor|company|restaurant|family|boy|girl|man|woman|child|doctor|character|protagonist)s?)"
    r"\b"
)
"""A person who is known only if the text has mentioned them before."""

_UNHEARD: Final = join_patterns(
    r"^(?=.{0,200}$).*(?:according to|refer(?:ring)? to|based on) (?:the|this) (?:passage|excerpt|graph|table)\b",
    r"^(?=.{0,200}$)(?:in|from) (?:the|this) (?:passage|excerpt|graph|table),",
    r"\b(?:the|this) (?:passage|excerpt) above\b|\brefer to the following (?:information|passage|excerpt|table)\b",
)
"""A text or a table to which a short question refers without giving it."""

_REFERENCE_TABLES: Final = re.compile(r"\b[Uu]sing (?:the |an? |steam )(?!truth |periodic )(?:\w+ )?tables?\b")
"""Tables in which the reader was to look up a value."""

_THE: Final = r"(?:the|this|an?) (?:(?:following|above|given|accompanying|attached|preceding) )?"
_LOOKED: Final = r"(?:shown|seen|pictured|depicted|illustrated|displayed|presented|given|portrayed|reflected)"
_SENDING: Final = join_patterns(
    rf"(?:please )?(?:refer to|look at|see|consider|use|observe) (?:{_THE})?{_VISUAL}s? ?\d*(?:[-.]\d+)*"
    r"(?: (?:above|below|shown))?(?:[.,:;] |$| and | to )",
    rf"^(?:based on|according to|from|using) {_THE}{_VISUAL}s?(?: (?:above|below|shown|provided))?, ",
    rf",? as {_LOOKED} (?:in|on|by) (?:{_THE})?(?:{_VISUAL}|model)s?(?: (?:above|below|here|shown))?(?=[.,;?])",
    r"^ *\d+\) ",
)
"""Words that only refer to a picture."""

_PLACING: Final = join_patterns(
    rf",? {_LOOKED} (?:in|on|by) {_THE}{_VISUAL}s?(?: (?:above|below|here))?",
    rf",? (?:in|on|from) {_THE}{_VISUAL}s?(?: (?:above|below|here|shown))?",
)
"""Words that say where a thing is seen: without them it must be known by name."""

_STANDING: Final = re.compile(rf"\b(is|are|was|were) (?:{_LOOKED} )?(?:in|on) {_THE}{_VISUAL}s?\b", re.IGNORECASE)
"""A picture as the place of something: replaced by "there"."""

_NAME: Final = re.compile(r"(?<![.?!:] )(?<!^)\b[A-Z][a-z]{2,}")
_LABELS_ONLY: Final = re.compile(
    r"(?:points? |areas? )?(?:[A-Za-z]{1,3}[\dₓ₀-₉]*|[\d$.,%]+|the same)(?:(?:,|;| \+| to| and|\)) ?[A-Z]\w{0,2})*\.?"
)
_LABELS: Final = re.compile(r"\b(?:to|from|at|point|area) [A-Z]\d?\b|\$?\d")
"""Options that are labels or numbers of a figure, and those that contain some."""


def make_pictureless_question(item: Item) -> str:
    """Returns the question as it can be asked without its picture: without references to the picture.

    If the picture is described (`picture_text`), the description comes first.

    An item with a picture that is not described is judged more strictly than one without: any mention of something
    visible, labels of points and areas, and values that may be read off it, cause a rejection.

    Raises:
        NotAskable: `needs_picture`: the question depends on a picture that is not described.
    """
    if item.picture_text and item.picture_text.strip():
        description = item.picture_text.strip()
        description += "" if description.endswith((".", "!", "?")) else "."
        return f"{description[:1].upper()}{description[1:]} {_strip_pointers(item.question)}"
    if item.picture is None:
        return _reword_references(item.question)
    if standing := _STANDING.search(item.question):
        raise NotAskable("needs_picture", standing[0])
    question = _strip_pointers(item.question)
    for text in (question, *item.options):
        if (seen := _NOT_GIVEN.search(text)) or (text is question and (seen := _SPEAKS_OF_PICTURE.search(text))):
            raise NotAskable("needs_picture", seen[0])
    if unknown := _find_unknown_role(question):
        raise NotAskable("needs_picture", unknown)
    if (placed := _PLACING.search(item.question)) and not _NAME.search(question):
        raise NotAskable("needs_picture", placed[0])
    is_changed = question != " ".join(item.question.split())
    if is_changed and (read_off := re.search(r"\$?\d[\d.,]*|\([^)]*$", question)):
        raise NotAskable("needs_picture", read_off[0])
    for option in item.options:
        if _LABELS_ONLY.fullmatch(option.strip()) or (is_changed and _LABELS.search(option)):
            raise NotAskable("needs_picture", option[:80])
    return question


def _find_unknown_role(question: str) -> str | None:
    """Returns a person that a question has not introduced but treats as known ("the lender"); None if there is none."""
    named = (each for each in _ROLE.finditer(question) if each[1].rstrip("s") not in question[: each.start()].lower())
    return next((each[0] for each in named), None)


def _strip_pointers(question: str) -> str:
    """Returns a question without the words that refer to its picture."""
    text = _STANDING.sub(r"\1 there", _SENDING.sub("", " ".join(question.split())))
    text = _PLACING.sub("", text).strip()
    text = re.sub(r"\s+([?.,])", r"\1", text)
    return text[:1].upper() + text[1:]


def _reword_references(question: str) -> str:
    """Returns a question without a picture, with references to its own text reworded ("listed below": "as follows").

    Raises:
        NotAskable: `needs_picture`: it refers to a picture or table nevertheless.
    """
    text = re.sub(r"\b(given|listed|shown) below\b(?=.{25})", r"\1 as follows", question, flags=re.DOTALL)
    text = re.sub(r"(.{60}\b)(given|listed|stated|described|mentioned) above\b", r"\1just \2", text, flags=re.DOTALL)
    text = re.sub(r" ?\((?:see )?(?:Fig(?:ure|\.)?|Table) ?\d+(?:[-.]\d+)*\)", "", text)
    text = re.sub(r"\b(information|data|values|events|passage) below\b(?=.{25})", r"\1", text, flags=re.DOTALL)
    if seen := _POINTS_AT_PICTURE.search(text) or _REFERENCE_TABLES.search(text) or _UNHEARD.search(text):
        raise NotAskable("needs_picture", seen[0])
    return text
