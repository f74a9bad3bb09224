"""Windows of sound encoded in this process or spread over several, a codec and one thread each; the same codes."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from backends import registry
from backends.codec.protocol import Codec, Codes
from backends.processes import WorkerPool, interrupts_held, leave_with_parent
from backends.registry import OptionValue
from data_schemas.config.encode import EncodeConfig
from data_schemas.errors import BackendError
from kame_model.encode.sound import Sound, encode_window

Encoded = list[tuple[Codes, Codes]]

_codec: Codec | None = None
"""A worker process's own codec."""


class Encoders(WorkerPool):
    """Encodes windows in order; processes are started when first needed. Use as `with`.

    A window's codes depend on the window alone, so they are the same for any number of processes. On a CPU each process
    computes with one thread, this one too: a sum's order, and with it the last bit of a latent, hangs on their number.
    """

    def __init__(self, config: EncodeConfig, codec: Codec) -> None:
        on_cpu = str(getattr(codec, "device", "cpu")).startswith("cpu")  # one without a device computes here
        n_workers = config.workers or ((os.cpu_count() or 1) if on_cpu else 1)
        super().__init__(n_workers, _begin, config.codec, dict(config.codec_options))
        self._codec = codec

    def encode(self, windows: Iterable[Sequence[Sound]]) -> Iterator[Encoded]:
        """The codes of each window; twice as many windows as processes are held at most.

        Raises:
            DamagedShard: a sound is none of ours.
            BackendError: a process was killed, or the codec does not work.
        """
        if self.n_workers == 1:
            with _one_thread():
                yield from (encode_window(self._codec, window) for window in windows)
            return
        waiting: deque[Future[Encoded]] = deque()
        try:
            for window in windows:
                waiting.append(self._submit(window))
                if len(waiting) > 2 * self.n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise BackendError(
                "A process that encoded sound died.",
                "Most often memory ran out: run again with fewer --workers or a smaller --window-s.",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, window: Sequence[Sound]) -> "Future[Encoded]":
        with interrupts_held():  # Ctrl-C goes to all processes, and this one ends the others
            return self.started().submit(_encode_here, window)


def _begin(codec: str, options: Mapping[str, OptionValue]) -> None:
    global _codec
    leave_with_parent()
    import torch

    torch.set_num_threads(1)
    _codec = registry.build("codec", codec, options)


def _encode_here(window: Sequence[Sound]) -> Encoded:
    assert _codec is not None
    return encode_window(_codec, window)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
