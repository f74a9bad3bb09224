"""Runs kame_finetune's own tools on dialogues; started by `benchmarks.reference`.

    cd CHECKOUT && .venv/bin/python PATH/reference_tools.py DIALOGUES.json ARRAYS.npz TOKENIZER ROUNDS > figures.json

It runs in the environment of the checkout and imports nothing of this project. The folder that it is started in must be
the checkout.
"""

import copy
import hashlib
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor

FRAME_RATE_HZ, MAX_COLUMNS, PADDING_ID, N_CODEBOOKS, CARD = 12.5, 512, 3, 8, 2048
DELAYS = [0, *2 * [0, *[1] * (N_CODEBOOKS - 1)]]
"""Delays of the text and then of the codes of both voices."""


def measure_best_s(work: Callable[[Any], Any], given: Any, n_rounds: int) -> tuple[float, Any]:
    """Does work in several rounds, each with a copy of `given`, into which it may write.

    Returns the minimum of its processor seconds, and its last result.
    """
    best_s, made = float("inf"), None
    for _ in range(n_rounds):
        copied = copy.deepcopy(given)
        before_s = time.process_time()
        made = work(copied)
        best_s = min(best_s, time.process_time() - before_s)
    return best_s, made


def count_requests(dialogues: Sequence[Any]) -> list[int]:
    """Returns, for each dialogue, how many requests their tool makes for the words of speaker A, every half second."""
    tools = importlib.import_module("tools.oracle_generation")
    found = []
    for each in dialogues:
        records = [{"speaker": speaker, **word} for speaker in "AB" for word in each[speaker]]
        words = tools.merge_word_streams(tools.words_from_word_transcript(records))
        found.append(len(list(tools.OracleGenerator(target_channel=0).generate_requests(words))))
    return found


def make_texts(dialogues: Sequence[Any], tokenizer: SentencePieceProcessor) -> list[list[list[int]]]:
    """Returns the text streams of both speakers of each dialogue, made by their tool: a token id for each frame."""
    tools = importlib.import_module("tools.tokenize_text")
    return [
        [
            tools.tokenize_and_pad_text(
                word_transcript=[{"speaker": speaker, **word} for word in each[speaker]],
                no_whitespace_before_word=False,
                text_tokenizer=tokenizer,
                text_padding_id=PADDING_ID,
                end_of_text_padding_id=0,
                audio_tokenizer_frame_rate=FRAME_RATE_HZ,
                allow_alignment_warnings=True,
            )
            for speaker in "AB"
        ]
        for each in dialogues
    ]


def pack(rows: Sequence[Any], text_card: int) -> list[Any]:
    """Returns the columns of each dialogue for training, in chunks, made by their tool without oracles.

    Speaker A is the one that is learnt.
    """
    tools = importlib.import_module("utils.data")
    initial = [text_card, *[CARD] * (2 * N_CODEBOOKS)]
    packed = []
    for row in rows:
        made = tools.preprocess_function(
            {speaker: [streams] for speaker, streams in zip("AB", row, strict=True)},
            speakers=["A"],
            max_length=MAX_COLUMNS,
            min_length=None,
            delays=DELAYS,
            initial_token_ids=initial,
            padding_token_ids=[PADDING_ID, *initial[1:]],
            zero_token_id=-1,
            oracle_column_suffix=None,
        )
        packed.append(made["streams"])
    return packed


def digest_columns(chunks: Sequence[Any]) -> str:
    """Returns a digest of all columns of a dialogue, in order."""
    return hashlib.sha256(np.concatenate(chunks, axis=1).astype(np.int32).tobytes()).hexdigest()


def main() -> None:
    """Measures the three steps and prints JSON."""
    dialogues = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tokenizer, n_rounds = SentencePieceProcessor(model_file=sys.argv[3]), int(sys.argv[4])
    with np.load(sys.argv[2]) as arrays:
        rows = [[arrays[f"arr_{2 * at + other}"].tolist() for other in (0, 1)] for at in range(len(dialogues))]
    sys.path.insert(0, str(Path.cwd()))
    warnings.simplefilter("ignore")  # their remarks on single tokens
    schedule_s, n_requests = measure_best_s(count_requests, dialogues, n_rounds)
    text_s, texts = measure_best_s(lambda copied: make_texts(copied, tokenizer), dialogues, n_rounds)
    packing_s, packed = measure_best_s(lambda copied: pack(copied, tokenizer.get_piece_size()), rows, n_rounds)
    results = {
        "s": {"schedule": schedule_s, "text": text_s, "packing": packing_s},
        "n_requests": n_requests,
        "texts": texts,
        "columns": [digest_columns(each) for each in packed],
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
