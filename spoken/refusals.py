"""What refusing to answer sounds like, in English: the training data leaves such answers out, and the server too."""

from typing import Final

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
)
"""A pattern for words in small letters, without marks, each with one space after it."""
