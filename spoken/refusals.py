"""Recognises answers that refuse to answer, in English; training data and the server exclude them."""

import re
from typing import Final

from spoken.spoken_text import split_words

REFUSAL: Final = (
    r"^(?:i'm |i am |we're |we are )?(?:very |so )?sorry\b|^(?:apologies|i apologi[sz]e)\b"
    r"|\b(?:as|being) an? (?:ai|(?:large )?language model)\b"
    r"|\b(?:i'm|i am) (?:just |only )?an? (?:ai|assistant|(?:large )?language model)\b"
    r"|\bi (?:can't|cannot|could not|couldn't|am unable to|am not able to|won't|will not) "
    r"(?:help|assist|answer|provide|fulfil+|respond)\b"
    r"|\bi (?:don't|do not) have (?:enough|sufficient|any|the|that) (?:more )?(?:information|context|details|data)\b"
    r"|\b(?:not|isn't) enough (?:information|context)\b"
    r"|\bplease (?:provide|give|share|tell me|complete|finish|repeat|rephrase|clarify)\b"
    r"|\b(?:can|could) you (?:please )?(?:provide|share|complete|finish|repeat|rephrase|clarify)\b"
    r"|\b(?:as|being) an? (?:voice |virtual )?assistant i\b"
    r"|\b(?:insufficient|more) (?:information|context) (?:is|to)\b"
)
"""Pattern for lower-case words without punctuation, with one space after each."""

_REFUSES: Final = re.compile(REFUSAL)
IS_UNSURE: Final = (
    r"\bi (?:can't|cannot|could not|couldn't|am unable to|am not able to|won't|will not) "
    r"(?:predict|guess|determine|find|know|say|tell)\b"
    r"|\b(?:i'm|i am) (?:unable|not able) to\b"
    r"|\b(?:not possible|impossible) (?:for me )?to "
    r"(?:answer|predict|guess|determine|find (?:out|the|an?)|know|say|tell)\b"
    r"|^(?:(?:well|so|oh),? )?i (?:don't|do not|would not|wouldn't) know\b"
)
"""After half a question, nobody is sure: this is a refusal only if no other clause guesses (`_GUESSES`)."""
_IS_UNSURE: Final = re.compile(IS_UNSURE)
_CLAUSE: Final = re.compile(rf"(?:{IS_UNSURE})(?:(?! (?:but|though|although|however|so|i)\b)[^,.?!;:])*")
_GUESSES: Final = re.compile(
    r"\b(?:guess|probably|perhaps|maybe|likely|(?:may|might|could|should|must) be|(?:i'd|i would) say|seems"
    r"|around|about|roughly)\b|\b(?:i (?:think|believe|suspect)\b(?!(?: that)?(?: it is| it's)? ?(?:[,.?!;:]|$)))"
)


def find_refusal(said: str) -> str:
    """Returns the lower-case words by which a whole spoken answer refuses to answer; empty if it does not."""
    lowered = said.lower()
    if found := _REFUSES.search(" ".join(split_words(lowered))):
        return found[0]
    unsure = _IS_UNSURE.search(lowered)
    is_guessed = _GUESSES.search(_CLAUSE.sub("", lowered)) is not None
    return " ".join(split_words(unsure[0])) if unsure and not is_guessed else ""
