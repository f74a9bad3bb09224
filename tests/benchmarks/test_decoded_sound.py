import numpy as np
import pytest

from benchmarks.decoded_sound import ReadingGen
from data_schemas.config.model import SamplingConfig
from kame_model.evaluate.recall.free_running import Script, run_freely
from kame_model.frames.ids import PADDING_ID
from tests.support.front_ends import tiny_front_end

pytestmark = pytest.mark.full


def test_a_model_that_reads_says_the_given_text_and_its_own_codes() -> None:
    front_end = tiny_front_end().eval()
    texts = [np.asarray([PADDING_ID, 7, PADDING_ID, 9, 8, PADDING_ID], np.int32), np.asarray([5, 5], np.int32)]
    others = [np.zeros((front_end.n_codebooks, 6), np.int16), np.zeros((front_end.n_codebooks, 4), np.int16)]
    scripts = [Script(other, [(0, [7, 9, 8])]) for other in others]
    ran = run_freely(front_end, scripts, SamplingConfig(), 0, lambda model, how: ReadingGen(model, how, texts))
    assert ran[0].text.tolist() == texts[0].tolist()
    assert ran[1].text.tolist() == [5, 5, PADDING_ID, PADDING_ID]
    assert ran[0].own.shape == (front_end.n_codebooks, 6)
    assert ran[0].own.any()
