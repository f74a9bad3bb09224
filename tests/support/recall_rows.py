"""Dialogues for evaluations of recall: a question, its answer after a lead, and the answer again when asked for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data_schemas.code_layout import CodeLayout
from kame_model.encode.manifest import MadeWith
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleTokens
from kame_model.text.tokenizer import Tokenizer
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD
from tests.support.scripted_front_end import SILENCE, SPEECH
from tests.support.token_rows import vocabulary_of, write_token_rows

WORDS = (
    *("it", "is", "five", "six", "seven", "no", "well", "the", "treaty", "of", "versailles", "yalta", "clips", "again"),
    *(f"w{chr(97 + at)}" for at in range(26)),
)
ASKED, AGAIN, N_FRAMES = 12, 84, 130
"""Frames at which the first and the second question have been heard, and frames of all."""


def make_vocabulary(folder: Path) -> Tokenizer:
    """Makes a vocabulary of whole words: the special pieces, and as many of `WORDS` as `TEXT_CARD` pieces hold."""
    pieces = ["<end-of-padding>", "<s>", "<unk>", "<pad>", *(f"▁{word}" for word in WORDS)][:TEXT_CARD]
    return vocabulary_of(pieces, folder / "words.model")


def lay(tokens: Sequence[int], start: int, text: np.ndarray) -> None:
    """Writes tokens into a text stream in place, one for each frame from `start` on."""
    text[start : start + len(tokens)] = tokens


def recall_row(
    number: int,
    answer: str,
    tokenizer: Tokenizer,
    *,
    asked_again: bool = False,
    cut: bool = False,
    question: str = "how many",
    split: str = "validation",
    source: str = "mine",
    n_frames: int = N_FRAMES,
) -> TokenRow:
    """Makes a dialogue in which "well it is ANSWER" is said to a question, and "it is ANSWER" to a second one.

    Args:
        asked_again: whether there is a second question.
        cut: whether a second question cuts the first answer off after "well", before anything of ANSWER is said.
        n_frames: length of the dialogue; at least 30, and 100 with a second question.
    """
    body, lead, guess = tokenizer.encode(f"it is {answer}"), tokenizer.encode("well"), tokenizer.encode("no")
    n_body = len(body) - len(tokenizer.encode("it is"))
    text, mask = np.full(n_frames, PADDING_ID, np.int32), np.zeros(n_frames, np.bool_)
    codes = np.random.default_rng(number).integers(0, CARD, (2, N_CODEBOOKS, n_frames)).astype(np.int16)
    codes[1] = SILENCE
    codes[1, :, 2:ASKED] = SPEECH
    lay(lead, ASKED + 3, text)
    if not cut:
        lay(body, ASKED + 6, text)
        mask[ASKED + 6 + len(body) - n_body : ASKED + 6 + len(body)] = True
    events = [(6, 0.4, guess), (ASKED, 1.0, body)]
    if asked_again or cut:
        codes[1, :, AGAIN - 8 : AGAIN] = SPEECH
        lay(body, AGAIN + 4, text)
        mask[AGAIN + 4 + len(body) - n_body : AGAIN + 4 + len(body)] = True
        events += [(AGAIN - 4, 0.5, guess), (AGAIN, 1.0, body)]
    codes[0, :2] = text % 10, text // 10  # so that `ScriptedCodec` and `hear_with` hear the words
    oracle = OracleTokens.pack(
        [frame for frame, _, _ in events],
        [ratio for _, ratio, _ in events],
        [5 if ratio == 1 else 0 for _, ratio, _ in events],
        [ratio == 1 for _, ratio, _ in events],
        [told for _, _, told in events],
        [told if ratio == 1 else [] for _, ratio, told in events],
    )
    nobody = OracleTokens.pack([], [], [], [], [], [])
    silent = np.full(n_frames, PADDING_ID, np.int32)
    return TokenRow(
        dialogue_id=f"{source}-{number}-v0",
        item_id=f"{source}-{number}",
        source=source,
        split=split,
        form="interruption" if cut else "follow_up" if asked_again else "plain",
        question=question,
        answer=answer,
        n_frames=n_frames,
        duration_s=n_frames * 0.08,
        a=SpeakerTokens(text, codes[0], oracle, mask),
        b=SpeakerTokens(silent, codes[1], nobody, np.zeros(n_frames, np.bool_)),
    )


def write_recall_rows(folder: Path, rows: Sequence[TokenRow], tokenizer: Tokenizer, **made: str | int) -> TokenDataset:
    """Writes a folder of token rows with a shard for each split and source, and opens it.

    Args:
        made: fields of its `MadeWith` that differ from those of the tiny front-ends.
    """
    by = {
        "codec": "made",
        "codec_digest": "c",
        "layout": CodeLayout.make_mimi(N_CODEBOOKS, CARD),
        "tokenizer_digest": tokenizer.digest,
        "text_card": TEXT_CARD,
    }
    shards: dict[tuple[str, str], list[TokenRow]] = {}
    for row in rows:
        shards.setdefault((row.split, row.source), []).append(row)
    return write_token_rows(folder, *shards.values(), made_with=MadeWith.model_validate(by | made))
