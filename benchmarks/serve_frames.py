"""Measures the server's time per frame relative to the bare model step on the same batch in the same run.

    python -m benchmarks.serve frames [CHECKPOINT] [--sessions 1 2 3 4 6 8] [--seconds 20] [--json FILE]

A server of n slots serves n callers for a while in real time, with the real turn detector, and with a recogniser and a
chat model that take no time. Its frame time is from taking the callers' frames to returning the answers. The bare step
is codec, front-end and codec again, called in a loop on as many slots. Both are repeated in turn, so that other load on
the machine affects both.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

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
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import Parts
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
        in_time = self.server_p99_ms <= 1000 * FRAME_S and self.late_share <= _LATE_SHARE
        return in_time and self.dropped_share <= _LATE_SHARE


def measure_frames(
    checkpoint: Checkpoint, numbers: Sequence[int], seconds: float, n_rounds: int = 3, cuda_graphs: bool = True
) -> list[FrameTimes]:
    """Measures frame times for each number of sessions; ends at the first one that exceeds the GPU's memory.

    Args:
        numbers: numbers of sessions, in ascending order.
        cuda_graphs: whether both use CUDA graphs, if CUDA is available.
        seconds: real time in each round for each server, at most 30 (the meter keeps no more); the bare step runs for
            as many frames.
        n_rounds: number of rounds, in which both are measured in turn; the median is returned.
    """
    found = []
    for n_sessions in numbers:
        rounds: list[tuple[float, ...]] = []
        try:
            for _ in range(n_rounds):
                bare_s = measure_bare_steps(checkpoint, n_sessions, round(seconds / FRAME_S), cuda_graphs)
                bare = [float(1000 * each) for each in np.percentile(bare_s, [50, 99])]
                rounds.append((*bare, *asyncio.run(measure_served_steps(checkpoint, n_sessions, seconds, cuda_graphs))))
        except torch.OutOfMemoryError:
            break  # larger numbers need more
        found.append(FrameTimes(n_sessions, *(float(each) for each in np.median(rounds, axis=0))))
    return found


def measure_bare_steps(checkpoint: Checkpoint, n_slots: int, n_steps: int, cuda_graphs: bool = True) -> list[float]:
    """Returns the seconds of each bare step: audio to codes, a frame of the front-end, codes to audio, on all slots.

    On a CPU, PyTorch has one thread from then on, as in the server.
    """
    front_end = checkpoint.front_end
    device = front_end.lm.device
    codec = checkpoint.codec(str(device))
    gen = FrontEndGen(front_end, ServeConfig(checkpoint="").sampling)
    oracle = torch.full((n_slots,), PADDING_ID, device=device)
    if device.type == "cpu":
        torch.set_num_threads(1)  # as the server does
    times_s = []
    graphs = nullcontext() if cuda_graphs else no_cuda_graph()
    with graphs, gen.streaming(n_slots), codec.stream(n_slots) as stream:
        for number in range(_N_WARM_UP + n_steps):
            sound = np.stack([_make_voice_frame(number + slot) for slot in range(n_slots)])
            began_s = time.perf_counter()
            codes = torch.from_numpy(stream.encode_frame(sound).astype(np.int64)).to(device)
            own = gen.step(codes, oracle).own.cpu().numpy()
            stream.decode_frame(np.maximum(own, 0).astype(np.int16))
            times_s.append(time.perf_counter() - began_s)
    return times_s[_N_WARM_UP:]


async def measure_served_steps(
    checkpoint: Checkpoint, n_sessions: int, seconds: float, cuda_graphs: bool = True
) -> tuple[float, ...]:
    """Runs a server with callers that speak and pause, and returns the last four fields of `FrameTimes` in order."""
    config = ServeConfig.model_validate(
        {
            "checkpoint": checkpoint.place.name,
            "cuda_graphs": cuda_graphs,
            "limits": {"max_sessions": n_sessions, "max_sessions_per_address": n_sessions, "budget_share": 1.0},
        }
    )
    listener = DoubleListener(DoubleListenerOptions(script="zqaa zqab zqac zqad"))
    chat = BackEnd("default", WordChat({}), load_prompt("tandem"))
    detector = partial(TurnDetector, config.listener.speech_probability, config.listener.turn_end_silence_s)
    async with KameServer(checkpoint, config, Parts(listener, detector, {"default": chat})) as server:
        addresses = [f"192.0.2.{number}" for number in range(n_sessions)]
        server.meter.set_idle_times({})  # else nobody is let in beyond what is to be found here
        sessions = [await server.open_session(each) for each in addresses]
        await asyncio.gather(*(_run_caller(session, number, seconds) for number, session in enumerate(sessions)))
        meter, n_heard = server.meter, n_sessions * round(seconds / FRAME_S)
        now_s = asyncio.get_running_loop().time()
        times_ms = [1000 * meter.compute_step_s(percentile, now_s) for percentile in (50, 99)]
        return (*times_ms, meter.n_late / max(1, meter.n_steps), server.n_dropped["heard"] / n_heard)


async def _run_caller(session: Session, number: int, seconds: float) -> None:
    """Sends a caller's frames in real time, reads the answers, and closes the session."""
    clock = asyncio.get_running_loop()
    reading = asyncio.create_task(_read(session))
    began_s = clock.time()
    for frame in range(round(seconds / FRAME_S)):
        await asyncio.sleep(began_s + frame * FRAME_S - clock.time())
        session.hear(_make_voice_frame(frame + 7 * number))
    await asyncio.sleep(FRAME_S)
    await session.close("the measurement is over")
    await reading


async def _read(session: Session) -> None:
    """Reads and discards the frames of a session until it is closed."""
    async for _ in session.read_frames():
        pass


def _make_voice_frame(number: int) -> Samples:
    """Makes frame `number` of a caller: noise for two seconds and silence for two seconds in turn."""
    loudness = 0.1 if number % 50 < 25 else 0.0
    return np.random.default_rng(number).normal(0, loudness, FRAME_N_SAMPLES).astype(np.float32)


def find_largest_in_real_time(times: Sequence[FrameTimes]) -> int:
    """Returns the largest measured number of sessions that is in real time with all smaller ones; 0 if none is."""
    largest = 0
    for each in times:
        if not each.is_real_time:
            break
        largest = each.n_sessions
    return largest


def format_table(times: Sequence[FrameTimes]) -> str:
    """Returns a Markdown table with a row for each number of sessions."""
    lines = [
        "| sessions | bare step p50 | p99 | server's frame p50 | p99 | late | dropped | real time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.n_sessions} | {each.bare_p50_ms:.1f} ms | {each.bare_p99_ms:.1f} ms | {each.server_p50_ms:.1f} ms "
        f"| {each.server_p99_ms:.1f} ms | {each.late_share:.1%} | {each.dropped_share:.1%} "
        f"| {'yes' if each.is_real_time else 'no'} |"
        for each in times
    ]
    return "\n".join(lines)
