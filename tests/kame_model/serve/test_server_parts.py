"""The cascade's voice as a configuration names it: the engine's options, and from how many threads it is asked."""

import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError
from kame_model.serve.parts import build_parts
from tests.support.distributions import install_package
from tests.support.serving import serve_config

CROWD = """
import threading
from backends.options import Options
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from pydantic import Field

AT_ONCE = []

class CrowdOptions(Options):
    n_mouths: int = Field(ge=1, description="Calls it bears at once.")

class Crowd(DoubleTts):
    name = "crowd"

    def __init__(self, options: CrowdOptions) -> None:
        self.max_calls_in_flight = options.n_mouths
        self.all_speak = threading.Barrier(options.n_mouths)
        self.n_speaking = 0
        self.lock = threading.Lock()

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        if text == "Hello.":  # the server's own first word
            return super().synthesise(text, voice, speed, take)
        with self.lock:
            self.n_speaking += 1
            AT_ONCE.append(self.n_speaking)
        self.all_speak.wait(30)  # breaks where fewer speak at once than it bears
        with self.lock:
            self.n_speaking -= 1
        return super().synthesise(text, voice, speed, take)
"""


def config_of(mode: str = "cascade", **cascade: object) -> ServeConfig:
    return serve_config(
        mode=mode, cascade=cascade, listener={"engine": "double"}, back_ends=[{"chat": {"engine": "double"}}]
    )


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path, monkeypatch, "kame-crowd", CROWD, {"kame.tts": "crowd = kame_crowd:Crowd"})


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("n_mouths", [1, 3])
async def test_the_voice_is_asked_from_as_many_threads_as_it_bears(n_mouths: int) -> None:
    async with build_parts(config_of(tts="crowd", options={"n_mouths": n_mouths})) as parts:
        speaker = parts.speaker
        assert speaker is not None
        said = await asyncio.gather(*(speaker.say("One two three.") for _ in range(2 * n_mouths)))
        assert all(len(each.samples) for each in said)
    assert max(import_module("kame_crowd").AT_ONCE) == n_mouths


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("mode", ["cascade", "tandem"])
async def test_options_that_the_voice_does_not_take_are_told(mode: str) -> None:
    with pytest.raises(ConfigError, match=r"'crowd' does not take these options: n_mouths"):
        async with build_parts(config_of(mode, tts="crowd", options={"n_mouths": 0})):
            pass


async def test_an_engine_that_is_not_there_is_told_where_it_is_heard_and_its_voice_in_any_mode() -> None:
    async with build_parts(config_of("tandem", tts="nobody")) as parts:
        assert parts.speaker is None
    for config, told in (
        (config_of("cascade", tts="nobody"), "no tts back-end 'nobody'"),
        (config_of("tandem", tts="nobody").model_copy(update={"voice": "synthesised"}), "no tts back-end 'nobody'"),
        (config_of("tandem", tts="double", voice="nobody"), "double has no voice 'nobody'.*double_a"),
    ):
        with pytest.raises(ConfigError, match=told):
            async with build_parts(config):
                pass
