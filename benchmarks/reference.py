"""Compares our schedule, text frames and packing with kame_finetune's own tools, on the same dialogues.

    git clone https://github.com/SakanaAI/kame_finetune && (cd kame_finetune && uv sync --python 3.12)
    python -m benchmarks.reference DATASET --checkout kame_finetune [--n 200] [--rounds 3] [--json]

Theirs run in the environment of the checkout (`reference_tools.py`); each time is the minimum processor time of several
rounds. The codes are random, and no disk access is timed.

| step | kame_finetune | kame |
|---|---|---|
| schedule | `OracleGenerator.generate_requests` for speaker A | `plan_dialogue` |
| text | `tokenize_and_pad_text` of both speakers | `place_text` |
| packing | `preprocess_function`, without oracles | `make_columns`, `chunks`, `make_labels` |

The schedules are different by design (pipelines/oracle/schedule.py); texts should be the same on nearly all frames, and
the packed columns on all, because both pack our texts. Differences are counted.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import make_parser, print_figures
from benchmarks.reference_tools import CARD, MAX_COLUMNS, N_CODEBOOKS, PADDING_ID, digest_columns, measure_best_s
from data_schemas.code_layout import CodeLayout
from data_schemas.config import OracleConfig
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, WordTiming
from data_schemas.units import FRAME_S
from flows.settings import find_shipped_checkpoint
from kame_model.frames.inner_monologue import place_text
from kame_model.frames.sequence import cut_chunks, make_columns, make_labels
from kame_model.text.tokenizer import Tokenizer
from pipelines.oracle.plan import plan_dialogue

TOOLS = Path(__file__).with_name("reference_tools.py")
NEEDED = ("tools/oracle_generation.py", "tools/tokenize_text.py", "utils/data.py")
LAYOUT = CodeLayout.make_mimi(N_CODEBOOKS, CARD)

Words = list[list[WordTiming]]
"""Words of A and B of a dialogue."""
Rows = list[list[NDArray[np.int32]]]
"""Text and codes of A and B of each dialogue, int32[1 + N_CODEBOOKS, T]."""


def list_words(dialogue: AudioDialogue, speaker: str) -> list[WordTiming]:
    """Returns all words of a speaker, sorted by start."""
    turns = [turn for turn in dialogue.turns if turn.speaker == speaker]
    said = [word for turn in turns for utterance in turn.utterances for word in utterance.words]
    return sorted(said, key=lambda word: word.start_s)


def place_texts(dialogues: Sequence[AudioDialogue], words: Sequence[Words], tokenizer: Tokenizer) -> Rows:
    """Returns our text stream for each dialogue and speaker, int32 [n_frames]."""
    return [
        [place_text(said, tokenizer, int(each.duration_s / FRAME_S)).tokens for said in of_dialogue]
        for each, of_dialogue in zip(dialogues, words, strict=True)
    ]


def pack(rows: Rows, text_card: int) -> Rows:
    """Returns the columns of each dialogue for training, cut into chunks; speaker A is the one that is learnt.

    The labels of the chunks are made too, as part of the measured work, but not returned.
    """
    packed = []
    for a, b in rows:
        columns = make_columns(a[0], a[1:], b[1:], text_card, LAYOUT)
        parts = [columns[:, chunk.start : chunk.stop] for chunk in cut_chunks(columns.shape[1], MAX_COLUMNS)]
        for part in parts:
            make_labels(part, text_card, LAYOUT.card)
        packed.append(parts)
    return packed


def check_checkout(checkout: Path, python: Path) -> None:
    """Exits with a message if the checkout or its environment does not exist."""
    missing = [name for name in NEEDED if not (checkout / name).is_file()]
    if missing:
        sys.exit(
            f"{checkout} is no checkout of kame_finetune: {missing[0]} is missing. This comparison needs one: "
            "git clone https://github.com/SakanaAI/kame_finetune, then --checkout FOLDER."
        )
    if not python.is_file():
        sys.exit(f"{python} is missing: type `uv sync --python 3.12` in {checkout}, or name a --python.")


def run_theirs(
    python: Path, checkout: Path, words: Sequence[Words], rows: Rows, tokenizer: Tokenizer, n_rounds: int
) -> dict[str, Any]:
    """Runs `reference_tools.py` in the checkout and returns its output; exits with a message if it fails."""
    given = [{speaker: [*map(_format_word, each)] for speaker, each in zip("AB", said, strict=True)} for said in words]
    with tempfile.TemporaryDirectory() as folder:
        dialogues, arrays = Path(folder) / "dialogues.json", Path(folder) / "rows.npz"
        dialogues.write_text(json.dumps(given), encoding="utf-8")
        np.savez(arrays, *(each for row in rows for each in row))
        typed = [python, TOOLS, dialogues, arrays, Path(tokenizer.path).absolute(), n_rounds]
        done = subprocess.run([*map(str, typed)], cwd=checkout, capture_output=True, text=True)  # noqa: S603 - named by the user
    if done.returncode:
        sys.exit(f"The tools of {checkout} failed:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _format_word(word: WordTiming) -> dict[str, Any]:
    """Returns a word with its times in the form that their tools read."""
    return {"word": word.word, "start": word.start_s, "end": word.end_s}


def count_other_frames(texts: Rows, their_texts: Sequence[Sequence[Sequence[int]]]) -> dict[str, int]:
    """Returns the number of frames on which their text, cut or padded to the length of kame's, differs, and of all."""
    n_other = n_all = 0
    for own_of_dialogue, of_dialogue in zip(texts, their_texts, strict=True):
        for own_tokens, tokens in zip(own_of_dialogue, of_dialogue, strict=True):
            laid = np.full(len(own_tokens), PADDING_ID, np.int32)
            laid[: len(tokens)] = tokens[: len(own_tokens)]
            n_other, n_all = n_other + int((laid != own_tokens).sum()), n_all + len(own_tokens)
    return {"different": n_other, "all": n_all}


