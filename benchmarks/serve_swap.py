"""Switches a session's chat model repeatedly between two real servers while a caller talks over the network.

    python -m benchmarks.serve swap [CHECKPOINT] [--swaps 6] [--json FILE]

Two llama.cpp servers of the embedded engine, each with its own prompt, are back-ends of the real `kame serve`. The
caller's frames follow its own clock, and every frame of the answer is numbered, so that a switch that delays or loses a
frame is detected. The prompts are short, for machines without an accelerator.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from backends.engine import Samples
from benchmarks.serve_process import RunningServer, run_server, speak_sentences
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.serve.client.client import play_in_real_time
from kame_model.serve.oracle.prompts import Prompt
from tests.support.realtime_call import RealtimeCall
from tests.support.swap_report import SwapReport, report_of

TURN_S = 15.0
"""Time between two sentences of the caller, in seconds: enough for an answer on a busy machine."""
_INTO_TURN_S = 2.0
"""Time of the switch after the start of a sentence, in seconds."""
PROMPTS = {"plain": "You are friendly.", "pirate": "You are a pirate."}


def run_swaps(checkpoint: str, n_swaps: int) -> SwapReport:
    """Switches the chat model `n_swaps` times during a call to a new server, and returns the report.

    Raises:
        RunError: the server does not start, or does not end.
    """
    n_samples = round(TURN_S * SAMPLE_RATE_HZ)
    said = speak_sentences()
    turns = [np.pad(said[number % len(said)], (0, n_samples))[:n_samples] for number in range(n_swaps)]
    with tempfile.TemporaryDirectory() as folder:
        own = [f"back_ends={json.dumps(_make_back_ends(Path(folder)))}", "limits.max_sessions=1"]
        with run_server(checkpoint, own) as server:
            return asyncio.run(_talk_and_switch(server, np.concatenate(turns), n_swaps))


async def _talk_and_switch(server: RunningServer, sound: Samples, n_swaps: int) -> SwapReport:
    """Plays the audio to a server and switches to the other back-end in each turn; returns what came of it."""
    clock = asyncio.get_running_loop().time
    asked: list[tuple[str, float]] = []
    async with RealtimeCall(server.url) as call:
        began_s = clock()
        saying = asyncio.create_task(call.say(play_in_real_time(sound, 0.0)))
        for number in range(n_swaps):
            await asyncio.sleep(began_s + number * TURN_S + _INTO_TURN_S - clock())
            back_end = tuple(PROMPTS)[(number + 1) % len(PROMPTS)]
            asked.append((back_end, clock()))
            await call.send({"type": "session.update", "kame": {"back_end": back_end}})
        await saying
        await call.wait_until_answered()
        return report_of(call.side, asked, call.n_sent, call.ended)


def _make_back_ends(folder: Path) -> list[dict[str, Any]]:
    """Writes a prompt file for each of `PROMPTS`, and returns the settings of a back-end for each.

    Their endpoint names differ, so that the server starts a chat server of its own for each.
    """
    back_ends = []
    for name, instructions in PROMPTS.items():
        file = folder / f"{name}.yaml"
        prompt = Prompt(
            version=name,
            instructions=instructions,
            system="Answer in one short sentence.",
            unfinished="{history}{heard}",
            finished="{history}{heard}",
            stop=["\n"],
        )
        file.write_text(yaml.safe_dump(prompt.model_dump()), encoding="utf-8")
        back_ends.append({"name": name, "prompt": str(file), "max_tokens": 24, "chat": {"endpoint": name}})
    return back_ends
