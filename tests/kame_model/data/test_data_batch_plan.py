import numpy as np
import pytest

from data_schemas.config.training import DataConfig
from kame_model.data.batch_plan import cut_by_frames

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("lengths", "n_frames", "multiple", "batches"),
    [
        ([32, 32], 64, 32, [[0, 1]]),  # exactly full
        ([20, 33], 64, 32, [[0], [1]]),  # with padding to a multiple of 32 too many
        ([20, 30], 64, 8, [[0, 1]]),  # to one of 8: they fit
        ([5, 5, 5, 300], 70, 32, [[0, 1], [2], [3]]),  # longer than a batch: one of its own
    ],
)
def test_a_micro_batch_has_at_most_its_frames_with_padding(
    lengths: list[int], n_frames: int, multiple: int, batches: list[list[int]]
) -> None:
    by_length = np.argsort(lengths, kind="stable")
    config = DataConfig(datasets=[], batch_frames=n_frames, length_multiple=multiple)
    assert cut_by_frames(by_length, np.asarray(lengths, np.int32), config) == batches
