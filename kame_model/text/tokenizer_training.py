"""Trains a small vocabulary on a corpus, with Moshi's special ids.

It is BPE over word counts: merges never cross words, so only the counts matter, and the file is the same for any order
of the texts and any number of workers. Number words are always pieces of their own: an answer such as "ninety six" is
then two tokens to copy, each with one meaning.

Text is normalised to lower-case words of ASCII letters and apostrophes. The rules are stored in the vocabulary's file
and applied by SentencePiece, so that every reader of the file gets the same tokens. An oracle's "Sixty litres. So
it's…" then has the same tokens as the spoken words, which have no punctuation: the model is fed what it should say.
"""

import io
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sentencepiece

from data_schemas.errors import ConfigError, DatasetError, StoreError
from data_schemas.flags import read_flagged
from data_schemas.manifest import DATA, ORACLE
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.text.tokenizer import WORD_START, Tokenizer

_CARDINALS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion"
)
NUMBER_WORDS: Final = (*_CARDINALS.split(), "point", "minus")
"""Words of spoken numbers; "first", "half" and the like become pieces if they are frequent."""

LETTERS: Final = string.ascii_lowercase + "'"
"""Characters that every vocabulary has, whatever the corpus contains."""

_APOSTROPHES: Final = "‘’ʼ´`"
_LATIN: Final = range(0xC0, 0x250)  # Latin-1 Supplement and Latin Extended-A and -B: letters with accents
_MARKS: Final = set(string.punctuation) - {"'", "`"}

_START_ID: Final = 1
_UNKNOWN_ID: Final = 2
_N_SPECIAL: Final = 4
_ERRORS: Final = 2  # SentencePiece's log level


def read_training_texts(reader: DatasetReader) -> Iterator[str]:
    """Yields the spoken text of a dataset's training split, and the distinct texts of each dialogue's oracles.

    The oracles are those of the reader's version.
    Validation, test and flagged dialogues are skipped. No audio is read.

    Raises:
        StoreError: a file is missing or damaged.
        DatasetError: a line of the flags is not valid.
    """
    left_out = read_flagged(reader.store)
    for entry in reader.manifest.select_kind(DATA):
        for row in _read_training_rows(reader, entry.path, "turns", left_out):
            yield from (turn["spoken_text"] for turn in row["turns"])
    for entry in reader.manifest.select_kind(ORACLE):
        if entry.oracle_version == reader.oracle_version:
            for row in _read_training_rows(reader, entry.path, "events", left_out):
                yield from sorted({event["text"] for event in row["events"] if event["text"] is not None})


def _read_training_rows(
    reader: DatasetReader, path: str, column: str, left_out: Container[str]
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file's training split, without the dialogues in `left_out`.

    A row has the keys `dialogue_id`, `split` and `column`.
    """
    table = reader.store.read_table(path, ["dialogue_id", "split", column])
    for row in table.to_pylist():
        if row["split"] == "train" and row["dialogue_id"] not in left_out:
            yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTokenizer:
    """A trained vocabulary, and how well it fits its corpus.

    Attributes:
        tokenizer: loaded from the written file.
        n_words: number of words of the corpus.
        n_different_words: number of distinct words.
        n_tokens: number of tokens of the corpus.
        n_words_whole: number of words of the corpus that are one token.
    """

    tokenizer: Tokenizer
    n_words: int
    n_different_words: int
    n_tokens: int
    n_words_whole: int

    @property
    def tokens_a_word(self) -> float:
        """Mean number of tokens of a word of the corpus."""
        return self.n_tokens / self.n_words

    @property
    def share_whole(self) -> float:
        """Share of the corpus's words that are one token."""
        return self.n_words_whole / self.n_words

    def to_json(self) -> dict[str, int | float | str]:
        """Returns the figures as JSON values."""
        return {
            "text_card": self.tokenizer.text_card,
            "digest": self.tokenizer.digest,
            "words": self.n_words,
            "different_words": self.n_different_words,
            "tokens_a_word": round(self.tokens_a_word, 4),
            "share_whole": round(self.share_whole, 4),
        }


def train_tokenizer(
    texts: Iterable[str],
    vocabulary: int,
    out: str | Path,
    whole_words: Sequence[str] = (),
    datasets: Sequence[str] = (),
) -> TrainedTokenizer:
    """Trains a vocabulary and writes it; the file is written completely or not at all.

    Args:
        texts: spoken texts, in any order.
        vocabulary: number of pieces, including the four special ones; `text_card` of the model.
        out: the file to write.
        whole_words: words that become one piece each, besides `NUMBER_WORDS`.
        datasets: folders that the texts are from, for the error message.

    Raises:
        DatasetError: the texts have no words, or too few for so many pieces.
        ConfigError: the vocabulary is too small for the characters and whole words, or one of these is not a word.
        StoreError: the file cannot be written, or it exists and holds another vocabulary.
    """
    counts = _count_words(texts)
    if not counts:
        place = f" in the training split of {', '.join(datasets)}" if datasets else ""
        raise DatasetError(
            f"There is no text{place} to train a tokenizer on.", "Use a dataset with training dialogues."
        )
    whole = list(dict.fromkeys((*NUMBER_WORDS, *whole_words)))
    _check_pieces(counts, whole, vocabulary)
    path = Path(out).expanduser().absolute()
    _write_once(path, _train_pieces(counts, vocabulary, whole))
    tokenizer = Tokenizer(path)
    n_pieces = {word: len(tokenizer.encode(word)) for word in counts}
    return TrainedTokenizer(
        tokenizer=tokenizer,
        n_words=counts.total(),
        n_different_words=len(counts),
        n_tokens=sum(n_pieces[word] * count for word, count in counts.items()),
        n_words_whole=sum(count for word, count in counts.items() if n_pieces[word] == 1),
    )


def _count_words(texts: Iterable[str]) -> Counter[str]:
    """Counts the words of texts, normalised as the vocabulary normalises them."""
    spelling = str.maketrans(_make_spelling_rules())
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.translate(spelling).split())
    return counts


