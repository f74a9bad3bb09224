"""How text is spelt in our vocabularies: lower-case words of ASCII letters and apostrophes, and nothing else.

The rules go into the vocabulary's file, where SentencePiece applies them, so that whoever reads the file gives the
model the same tokens. An oracle's "Sixty litres. So it's…" then has the tokens of the words as they are said, which
have no marks: what the model is to say is what it is fed.
"""

import string
import unicodedata
from typing import Final

LETTERS: Final = string.ascii_lowercase + "'"
"""The characters of every spoken word, whatever the corpus has."""

_APOSTROPHES: Final = "‘’ʼ´`"
_LATIN: Final = range(0xC0, 0x250)  # Latin-1 Supplement and Latin Extended-A and -B: letters with accents
_MARKS: Final = set(string.punctuation) - {"'", "`"}


def spelling_rules() -> dict[str, str]:
    """What each character is written as, where that is not itself: capitals small, marks as spaces, no accents."""
    rules = {letter: letter.lower() for letter in string.ascii_uppercase}
    rules |= dict.fromkeys([*_MARKS, *"–—…“”„«»▁\t\n\r\u00a0"], " ")
    rules |= dict.fromkeys(_APOSTROPHES, "'")
    for letter in map(chr, _LATIN):
        plain = "".join(each for each in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(each))
        if plain != letter and plain.isascii() and plain.isalpha():
            rules[letter] = plain.lower()
    return rules
