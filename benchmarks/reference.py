"""Compares our schedule, text frames and packing with kame_finetune's own tools, on the same dialogues.

    git clone https://github.com/SakanaAI/kame_finetune && (cd kame_finetune && uv sync --python 3.12)
    python -m benchmarks.reference DATASET --checkout kame_finetune [--n 200] [--rounds 3] [--tokenizer FILE] [--json]

Theirs run in the environment of the checkout (`reference_tools.py`), ours here; each time is the minimum processor time
of several rounds. The codes are random, and no disk access is timed.

| step | theirs | ours |
|---|---|---|
| schedule | `OracleGenerator.generate_requests` for speaker A | `plan_dialogue` |
| text | `tokenize_and_pad_text` of both speakers | `place_text` |
| packing | `preprocess_function`, without oracles | `make_columns`, `chunks`, `make_labels` |

The schedules are different by design (pipelines/oracle/schedule.py); texts should be the same on nearly all frames, and
the packed columns on all, because both pack our texts. Differences are counted.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

Rows = list[list[NDArray[np.int32]]]
"""Text and codes of A and B of each dialogue, int32[1 + N_CODEBOOKS, T]."""


def check_checkout(checkout: Path, python: Path) -> None:
    """Exits with a message if the checkout or its environment does not exist."""
    missing = [name for name in NEEDED if not (checkout / name).is_file()]
    if missing:
        raise SystemExit(
            f"{checkout} is no checkout of kame_finetune: {missing[0]} is missing. This comparison needs one: "
            "git clone https://github.com/SakanaAI/kame_finetune, then --checkout FOLDER."
        )
    if not python.is_file():
        raise SystemExit(f"{python} is missing: type `uv sync --python 3.12` in {checkout}, or name a --python.")


def list_words(dialogue: AudioDialogue, speaker: str) -> list[WordTiming]:
    """Returns all words of a speaker, sorted by start."""
    turns = [turn for turn in dialogue.turns if turn.speaker == speaker]
    said = [word for turn in turns for utterance in turn.utterances for word in utterance.words]
    return sorted(said, key=lambda word: word.start_s)


def make_rows(dialogues: Sequence[AudioDialogue], tokenizer: Tokenizer) -> Rows:
    """Returns, for each dialogue and speaker, our text stream above random codes, int32 [1 + N_CODEBOOKS, n_frames]."""
    draw, rows = np.random.default_rng(0), []
    for each in dialogues:
        n_frames = int(each.duration_s / FRAME_S)
        texts = [place_text(list_words(each, speaker), tokenizer, n_frames).tokens for speaker in "AB"]
        codes = draw.integers(0, CARD, (2, N_CODEBOOKS, n_frames), dtype=np.int32)
        rows.append([np.concatenate([text[None], of_voice]) for text, of_voice in zip(texts, codes, strict=True)])
    return rows


def pack(rows: Rows, text_card: int) -> list[list[NDArray[np.int32]]]:
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


def measure_ours(
    dialogues: Sequence[AudioDialogue], rows: Rows, tokenizer: Tokenizer, n_rounds: int
) -> tuple[dict[str, float], list[int], list[str]]:
    """Measures our implementation.

    Returns the processor seconds by step, the number of requests of each dialogue, and the digest of its columns.
    """
    words = [[list_words(each, speaker) for speaker in "AB"] for each in dialogues]
    config = OracleConfig()

    def lay_texts() -> None:
        for row, of_dialogue in zip(rows, words, strict=True):
            for each in of_dialogue:
                place_text(each, tokenizer, row[0].shape[1])

    def run(work: Callable[[], Any]) -> tuple[float, Any]:
        return measure_best_s(lambda: work, n_rounds)

    schedule_s, plans = run(lambda: [plan_dialogue(each.turns, config) for each in dialogues])
    text_s, _ = run(lay_texts)
    packing_s, packed = run(lambda: pack(rows, tokenizer.text_card))
    seconds = {"schedule": schedule_s, "text": text_s, "packing": packing_s}
    return seconds, [len(each.requests) for each in plans], [*map(digest_columns, packed)]


def run_theirs(
    python: Path, checkout: Path, dialogues: Sequence[AudioDialogue], rows: Rows, tokenizer: Tokenizer, n_rounds: int
) -> dict[str, Any]:
    """Runs `reference_tools.py` in the checkout and returns its output; exits with a message if it fails."""
    told = [{speaker: [*map(_format_word, list_words(row, speaker))] for speaker in "AB"} for row in dialogues]
    with tempfile.TemporaryDirectory() as folder:
        words, arrays = Path(folder) / "dialogues.json", Path(folder) / "rows.npz"
        words.write_text(json.dumps(told), encoding="utf-8")
        np.savez(arrays, *(each for row in rows for each in row))
        typed = [python, TOOLS, words, arrays, Path(tokenizer.path).absolute(), n_rounds]
        done = subprocess.run([*map(str, typed)], cwd=checkout, capture_output=True, text=True)  # noqa: S603 - named by the user
    if done.returncode:
        raise SystemExit(f"The tools of {checkout} failed:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _format_word(word: WordTiming) -> dict[str, Any]:
    """Returns a word with its times in the form that their tools read."""
    return {"word": word.word, "start": word.start_s, "end": word.end_s}


def count_other_frames(rows: Rows, texts: Sequence[Sequence[Sequence[int]]]) -> tuple[int, int]:
    """Returns the number of frames on which their text differs from ours, and of all frames.

    Their texts are cut or padded to the length of ours.

    Args:
        rows: ours, as `make_rows` makes them.
        texts: theirs, by dialogue and speaker.
    """
    n_other = n_all = 0
    for row, of_dialogue in zip(rows, texts, strict=True):
        for ours, theirs in zip(row, of_dialogue, strict=True):
            n_frames = ours.shape[1]
            laid = np.full(n_frames, PADDING_ID, np.int32)
            laid[: len(theirs[:n_frames])] = theirs[:n_frames]
            n_other, n_all = n_other + int((laid != ours[0]).sum()), n_all + n_frames
    return n_other, n_all


def main() -> None:
    """Compares both implementations and prints the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reference", description="Compares our tools with kame_finetune's."
    )
    parser.add_argument("dataset", help="dataset of kame refresh")
    parser.add_argument("--checkout", type=Path, required=True, help="folder of a checkout of kame_finetune")
    parser.add_argument("--python", type=Path, help="Python of its environment; default: CHECKOUT/.venv/bin/python")
    parser.add_argument("--tokenizer", help="SentencePiece file; default: that of the included nano")
    parser.add_argument("--n", type=int, default=200, help="maximum number of dialogues")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    python = (options.python or options.checkout / ".venv" / "bin" / "python").absolute()
    check_checkout(options.checkout, python)
    tokenizer = Tokenizer.from_file(options.tokenizer or f"{find_shipped_checkpoint()}/tokenizer.model")
    found = islice(DatasetReader(options.dataset).dialogues(), options.n)
    dialogues = [each for each in found if all(list_words(each, speaker) for speaker in "AB")]  # their tool needs both
    rows = make_rows(dialogues, tokenizer)
    ours_s, n_requests, columns = measure_ours(dialogues, rows, tokenizer, options.rounds)
    theirs = run_theirs(python, options.checkout, dialogues, rows, tokenizer, options.rounds)
    n_other, n_all = count_other_frames(rows, theirs["texts"])
    figures = {
        "dialogues": len(dialogues),
        "ours_s": ours_s,
        "theirs_s": theirs["s"],
        "times_as_fast": {step: theirs["s"][step] / used_s for step, used_s in ours_s.items()},
        "times_as_fast_in_all": sum(theirs["s"].values()) / sum(ours_s.values()),
        "requests": {"ours": sum(n_requests), "theirs": sum(theirs["n_requests"])},
        "text_frames": {"different": n_other, "all": n_all},
        "columns": {"different": sum(map(str.__ne__, columns, theirs["columns"])), "dialogues": len(columns)},
    }
    print(json.dumps(figures) if options.json else json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
