"""Counts and measures the speed and memory of a run: operations, frames per second, FLOPs utilisation, bytes."""

import copy
import os
import resource
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from data_schemas.rates import is_device
from kame_model.frames.batch import Batch
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd

COUNTED_FRAMES = 256
"""Length of the sequence on which operations are counted; only attention's share, which is small, grows with it."""

_PRODUCTS: Final = [getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm")]

PEAK_FLOPS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
}
"""Dense bf16 operations per second by a part of the device's name, from NVIDIA's data sheets (without sparsity; the
H100's is the SXM's). In a run's figures, fp32 on such a device is compared with the same figure."""

PEAK_FLOPS_FP32 = {
    "H200": 67e12,
    "H100": 67e12,
    "A100": 19.5e12,
    "L40S": 91.6e12,
    "RTX 4090": 82.6e12,
}
"""The same in fp32, without TF32, which PyTorch does not use for matrix products by default."""


GPU_BYTES = {
    "H200": 141e9,
    "H100": 80e9,
    "A100": 80e9,
    "L40S": 48e9,
    "RTX 4090": 24e9,
}
"""Memory of each by the same data sheets, of those sold with several sizes the largest; drivers take some of it."""


def find_known_gpu(name: str) -> str | None:
    """Returns the key of `PEAK_FLOPS` that a device's name contains as words, ignoring case; None: it is not known."""
    return next((part for part in PEAK_FLOPS if is_device(part, name)), None)


_STATM = Path("/proc/self/statm")


def read_memory_gb(device: torch.device) -> float:
    """Returns the memory that training takes, in units of 10^9 bytes.

    On a GPU it is the maximum that PyTorch has reserved since the process started; on a CPU the resident memory of this
    process now or, without /proc, its maximum.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 1e9
    try:
        n_pages = int(_STATM.read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9  # bytes on macOS, which has no /proc
    return n_pages * os.sysconf("SC_PAGE_SIZE") / 1e9


class PassCounts(NamedTuple):
    """Counts of a float32 forward and backward pass; bytes and floating-point operations are per frame.

    Attributes:
        flops: floating-point operations. Trained weights cost six, frozen ones four, because they need no gradient.
            Recomputation is not counted, as is usual for MFU.
        n_operations: operations of PyTorch that are launched, the same for any length.
        saved_bytes: what the forward pass saves for the backward pass, without weights.
        product_bytes: results of the forward pass's matrix products, including heads, without attention's.
    """

    flops: float
    n_operations: int
    saved_bytes: float
    product_bytes: float


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations, and the bytes of results of matrix products, except attention's [S, S] ones."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n: int = 0
        self.product_bytes: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.n += func is not torch.ops.aten.detach.default  # how a tensor is saved: nothing is launched
        if func in _PRODUCTS and not (out.ndim == 3 and out.shape[-1] == out.shape[-2] == COUNTED_FRAMES):
            self.product_bytes += out.nbytes
        return out


def count_pass(model: FrontEnd, with_audio: bool) -> PassCounts:
    """Counts what a forward and backward pass takes, by tracing one over a short sequence.

    Args:
        model: on the meta device, where nothing is computed; before it is compiled or sharded.
        with_audio: whether the depth transformer is computed too.
    """
    columns = torch.full(
        (1, 1 + 2 * model.n_codebooks, COUNTED_FRAMES + 1), PADDING_ID % model.card, device=model.lm.device
    )
    model = copy.deepcopy(model).float()  # one type, because autocast does not support the meta device
    owned = {each.untyped_storage()._cdata for each in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if (place := tensor.untyped_storage()._cdata) not in owned:
            kept[place] = tensor  # kept, so that its address is not reused
        return tensor

    trained = [each for each in model.parameters() if each.requires_grad]
    with torch.enable_grad(), FlopCounterMode(display=False) as flops, _Operations() as operations:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            logits: list[Tensor] = [each for each in model(columns, with_audio=with_audio) if each is not None]
        saved_bytes = sum(each.untyped_storage().nbytes() for each in kept.values())
        product_bytes = operations.product_bytes
        torch.autograd.grad([each.sum() for each in logits], trained, allow_unused=True)
    return PassCounts(
        flops=float(flops.get_total_flops()) / COUNTED_FRAMES,
        n_operations=operations.n,
        saved_bytes=saved_bytes / COUNTED_FRAMES,
        product_bytes=product_bytes / COUNTED_FRAMES,
    )


def find_peak_flops(device: torch.device, product_type: torch.dtype) -> float:
    """Returns a device's operations per second: of a known GPU those in bf16 of its data sheet, otherwise measured.

    Args:
        device: the device.
        product_type: type of the run's matrix products, in which an unknown device is measured.
    """
    if device.type == "cuda":
        known = find_known_gpu(torch.cuda.get_device_name(device))
        if known is not None:
            return PEAK_FLOPS[known]
    return _measure_flops(device, product_type)


def _measure_flops(device: torch.device, product_type: torch.dtype, n_rounds: int = 5) -> float:
    """Returns operations per second of the fastest of a few products of square matrices, large enough for a GPU."""
    size = 4096 if device.type == "cuda" else 1024
    matrix = torch.ones(size, size, device=device, dtype=product_type)
    best_s = float("inf")
    for _ in range(n_rounds):
        started_s = time.perf_counter()
        (matrix @ matrix)[0, 0].item()  # waits for the product
        best_s = min(best_s, time.perf_counter() - started_s)
    return 2 * size**3 / best_s


class Speedometer:
    """Measures frames over time, between two readings.

    Args:
        frame_flops: from `count_pass`.
        peak: from `find_peak_flops`, summed over all devices.
        n_rows: number of ids of a frame: text and both voices' codes.
    """

    def __init__(self, frame_flops: float, peak: float, n_rows: int) -> None:
        self._frame_flops, self._peak, self._n_rows = frame_flops, peak, n_rows
        self._n_frames, self._spent_s, self._since_s = 0, 0.0, time.perf_counter()

    def begin(self) -> None:
        """Starts measuring the time of a step."""
        self._since_s = time.perf_counter()

    def end(self, n_frames: int) -> None:
        """Ends a step, and adds its time and its frames that are not padding, `n_frames` over all processes."""
        self._spent_s += time.perf_counter() - self._since_s
        self._n_frames += n_frames

    def read(self) -> dict[str, float]:
        """Returns frames and tokens (ids of frames) per second and FLOPs utilisation (0 to 1), and resets the sums.

        Time outside of steps (evaluation, saving) is not counted, and neither is padding.
        """
        frames_per_s = self._n_frames / self._spent_s if self._spent_s else 0.0
        self._n_frames, self._spent_s = 0, 0.0
        return {
            "frames_per_s": frames_per_s,
            "tokens_per_s": frames_per_s * self._n_rows,
            "mfu": frames_per_s * self._frame_flops / self._peak,
        }


def count_frames(batch: Batch) -> int:
    """Counts the input positions of a batch that are not padding."""
    return int((batch.columns[:, 0, 1:] >= 0).sum())


def count_weights(model: nn.Module) -> tuple[int, int]:
    """Returns the number of all weights, and of those that are trained."""
    sizes = [(each.numel(), each.requires_grad) for each in model.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained)
