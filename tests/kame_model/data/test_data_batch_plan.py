import numpy as np
import pytest

from kame_model.data.batch_plan import cut_by_frames

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("lengths", "n_frames", "batches"),
    [
        ([32, 32], 64, [[0, 1]]),  # exactly full
        ([20, 33], 64, [[0], [1]]),  # with padding to a multiple of 32 too many
        ([5, 5, 5, 300], 70, [[0, 1], [2], [3]]),  # longer than a batch: one of its own
    ],
)
def test_a_micro_batch_has_at_most_its_frames_with_padding(
    lengths: list[int], n_frames: int, batches: list[list[int]]
) -> None:
    by_length = np.argsort(lengths, kind="stable")
    assert cut_by_frames(by_length, np.asarray(lengths, np.int32), n_frames) == batches
