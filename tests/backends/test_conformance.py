"""The conformance tests pass engines that keep their promises, and find each one that is broken."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backends import registry
from backends.aligner.conformance import check_aligner
from backends.aligner.double import DoubleAligner
from backends.asr.conformance import check_recogniser
from backends.asr.double import DoubleRecogniser
from backends.chat.conformance import check_chat_engine
from backends.chat.double import DoubleEngine
from backends.chat.protocol import Endpoint
from backends.codec.conformance import check_codec
from backends.codec.double import DoubleCodec, DoubleCodecOptions
from backends.conformance import PromiseBroken
from backends.listener.conformance import check_streaming_recogniser
from backends.listener.double import DoubleListener, DoubleListenerOptions, DoubleListenerStream
from backends.listener.protocol import Heard
from backends.tts.conformance import check_text_to_speech
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from data_schemas.config import ChatConfig
from data_schemas.records import WordTiming

WORDS = ["seven", "green", "apples", "fell"]
SAID = DoubleTts().synthesise(" ".join(WORDS), "double_a", 1.0).samples
TOLD = tuple(DoubleAligner().align(SAID, 24_000, WORDS))[1:]
Change = Callable[[Any], object]
"""What is done to a good engine to make it break a promise."""


def instead(name: str, value: Any) -> Change:
    """Another value of a property, or another method, which is given the engine's own first."""

    def change(engine: Any) -> object:
        own = getattr(engine, name, None)
        new = (lambda *given, **more: value(own, *given, **more)) if callable(value) else value
        return type("Liar", (type(engine),), {name: staticmethod(new) if callable(value) else new})

    return change


def liar(engine: Any, change: Change) -> Any:
    engine.__class__ = change(engine)
    return engine


counter = itertools.count()
TTS_LIES = {
    "`name` is": instead("name", ""),
    "`digest` stays": lambda engine: type("Liar", (DoubleTts,), {"digest": property(lambda self: str(next(counter)))}),
    "at least one voice": instead("list_voices", lambda own: ()),
    "different digests": instead("list_voices", lambda own: [replace(each, digest="same") for each in own()]),
    "has a language and a licence": instead("list_voices", lambda own: [replace(each, licence="") for each in own()]),
    "`max_chars` is None": instead("max_chars", 3),
    "`max_calls_in_flight` is": instead("max_calls_in_flight", 0),
    "audio is a float32": instead("synthesise", lambda own, *given: Speech(own(*given).samples.astype(np.float64))),
    "audio is mono": instead("synthesise", lambda own, *given: Speech(np.stack([own(*given).samples] * 2))),
    "numbers in": instead("synthesise", lambda own, *given: Speech(own(*given).samples * 9)),
    "is not silent": instead("synthesise", lambda own, *given: Speech(own(*given).samples * 0)),
    "same samples": instead(
        "synthesise", lambda own, *given: Speech(own(*given).samples * np.float32(1 - next(counter) / 1e6))
    ),
    "another voice sounds": instead("synthesise", lambda own, text, voice, *more: own(text, "double_a", *more)),
    "is shorter than": instead("synthesise", lambda own, text, voice, speed, take=0: own(text, voice, 1.0)),
    "each word has a time": instead("synthesise", lambda own, *given: Speech(own(*given).samples, TOLD)),
}


@pytest.mark.parametrize("promise", TTS_LIES)
def test_a_text_to_speech_engine_that_breaks_a_promise_is_found(promise: str) -> None:
    check_text_to_speech(DoubleTts())
    with pytest.raises(PromiseBroken, match=promise):
        check_text_to_speech(liar(DoubleTts(), TTS_LIES[promise]))


def shifted(own: Any, *given: Any) -> list[WordTiming]:
    return [replace(each, start_s=each.start_s + 9, end_s=each.end_s + 9) for each in own(*given)]


def spread(found: list[WordTiming], start_s: float, end_s: float) -> list[WordTiming]:
    """Words evenly over a stretch of sound, whatever it holds."""
    edges = np.linspace(start_s, end_s, len(found) + 1).tolist() if found else []
    return [replace(each, start_s=edges[at], end_s=edges[at + 1]) for at, each in enumerate(found)]


