"""What a report says of codecs whose figures are known beforehand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.codec.double import DoubleCodec, DoubleCodecOptions
from backends.codec.protocol import Codes
from backends.engine import Samples
from data_schemas.errors import DatasetError
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.units import FRAME_N_SAMPLES, count_covering_frames
from kame_model.codec.report import HeardCounts, measure_codec
from kame_model.codec.speech import read_held_out
from tests.support.codecs import with_validation


class Remembering(DoubleCodec):
    """Gives back what was encoded; its codes of frame t are t modulo `card`."""

    def __init__(self) -> None:
        super().__init__(DoubleCodecOptions(n_codebooks=2, card=4))
        self.known: dict[int, Samples] = {}

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        found = []
        for sound in sounds:
            n_frames = count_covering_frames(len(sound))
            codes = np.tile(np.arange(n_frames, dtype=np.int16) % self.card, (self.n_codebooks, 1))
            self.known[id(codes)] = np.pad(sound, (0, n_frames * FRAME_N_SAMPLES - len(sound)))
            found.append(codes)
        self._kept = found  # an id is of one array only while it lives
        return found

    def decode(self, codes: Codes) -> Samples:
        return self.known[id(codes)]


def loud_words(samples: Samples, said: str) -> HeardCounts:
    """Hears every word of a sound that is loud enough, and none of another; a word of three letters is a number."""
    words = said.split()
    n_words, n_numbers = len(words), sum(len(each) == 3 for each in words)
    missed = (0, 0) if np.abs(samples).max() > 0.02 else (n_words, n_numbers)
    return HeardCounts(n_words, missed[0], n_numbers, missed[1])


@pytest.fixture(scope="module")
def rows(made: Path, tmp_path_factory: pytest.TempPathFactory) -> list[AudioDialogue]:
    return read_held_out([DatasetReader(str(with_validation(made, tmp_path_factory.mktemp("split") / "dataset")))], 3)


def test_a_codec_that_loses_nothing(rows: list[AudioDialogue]) -> None:
    done: list[int] = []
    report = measure_codec(Remembering(), rows, loud_words, lambda: done.append(1))
    assert (report.spectral.log_mel, report.spectral.convergence, report.spectral.l1) == (0, 0, 0)
    assert report.wer_round_trip == report.wer_original
    assert report.wer_original["all"].wer == 0
    both = report.wer_original
    assert both["all"].n_words == both["A"].n_words + both["B"].n_words > 0
    assert both["all"].n_numbers == both["A"].n_numbers + both["B"].n_numbers > 0
    assert [each.used_share for each in report.codebooks] == [1, 1]
    assert report.codebooks[0].perplexity == pytest.approx(4, rel=0.05)
    assert report.silence_alike == pytest.approx(0.25, abs=0.05)
    assert report.bits_per_s == 2 * 2 * 12.5
    assert len(done) == report.n_dialogues == len(rows)


def test_a_codec_that_keeps_nothing(rows: list[AudioDialogue]) -> None:
    class Mute(Remembering):
        def decode(self, codes: Codes) -> Samples:
            return np.zeros(codes.shape[1] * FRAME_N_SAMPLES, dtype=np.float32)

    report = measure_codec(Mute(), rows, loud_words)
    assert (report.wer_original["all"].wer, report.wer_round_trip["all"].wer) == (0, 1)
    assert (report.wer_original["all"].numbers_missed, report.wer_round_trip["all"].numbers_missed) == (0, 1)
    assert report.spectral.convergence == pytest.approx(1)
    assert report.to_json()["wer_round_trip"]["B"]["wer"] == 1


def test_no_dialogues_are_told(rows: list[AudioDialogue]) -> None:
    silent = [replace(row, turns=()) for row in rows]
    with pytest.raises(DatasetError, match="Nobody speaks in the dialogues"):
        measure_codec(Remembering(), silent, loud_words)
    with pytest.raises(DatasetError, match="no dialogue to measure"):
        measure_codec(Remembering(), [], loud_words)
