"""Measures the server's time per frame relative to the bare model step on the same batch in the same run.

    python -m benchmarks.serve frames [CHECKPOINT] [--sessions 1 2 3 4 6 8] [--seconds 20] [--json FILE]

A server of n slots serves n callers in real time, with the real turn detector, and with a recogniser and a chat model
that take no time. Its frame time is from taking the callers' frames to returning the answers. The bare step is codec,
front-end and codec again, in a loop on as many slots. Both take turns, so that other load affects both.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import numpy as np
import torch
from moshi.utils.compile import no_cuda_graph

from backends.engine import Samples
from backends.listener.double import DoubleListener, DoubleListenerOptions
from backends.listener.vad import TurnDetector
from data_schemas.config.serving import ServeConfig
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.model.streaming import FrontEndGen
from kame_model.serve.client.client import play_in_real_time
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from tests.support.serve_doubles import WordChat

_N_WARM_UP = 5
_LATE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Times of frames with n callers, in milliseconds.

    Attributes:
        late_share: share of the server's steps that began a frame or more late.
        dropped_share: share of received frames that were dropped because the server was too slow.
    """

    n_sessions: int
    bare_p50_ms: float
    bare_p99_ms: float
    server_p50_ms: float
    server_p99_ms: float
    late_share: float
    dropped_share: float

    @property
    def is_real_time(self) -> bool:
        """Whether callers hear hardly any gap: 99 % of frames take at most 80 ms, at most 1 % are late or dropped."""
        return self.server_p99_ms <= 1000 * FRAME_S and max(self.late_share, self.dropped_share) <= _LATE_SHARE


def measure_frames(
    checkpoint: Checkpoint, numbers: Sequence[int], seconds: float, n_rounds: int, cuda_graphs: bool
) -> list[FrameTimes]:
    """Measures frame times for each number of sessions, in ascending order, until one exceeds the GPU's memory.

    Args:
        seconds: real time in each round for each server, at most 30 (the meter keeps no more); the bare step runs for
            as many frames.
        n_rounds: number of rounds, in which both are measured in turn; the median is returned.
    """
    found = []
    for n_sessions in numbers:
        rounds: list[tuple[float, ...]] = []
        sounds = [_make_voice(number, seconds) for number in range(n_sessions)]
        try:
            for _ in range(n_rounds):
                bare_ms = np.percentile(measure_bare_steps(checkpoint, sounds, cuda_graphs), [50, 99]).tolist()
                rounds.append((*bare_ms, *asyncio.run(measure_served_steps(checkpoint, sounds, cuda_graphs))))
        except torch.OutOfMemoryError:
            break  # larger numbers need more
        found.append(FrameTimes(n_sessions, *np.median(rounds, axis=0).tolist()))
    return found


def measure_bare_steps(checkpoint: Checkpoint, sounds: Sequence[Samples], cuda_graphs: bool) -> list[float]:
    """Returns the milliseconds of each bare step: audio to codes, a frame of the front-end, codes to audio.

    There is a slot for each of `sounds`. On a CPU, PyTorch has one thread from then on, as in the server.
    """
    front_end, n_slots = checkpoint.front_end, len(sounds)
    device = front_end.lm.device
    codec = checkpoint.load_codec(str(device))
    gen = FrontEndGen(front_end, ServeConfig(checkpoint="").sampling)
    oracle = torch.full((n_slots,), PADDING_ID, device=device)
    if device.type == "cpu":
        torch.set_num_threads(1)  # as the server does
    times_ms = []
    frames = np.stack(sounds).reshape(n_slots, -1, FRAME_N_SAMPLES).swapaxes(0, 1)
    graphs = nullcontext() if cuda_graphs else no_cuda_graph()
    with graphs, gen.streaming(n_slots), codec.stream(n_slots) as stream:
        for frame in (*frames[:_N_WARM_UP], *frames):
            began_s = time.perf_counter()
            codes = torch.from_numpy(stream.encode_frame(np.ascontiguousarray(frame)).astype(np.int64)).to(device)
            own = gen.step(codes, oracle).own.cpu().numpy()
            stream.decode_frame(np.maximum(own, 0).astype(np.int16))
            times_ms.append(1000 * (time.perf_counter() - began_s))
    return times_ms[_N_WARM_UP:]


async def measure_served_steps(
    checkpoint: Checkpoint, sounds: Sequence[Samples], cuda_graphs: bool
) -> tuple[float, ...]:
    """Runs a server with a caller for each of `sounds`, and returns the last four fields of `FrameTimes` in order."""
    n_sessions = len(sounds)
    config = ServeConfig.model_validate(
        {
            "checkpoint": checkpoint.place.name,
            "cuda_graphs": cuda_graphs,
            "voice": "decoded",
            "limits": {"max_sessions": n_sessions, "max_sessions_per_address": n_sessions, "budget_share": 1.0},
        }
    )
    listener = DoubleListener(DoubleListenerOptions(script="zqaa zqab zqac zqad"))
    chat = BackEnd("default", WordChat({}), load_prompt("tandem"))
    detector = partial(TurnDetector, config.listener.speech_probability, config.listener.turn_end_silence_s)
    async with KameServer(checkpoint, config, ServerParts(listener, detector, {"default": chat})) as server:
        server.meter.set_idle_times({})  # else nobody is let in beyond what is to be found here
        sessions = [await server.open_session(f"192.0.2.{number}") for number in range(n_sessions)]
        await asyncio.gather(*map(_run_caller, sessions, sounds))
        meter, n_heard = server.meter, sum(map(len, sounds)) / FRAME_N_SAMPLES
        now_s = asyncio.get_running_loop().time()
        times_ms = [1000 * meter.compute_step_s(percentile, now_s) for percentile in (50, 99)]
        return (*times_ms, meter.n_late / max(1, meter.n_steps), server.n_dropped["heard"] / n_heard)


async def _run_caller(session: Session, sound: Samples) -> None:
    """Sends a caller's frames in real time, discards the answers, and closes the session."""

    async def discard_frames() -> None:
        async for _ in session.read_frames():
            pass

    reading = asyncio.create_task(discard_frames())
    async for frame in play_in_real_time(sound, 0.0):
        session.hear(frame)
    await asyncio.sleep(FRAME_S)
    await session.close("the measurement is over")
    await reading


def _make_voice(number: int, seconds: float) -> Samples:
    """Makes the audio of a caller: noise for two seconds and silence for two seconds in turn, each caller elsewhere."""
    n_frames = round(seconds / FRAME_S)
    loudness = np.where((np.arange(n_frames) + 7 * number) % 50 < 25, 0.1, 0.0).repeat(FRAME_N_SAMPLES)
    return (np.random.default_rng(number).normal(0, 1, len(loudness)) * loudness).astype(np.float32)


def find_largest_in_real_time(times: Sequence[FrameTimes]) -> int:
    """Returns the largest measured number of sessions that is in real time with all smaller ones; 0 if none is."""
    return max((each.n_sessions for each in takewhile(lambda each: each.is_real_time, times)), default=0)
