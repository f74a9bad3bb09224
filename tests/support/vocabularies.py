"""Small vocabularies for tests: one of ours, and one made as Moshi's is (unigram, bytes for what it does not know)."""

import io
from pathlib import Path
from typing import Any

import sentencepiece

from kame_model.text.tokenizer import Tokenizer
from kame_model.text.tokenizer_training import train_tokenizer

TEXTS = (
    "A water tank holds ninety litres and is one third full. How many more litres are needed to fill it to the top?",
    "Sure, let me think. It needs ninety minus thirty equals sixty litres more. So the answer is sixty litres.",
    "Wait, what number was that? Sorry. That's sixty litres. Hope that helps, and isn't it nice?",
    "Weng earns twelve dollars an hour for babysitting. Yesterday, she just did fifty minutes of babysitting.",
    "How much did she earn? Well, she earned ten dollars, because fifty minutes are five sixths of an hour.",
    "Natalia sold clips to forty eight of her friends in April, and then she sold half as many clips in May.",
    "Altogether she sold seventy two clips in April and May, which is not very many after all.",
    "Good question. In that battle the king was killed, and his brother became the new king of the country.",
    "The mitochondria make the energy of the cell. Is there anything else that you would like to know?",
)


def make_vocabulary(folder: Path, size: int = 300) -> Tokenizer:
    """Trains a vocabulary of `size` pieces on `TEXTS` as `kame text train` does, and writes it into a folder."""
    return train_tokenizer(TEXTS, size, folder / f"tokenizer-{size}.model").tokenizer


def train_with(path: Path, **options: Any) -> Path:
    """Trains a SentencePiece model on `TEXTS`, writes it to a file, and returns the file.

    Args:
        options: options of SentencePiece that differ from those of Moshi's vocabulary.
    """
    model = io.BytesIO()
    settings: dict[str, Any] = {
        "model_type": "unigram",
        "vocab_size": 500,
        "byte_fallback": True,
        "unk_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "pad_id": 3,
        "hard_vocab_limit": False,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS), model_writer=model, **settings | options)
    path.write_bytes(model.getvalue())
    return path


def make_moshi_like(folder: Path) -> Tokenizer:
    """A vocabulary with the special ids of Moshi's file: unknown 0, start 1, end 2, padding 3."""
    return Tokenizer(train_with(folder / "moshi-like.model"))
