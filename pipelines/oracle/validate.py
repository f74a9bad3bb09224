"""Whether a model's answer can stand as an oracle. What cannot is asked for again; nothing is put in its place."""

import re
from collections import Counter
from collections.abc import Sequence

from pipelines.script.speakable import Unspeakable, speak, spoken_words
from pipelines.script.spoken import word_set

COPIED_WORDS = 4
"""A hint of at least so many words is copied where it stands in the answer whole; a shorter one cannot but be said."""
QUOTED_WORDS = 5
"""So many of the instruction's words in a row are a quotation, unless the speakers said them too."""
QUOTED_SENTENCE_WORDS = 3
"""A sentence of the instruction from so many words on is one as a whole."""
MAX_HINT_LEVEL_COPIED = 3
"""Level 4 may say the hint as it stands; at level 0 there is none."""

_REFUSES = re.compile(
    r"^(?:i'm|i am) sorry\b|\bas an? (?:ai|assistant|language model)\b|\b(?:ai|large) language model\b"
    r"|\bi (?:can't|cannot|am unable to|am not able to|won't) (?:help|assist|answer|provide|predict|guess|fulfil+)\b"
)
_QUOTES = re.compile(
    r"\b(?:hidden|secret) (?:answers?|hints?|notes?|words?)\b|\bthe (?:secret|hint|notes) (?:is|are|says?)\b"
    r"|\bgive you a hint\b|\btrue answer\b|\bspoken sentences\b|\b(?:user|assistant) unfinished\b"
)
_ENGLISH = word_set(
    "the is are was were be been being it its it's that that's this these those there they them their he she his her "
    "you your i i'm my we our of to and with for from what which who how would could should can will have has had do "
    "does did if because so but not by about than then"
)
"""Words of which an English sentence of some length has at least one."""
_MIN_WORDS_OF_ENGLISH = 8


class Unusable(Exception):
    """An answer that is no oracle; `reason` is a name with underscores, `detail` what shows it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


def usable_text(raw_text: str, max_words: int, level: int, hint: str, instruction: str, conversation: str) -> str:
    """A model's answer as it would be said: its first paragraph, whole sentences as far as they fit `max_words`.

    Args:
        instruction: what the model was told besides the conversation, with what it was shown of the hint.
        conversation: what was said so far; its words may be said again.

    Raises:
        Unusable: it is empty, too long, a refusal, in another language, repeats itself, quotes the instruction, copies
            the hint (levels 1 to 3), or cannot be spoken.
    """
    first = raw_text.strip().strip('"').split("\n", 1)[0].strip()
    if not first:
        raise Unusable("empty", "nothing was written")
    try:
        said = speak(first)
    except Unspeakable as refusal:
        raise Unusable(f"not_speakable_{refusal.reason}", refusal.detail[:100]) from refusal
    text = _whole_sentences(said, max_words)
    words = [word.lower() for word in spoken_words(text)]
    lowered = " ".join(words)
    if found := _REFUSES.search(lowered):
        raise Unusable("refusal", found[0])
    if len(words) >= _MIN_WORDS_OF_ENGLISH and not _ENGLISH.intersection(words):
        raise Unusable("other_language", lowered[:100])
    if repeated := _repeated(words):
        raise Unusable("repeats_itself", repeated)
    if quoted := _quoted(words, instruction, f"{conversation} {hint if level else ''}"):
        raise Unusable("quotes_instructions", quoted)
    if 1 <= level <= MAX_HINT_LEVEL_COPIED and _copies(words, [word.lower() for word in spoken_words(hint)]):
        raise Unusable("copies_hint", lowered[:100])
    return text


def _whole_sentences(said: str, max_words: int) -> str:
    kept: list[str] = []
    for sentence in re.findall(r"[^.?!]+[.?!]*", said):
        if len(spoken_words(" ".join([*kept, sentence]))) > max_words:
            break
        kept.append(sentence.strip())
    if not kept:
        raise Unusable("too_long", f"its first sentence has more than {max_words} words")
    return " ".join(kept).rstrip(",;:")


def _repeated(words: Sequence[str]) -> str:
    """Three words in a row that stand there three times, or one word four times in a row; empty where none do."""
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    triple, n_times = triples.most_common(1)[0] if triples else ((), 0)
    if n_times >= 3:
        return " ".join(triple)
    runs = zip(words, words[1:], words[2:], words[3:], strict=False)
    return next((run[0] for run in runs if len(set(run)) == 1), "")


def _quoted(words: Sequence[str], instruction: str, others: str) -> str:
    """What was taken from the instruction and from nobody else; empty where nothing was."""
    said_too = " ".join(spoken_words(others.lower()))
    if (found := _QUOTES.search(" ".join(words))) and found[0] not in said_too:
        return found[0]
    text = f" {' '.join(words)} "
    for sentence in re.split(r"[.?!]", instruction.lower()):
        own = spoken_words(sentence)
        if len(own) >= QUOTED_SENTENCE_WORDS and f" {' '.join(own)} " in text and " ".join(own) not in said_too:
            return " ".join(own)
    told = f" {' '.join(spoken_words(instruction.lower()))} "
    for start in range(len(words) - QUOTED_WORDS + 1):
        run = " ".join(words[start : start + QUOTED_WORDS])
        if f" {run} " in told and run not in said_too:
            return run
    return ""


def _copies(words: Sequence[str], hint: Sequence[str]) -> bool:
    if list(words) == list(hint):
        return True
    starts = range(len(words) - len(hint) + 1)
    return len(hint) >= COPIED_WORDS and any(list(words[at : at + len(hint)]) == list(hint) for at in starts)
