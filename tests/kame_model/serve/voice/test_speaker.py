"""What a voice synthesises, and what it keeps of it."""

from itertools import product

import pytest

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, SpeechRefused
from data_schemas.config.serving import CascadeConfig
from kame_model.serve.voice.speaker import KEPT_WORDS, N_KEPT, Speaker
from tests.support.inline_threads import InlineThreads


class CountingTts(DoubleTts):
    """Lists what it synthesises; cannot say "bravo"."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.texts.append(text)
        if text == "bravo":
            raise SpeechRefused("nobody says that")
        return super().synthesise(text, voice, speed, take)


async def test_a_short_sentence_is_synthesised_once_and_a_long_one_each_time() -> None:
    tts = CountingTts()
    speaker = Speaker(tts, CascadeConfig(), InlineThreads())
    longer = " ".join(["alpha"] * (KEPT_WORDS + 1))
    for text in ("let me think", longer, "let me think", longer):
        spoken = await speaker.say(text)
        assert [word for _, word in spoken.words] == text.split()
    assert tts.texts == ["let me think", longer, longer]
    for _ in range(2):  # what was refused is tried again
        with pytest.raises(SpeechRefused, match="nobody"):
            await speaker.say("bravo")
    assert tts.texts[3:] == ["bravo", "bravo"]


async def test_the_oldest_of_too_many_is_synthesised_again() -> None:
    tts = CountingTts()
    speaker = Speaker(tts, CascadeConfig(), InlineThreads())
    names = ["alpha", "charlie", "delta", "echo", "golf", "hotel", "india", "kilo", "lima", "mike", "november", "oscar"]
    texts = [" ".join(pair) for pair in product(names, names)][:N_KEPT]
    for text in (*texts, "papa", texts[-1], texts[0]):
        await speaker.say(text)
    assert tts.texts == [*texts, "papa", texts[0]]