def main() -> None:
    """Compares both implementations and prints the figures."""
    parser = make_parser(__doc__)
    parser.add_argument("dataset", help="dataset of kame refresh")
    parser.add_argument("--checkout", type=Path, required=True, help="folder of a checkout of kame_finetune")
    parser.add_argument("--python", type=Path, help="Python of its environment; default: CHECKOUT/.venv/bin/python")
    parser.add_argument("--n", type=int, default=200, help="maximum number of dialogues")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    python, n_rounds = (options.python or options.checkout / ".venv" / "bin" / "python").absolute(), options.rounds
    check_checkout(options.checkout, python)
    tokenizer, config = Tokenizer.from_file(f"{find_shipped_checkpoint()}/tokenizer.model"), OracleConfig()
    found = islice(DatasetReader(options.dataset).iterate_dialogues(), options.n)
    dialogues = [each for each in found if all(list_words(each, speaker) for speaker in "AB")]  # their tool needs both
    words = [[list_words(each, speaker) for speaker in "AB"] for each in dialogues]
    schedule_s, plans = measure_best_s(lambda _: [plan_dialogue(d.turns, config) for d in dialogues], None, n_rounds)
    text_s, texts = measure_best_s(lambda _: place_texts(dialogues, words, tokenizer), None, n_rounds)
    draw = np.random.default_rng(0)
    rows = [
        [np.vstack([text, draw.integers(0, CARD, (N_CODEBOOKS, len(text)), dtype=np.int32)]) for text in of_dialogue]
        for of_dialogue in texts
    ]
    packing_s, packed = measure_best_s(lambda _: pack(rows, tokenizer.text_card), None, n_rounds)
    own_s = {"schedule": schedule_s, "text": text_s, "packing": packing_s}
    their_figures = run_theirs(python, options.checkout, words, rows, tokenizer, n_rounds)
    n_different = sum(map(str.__ne__, map(digest_columns, packed), their_figures["columns"]))
    figures = {
        "dialogues": len(dialogues),
        "ours_s": own_s,
        "theirs_s": their_figures["s"],
        "times_as_fast": {step: their_figures["s"][step] / used_s for step, used_s in own_s.items()},
        "times_as_fast_in_all": sum(their_figures["s"].values()) / sum(own_s.values()),
        "requests": {"ours": sum(len(each.requests) for each in plans), "theirs": sum(their_figures["n_requests"])},
        "text_frames": count_other_frames(texts, their_figures["texts"]),
        "columns": {"different": n_different, "dialogues": len(packed)},
    }
    print_figures(figures, options.json)


if __name__ == "__main__":
    main()
