"""Batches: padded to one length, and brought to where they are computed with."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from kame_model.frames.batch import Batch, copy_to_device
from tests.support.front_ends import random_batch

pytestmark = pytest.mark.quick


class Copies:
    """Stands in for a GPU: notes what is pinned and how it is copied there, and leaves it on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pinned: list[int] = []
        self.copied: list[tuple[int, dict[str, Any]]] = []
        plain = torch.Tensor.to

        def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
            self.pinned.append(tensor.data_ptr())
            return tensor

        def to(tensor: torch.Tensor, device: Any, **how: Any) -> torch.Tensor:
            if torch.device(device).type != "cuda":
                return plain(tensor, device, **how)
            self.copied.append((tensor.data_ptr(), how))
            return tensor

        monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
        monkeypatch.setattr(torch.Tensor, "to", to)


def tensors_of(batch: Batch) -> list[torch.Tensor]:
    return [getattr(batch, each.name) for each in fields(batch)]


def test_a_batch_goes_to_a_gpu_from_pinned_memory_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    copies, batch = Copies(monkeypatch), random_batch()
    batch.to(torch.device("cuda", 0))
    places = [each.data_ptr() for each in tensors_of(batch)]
    assert copies.pinned == places
    assert copies.copied == [(place, {"non_blocking": True}) for place in places]


def test_nothing_is_pinned_or_copied_where_the_batch_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    copies, batch = Copies(monkeypatch), random_batch()
    there = batch.to("cpu")
    assert (copies.pinned, copies.copied) == ([], [])
    assert [each.data_ptr() for each in tensors_of(there)] == [each.data_ptr() for each in tensors_of(batch)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_what_is_copied_without_waiting_is_what_was_there() -> None:
    batch = random_batch()
    there = replace(batch).to("cuda")
    for one, other in zip(tensors_of(there), tensors_of(batch), strict=True):
        assert torch.equal(one.cpu(), other)
    on_gpu = copy_to_device(there.columns, "cuda")
    assert on_gpu.data_ptr() == there.columns.data_ptr()
