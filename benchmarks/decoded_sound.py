"""Measures the word errors of a front-end's decoded audio while it reads given text, without those of its own text.

    python -m benchmarks.decoded_sound CHECKPOINT SPEECH [--n 16] [--json]

SPEECH is a folder of `kame speech` of the checkpoint's tokenizer and codec. Sentences of its validation split are run
freely, but at each frame the recording's text token replaces the sampled one. A recogniser transcribes the decoded
audio, and the recorded voice after the same codec. `kame evaluate recall --listen` also speaks the model's own text.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.command import make_parser, print_figures
from data_schemas.config.model import SamplingConfig
from data_schemas.config.training import DatasetMixConfig
from flows.runs.train import make_hearing
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.data.augment import prepend_oracle
from kame_model.data.example import get_sides
from kame_model.data.mixture import open_datasets
from kame_model.data.speech_rows import ANSWERS
from kame_model.data.splicing import DialogueSides
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.answers.heard_words import count_word_errors
from kame_model.evaluate.answers.key_words import extract_words, split_into_units
from kame_model.evaluate.recall.evaluate import Hearing
from kame_model.evaluate.recall.free_running import FreeRunScript, run_freely
from kame_model.evaluate.recall.items import check_rows_fit
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import Frame, FrontEndGen

_ORACLE_FRAME, _N_BEFORE = 5, 20  # the oracle comes 0.4 s after the start, and the sentence 1.2 s after it


class ReadingGen(FrontEndGen):
    """Generates audio for given text.

    Args:
        texts: the text tokens of each slot by frame; padding follows.
    """

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig, texts: Sequence[NDArray[np.int32]]) -> None:
        super().__init__(front_end, sampling)
        self._texts, self._frame = texts, 0
        self._gen.on_text_hook = self._replace

    def step(self, other: Tensor, oracle: Tensor) -> Frame:
        """Generates one frame of every slot: see `FrontEndGen.step`."""
        frame = super().step(other, oracle)
        self._frame += 1
        return frame

    def _replace(self, sampled: Tensor) -> None:
        """Replaces the sampled text tokens of this frame by those of the given texts, in place."""
        tokens = [int(text[self._frame]) if self._frame < len(text) else PADDING_ID for text in self._texts]
        sampled.copy_(torch.tensor(tokens))
        self._gen.said = tokens


def draw_sentences(dataset: TokenDataset, n: int) -> list[DialogueSides]:
    """Draws at most `n` validation sentences, always the same ones, each after an oracle with its words.

    Those without words or silence are left out.
    """
    kinds = zip(dataset.splits, dataset.forms, strict=True)
    rows = [at for at, (split, form) in enumerate(kinds) if split == "validation" and form in ANSWERS]
    drawn = random.Random(0).sample(rows, min(n, len(rows)))
    made = (prepend_oracle(get_sides(dataset[at], "a"), _ORACLE_FRAME, _N_BEFORE) for at in drawn)
    return [each for each in made if each is not None]


def measure_reading(checkpoint: Checkpoint, sentences: Sequence[DialogueSides], hear: Hearing) -> dict[str, Any]:
    """Lets the model read sentences, and compares transcripts of its audio and of the recordings with the text.

    Returns [errors, words] of the model (`heard`) and of the recordings (`recorded`), and all transcripts (`rows`). The
    checkpoint's front-end is converted to float32.
    """
    tokenizer, codec = checkpoint.load_tokenizer(), checkpoint.load_codec()
    texts = [each.own.text for each in sentences]
    scripts = [
        FreeRunScript(each.other.codes, [(_ORACLE_FRAME, each.own.oracle.get_fed(0).tolist())]) for each in sentences
    ]
    sampling = checkpoint.choose_sampling(SamplingConfig())
    ran = run_freely(
        checkpoint.front_end.float(), scripts, sampling, 0, lambda front_end, how: ReadingGen(front_end, how, texts)
    )

    def transcribe(codes: NDArray[np.int16]) -> str:
        return " ".join(hear(codec.decode(np.ascontiguousarray(codes))))

    def spell(text: NDArray[np.int32]) -> str:
        return tokenizer.decode([token for token in text.tolist() if token > PADDING_ID])

    rows = [
        {
            "text": spell(each.own.text),
            "read": spell(run.text),
            "heard": transcribe(run.own),
            "recorded": transcribe(each.own.codes),
        }
        for each, run in zip(sentences, ran, strict=True)
    ]
    return {by: _sum_errors(rows, by) for by in ("heard", "recorded")} | {"rows": rows}


def _sum_errors(rows: Sequence[dict[str, str]], by: str) -> list[int]:
    """Returns [errors, words] of the transcripts in column `by`, summed over all rows; [] if there are no rows."""

    def split(text: str) -> list[str]:
        return [each.text for each in split_into_units(extract_words(text))]

    counts = [count_word_errors(split(row["text"]), split(row[by])) or [0, 0] for row in rows]
    return [sum(each) for each in zip(*counts, strict=True)]


def main() -> None:
    """Runs the benchmark and prints its figures: [wrong words, all words] of each voice, and the transcripts."""
    parser = make_parser(__doc__)
    parser.add_argument("checkpoint", help="folder of an export")
    parser.add_argument("speech", help="folder of kame speech")
    parser.add_argument("--n", type=int, default=16, help="number of sentences")
    options = parser.parse_args()
    checkpoint = load_checkpoint(options.checkpoint)
    (speech,) = open_datasets([DatasetMixConfig(path=options.speech)])
    check_rows_fit(checkpoint, speech)
    print_figures(measure_reading(checkpoint, draw_sentences(speech, options.n), make_hearing()), options.json)


if __name__ == "__main__":
    main()