ALIGNER_LIES = {
    "two letters each": instead("languages", ("english",)),
    "one timing a word": instead("align", lambda own, *given: own(*given)[1:]),
    "times ascend": instead("align", lambda own, *given: [replace(each, start_s=0.0) for each in own(*given)]),
    "inside the audio": instead("align", shifted),
    "by as much": instead(
        "align", lambda own, sound, rate, words: spread(own(sound, rate, words), 0, len(sound) / rate)
    ),
    "a pause between": instead(
        "align", lambda own, *given: spread(found := own(*given), found and found[0].start_s, found and found[-1].end_s)
    ),
    "AlignmentRefused": instead("align", lambda own, sound, rate, words: own(SAID, 24_000, words)),
}


@pytest.mark.parametrize("promise", ALIGNER_LIES)
def test_an_aligner_that_breaks_a_promise_is_found(promise: str) -> None:
    check_aligner(DoubleAligner(), SAID, WORDS)
    check_aligner(registry.build("aligner", "synthesiser", {"aligner": "double"}), SAID, WORDS)
    with pytest.raises(PromiseBroken, match=promise):
        check_aligner(liar(DoubleAligner(), ALIGNER_LIES[promise]), SAID, WORDS)


RECOGNISER_LIES = {
    "has the spoken words": instead("transcribe", lambda own, *given: "seven mean apples fell"),
    "same transcript each time": instead("transcribe", lambda own, *given: own(*given) + "!" * next(counter)),
    "at another sample rate": instead("transcribe", lambda own, sound, rate: own(sound, rate) if rate < 48_000 else ""),
}


@pytest.mark.parametrize("promise", RECOGNISER_LIES)
def test_a_recogniser_that_breaks_a_promise_is_found(promise: str) -> None:
    said = "Seven green apples fell."
    check_recogniser(DoubleRecogniser(said), SAID, said)
    with pytest.raises(PromiseBroken, match=promise):
        check_recogniser(liar(DoubleRecogniser(said), RECOGNISER_LIES[promise]), SAID, said)