def _make_spelling_rules() -> dict[str, str]:
    """Returns the character replacements: capitals to lower case, punctuation to spaces, accents removed."""
    rules = {letter: letter.lower() for letter in string.ascii_uppercase}
    rules |= dict.fromkeys([*_MARKS, *"–—…“”„«»▁\t\n\r\u00a0"], " ")
    rules |= dict.fromkeys(_APOSTROPHES, "'")
    for letter in map(chr, _LATIN):
        plain = "".join(each for each in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(each))
        if plain != letter and plain.isascii() and plain.isalpha():
            rules[letter] = plain.lower()
    return rules


def _write_once(path: Path, content: bytes) -> None:
    """Writes a vocabulary's file; raises a StoreError if it exists with other contents."""
    store = Store(str(path.parent))
    if store.exists(path.name) and store.read_bytes(path.name) != content:
        raise StoreError(
            f"{path} already exists and is another vocabulary; data encoded with it would become unreadable.",
            "Choose another file with --out, or remove it.",
        )
    store.write_bytes(path.name, content)


def _check_pieces(counts: Counter[str], whole: Sequence[str], vocabulary: int) -> None:
    """Checks the size of the vocabulary and the whole words.

    Args:
        counts: the words of the corpus.
        whole: words that become one piece each.
        vocabulary: number of pieces.

    Raises:
        ConfigError: it is too small for all characters and whole words, or a whole word has other characters than
            `LETTERS`.
    """
    for word in whole:
        if not word or set(word) - set(LETTERS):
            raise ConfigError(f"{word!r} cannot be a piece of its own.", "Use words of lower-case letters.")
    n_characters = len({*LETTERS, *(character for word in counts for character in word)})
    needed = _N_SPECIAL + len(whole) + n_characters + len(WORD_START)
    if vocabulary < needed:
        raise ConfigError(
            f"A vocabulary of {vocabulary} is too small: {n_characters} characters, {len(whole)} whole words and the "
            f"special pieces make {needed}.",
            f"Choose {needed} or more; 1000 is usual.",
        )


def _train_pieces(counts: Counter[str], vocabulary: int, whole: Sequence[str]) -> bytes:
    """Trains a vocabulary with SentencePiece, whose log level it sets, and returns the contents of its file.

    Raises:
        DatasetError: the words are too few for so many pieces.
    """
    model = io.BytesIO()
    sentencepiece.SetMinLogLevel(_ERRORS)  # the rules are read before the trainer sets its own
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in sorted(counts.items())),
            input_format="tsv",
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary,
            eos_id=END_OF_PADDING_ID,
            eos_piece="<end-of-padding>",
            bos_id=_START_ID,
            unk_id=_UNKNOWN_ID,
            pad_id=PADDING_ID,
            user_defined_symbols=[WORD_START + word for word in whole],
            normalizer=sentencepiece.SentencePieceNormalizer(norm_map=sorted(_make_spelling_rules().items())),
            character_coverage=1.0,
            required_chars=LETTERS,
            split_by_unicode_script=False,  # "it's" may be one piece
            shuffle_input_sentence=False,
            num_threads=1,
            minloglevel=_ERRORS,
        )
    except RuntimeError as error:
        most = re.search(r"<= (\d+)", str(error))  # the trainer's message has the possible number
        raise DatasetError(
            f"{len(counts)} different words are too few for a vocabulary of {vocabulary} pieces"
            + (f"; the maximum is {most[1]}." if most else f": {str(error).strip()}."),
            "Choose fewer pieces with --vocabulary, or use more dialogues.",
        ) from error
    return model.getvalue()