class Stateful:
    """The double's stream, but each frame's codes, and the loudness of its sound, also count the frames before.

    `forgets` and `rests` say of which of the two this is so after a reset, and while a stream is not active.
    """

    def __init__(self, stream: Any, *, forgets: str, rests: str) -> None:
        self._stream, self._forgets, self._rests = stream, forgets, rests
        self._n, self._n_said = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
        self._active = np.ones(3, dtype=bool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def encode_frame(self, samples: Any) -> Any:
        codes = (self._stream.encode_frame(samples) + self._n[:, None]) % 2048
        self._n += self._active if "codes" in self._rests else 1
        return codes.astype(np.int16)

    def decode_frame(self, codes: Any) -> Any:
        sound = self._stream.decode_frame(codes) * loudness(self._n_said)[:, None]
        self._n_said += self._active if "sound" in self._rests else 1
        return sound

    def set_active(self, active: Any) -> None:
        self._active = active

    def reset(self, streams: Any) -> None:
        self._n *= ~(streams & ("codes" in self._forgets))
        self._n_said *= ~(streams & ("sound" in self._forgets))
        self._active = self._active | streams


def loudness(n_before: Any) -> Any:
    return (1 / (1 + n_before / 10)).astype(np.float32)


def stateful(**manners: str) -> Change:
    def encode(own: Any, sounds: Any) -> Any:
        codes = own(sounds)
        return [((each + np.arange(each.shape[1])) % 2048).astype(np.int16) for each in codes]

    def decode(own: Any, codes: Any) -> Any:
        return own(codes) * np.repeat(loudness(np.arange(codes.shape[1])), 1920)

    @contextmanager
    def stream(own: Any, batch_size: int) -> Iterator[Any]:
        with own(batch_size) as opened:
            yield Stateful(opened, **manners)

    def change(engine: Any) -> object:
        for name, value in (("encode", encode), ("decode", decode)):
            engine.__class__ = instead(name, value)(engine)
        return instead("stream", stream)(engine)

    return change


CODEC_LIES = {
    "frames of codes": instead("encode", lambda own, sounds: [each[:, :-1] for each in own(sounds)]),
    "int16 in": instead("encode", lambda own, sounds: [each.astype(np.int64) for each in own(sounds)]),
    "samples a frame": instead("decode", lambda own, codes: own(codes)[1:]),
    "audio of the whole": instead("decode", lambda own, codes: own(codes) * np.float32(0.5)),
    "a recording's codes": instead("encode", lambda own, sounds: [(each + len(sounds)) % 2048 for each in own(sounds)]),
    "codes of the whole": instead(
        "encode", lambda own, sounds: [((each + 1) % 2048).astype(np.int16) for each in own(sounds)]
    ),
    "exclude path and device": instead("save", lambda own, folder: own(folder) | {"path": folder}),
    "has the same digest": instead("save", lambda own, folder: own(folder) | {"card": 7}),
    "lies in": instead("decode", lambda own, codes: own(codes) * np.float32(9)),
    "is reset starts again": stateful(forgets="sound", rests="codes, sound"),
    "is reset decodes from its start": stateful(forgets="codes", rests="codes, sound"),
    "inactive stream has no effect": stateful(forgets="codes, sound", rests="sound"),
    "inactive stream have no effect": stateful(forgets="codes, sound", rests="codes"),
}


@pytest.mark.parametrize("promise", CODEC_LIES)
def test_a_codec_that_breaks_a_promise_is_found(promise: str) -> None:
    options = DoubleCodecOptions()
    with pytest.raises(PromiseBroken, match=promise):
        check_codec(liar(DoubleCodec(options), CODEC_LIES[promise]))


def test_the_double_of_a_codec_keeps_its_promises() -> None:
    check_codec(DoubleCodec(DoubleCodecOptions()))
    check_codec(liar(DoubleCodec(DoubleCodecOptions()), stateful(forgets="codes, sound", rests="codes, sound")))


class TalkativeStream(DoubleListenerStream):
    def end_turn(self) -> None:
        super().end_turn()
        self._on_heard(Heard("and more"))


class DeafStream(DoubleListenerStream):
    def end_turn(self) -> None:
        """Tells no final text."""


class LeakyStream(DoubleListenerStream):
    def close(self) -> None:
        """Goes on telling."""


class Gossip(DoubleListener):
    """Tells partial words to whoever came last as well; final ones to their caller alone."""

    last: Callable[[Heard], None]

    def listen(self, on_heard: Callable[[Heard], None]) -> DoubleListenerStream:
        self.last = on_heard

        def tell(heard: Heard) -> None:
            on_heard(heard)
            if not heard.is_final and self.last is not on_heard:
                self.last(heard)

        return super().listen(tell)


class OneStream(DoubleListener):
    """All callers have the ear of the first."""

    ear: DoubleListenerStream | None = None

    def listen(self, on_heard: Callable[[Heard], None]) -> DoubleListenerStream:
        self.ear = self.ear or super().listen(on_heard)
        return self.ear


@pytest.mark.parametrize(
    ("ear", "promise"),
    [
        (TalkativeStream, "after its final one"),
        (DeafStream, "comes within"),
        (LeakyStream, "closed ear sends no more"),
    ],
)
def test_a_streaming_recogniser_that_breaks_a_promise_is_found(
    ear: type[DoubleListenerStream], promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = DoubleListenerOptions(script=" ".join(WORDS))
    check_streaming_recogniser(DoubleListener(options), SAID, "seven green apples fell", n_callers=3)
    monkeypatch.setattr("backends.listener.double.DoubleListenerStream", ear)
    with pytest.raises(PromiseBroken, match=promise):
        check_streaming_recogniser(DoubleListener(options), SAID, "seven green apples fell", limit_s=0.2)


def test_partial_words_that_go_to_another_caller_are_found() -> None:
    with pytest.raises(PromiseBroken, match="no words of another's turn"):
        check_streaming_recogniser(Gossip(DoubleListenerOptions(script="a b c d")), SAID, "a b c d", limit_s=0.2)


def test_callers_that_share_an_ear_are_found() -> None:
    with pytest.raises(PromiseBroken):
        check_streaming_recogniser(OneStream(DoubleListenerOptions(script="a b c d")), SAID, "a b c d", limit_s=0.2)


class Renamed(DoubleEngine):
    def describe(self) -> Endpoint:
        return replace(super().describe(), model_digest=str(next(counter)))


class Elsewhere(DoubleEngine):
    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        with super().serve() as endpoint:
            yield replace(endpoint, model="another")


def test_a_chat_engine_that_breaks_a_promise_is_found() -> None:
    check_chat_engine(DoubleEngine(ChatConfig()))
    with pytest.raises(PromiseBroken, match="returns the same each time"):
        check_chat_engine(Renamed(ChatConfig()))
    with pytest.raises(PromiseBroken, match="name, model and digest of `describe`"):
        check_chat_engine(Elsewhere(ChatConfig()))
