"""Tasks that make hours of the assistant's voice as token rows; running them again resumes.

sentences ─ vocabulary ─ codec ─ speech ─ encode

Sentences are drawn by their positions, several to a part. Processes make and write the parts, each with its own engine
and codec. The rows consist of the first parts that together last as long as required, so neither the number of
processes nor an interruption changes a byte; a part beyond that is used when more hours are requested.
"""

import json
import os
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from backends import registry
from backends.aligner.pocketsphinx import PhoneTiming, align_phones
from backends.aligner.protocol import AlignmentRefused
from backends.codec.learnt_files import LEARNT_FILES
from backends.codec.protocol import Codec
from backends.engine import Samples
from backends.options import OptionValue
from backends.processes import WorkerPool, block_interrupts, leave_with_parent
from data_schemas import ids
from data_schemas.config.speech_rows import SpeechRowsConfig
from data_schemas.errors import BackendError, DatasetError
from data_schemas.licences import get_voice_licence, name_voice
from data_schemas.records import Reject, SpokenSentence
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from flows.runs.tasks import Task, Tasks, run_tasks
from kame_model.codec.speech import PhoneClip
from kame_model.encode.folder import TOKENIZER, claim_folder
from kame_model.encode.held_out import read_excluded_ids
from kame_model.encode.manifest import TokenManifest
from kame_model.encode.speech import (
    FACTS,
    SpeechFacts,
    add_silence,
    compact_parts,
    count_rejects,
    read_part_duration_s,
    write_part,
)
from kame_model.text.tokenizer import Tokenizer
from kame_model.text.tokenizer_training import train_tokenizer
from pipelines.sentences.corpus import Corpus, Sentence, draw_sentence, read_corpus
from pipelines.sentences.speaker import SentenceSpeaker

SENTENCES_A_PART: Final = 28
"""About two minutes of speech: the most work that a process loses when it is stopped."""

_PART_S: Final = 120.0
"""Assumed duration of a part in seconds, before the first one is made."""

_N_TEXTS: Final = 10_000
"""Number of sentences that a tokenizer is trained on; the first ones are used."""

_NEURAL: Final = "codec2-neural"
_VERSION: Final = 1
"""Version of the drawing of sentences and their silence; increase it when the same configuration gives other rows."""

_DRAWN_BY: Final = (
    *("seed", "shares", "min_words", "max_words", "validation_share", "before_s", "after_min_s", "after_max_s"),
)

Output = TypeVar("Output")
OnSeconds = Callable[[float], None]
"""Callback with the number of further seconds of rows that were made, or found."""


@dataclass(frozen=True, slots=True)
class SpeechResult:
    """Result of a run: the manifest, the number of parts, and the number of rejected sentences by reason."""

    manifest: TokenManifest
    n_parts: int
    refused: Counter[str]


def run_speech(
    config: SpeechRowsConfig,
    on_seconds: OnSeconds = lambda seconds: None,
    run_task: Callable[[Task[Any]], None] = Task.run,
) -> SpeechResult:
    """Makes hours of the assistant's voice as token rows, or resumes.

    Raises:
        ConfigError: a back-end or voice does not exist, or the folder holds something else.
        SourceError: a source cannot be read.
        DatasetError: there are no sentences, or none of a part could be synthesised.
        BackendError: an engine, a codec or a process failed.
        StoreError: another run writes to the folder, or it cannot be written.
    """
    return run_tasks(make_speech_tasks(config, on_seconds), run_task)


def make_speech_tasks(config: SpeechRowsConfig, on_seconds: OnSeconds) -> Tasks[SpeechResult]:
    """Yields the tasks of a run, and returns its result."""
    speaker = SentenceSpeaker(config)
    sentences = Task("sentences", "", lambda: read_corpus(config, read_excluded_ids(config.without)))
    yield [sentences]
    corpus, facts = sentences.made, _make_facts(config, sentences.made, speaker)
    with claim_folder(config.out, FACTS, facts) as store, _PartMakers(config, corpus, speaker, store) as makers:
        text = Task("vocabulary", "", partial(_make_tokenizer, config, corpus, speaker, store))
        codec = Task("codec", "", partial(_make_codec_options, config, makers, store))
        yield [text, codec]
        speech = Task("speech", "", partial(makers.make_parts, codec.made, on_seconds))
        yield [speech]
        built: Codec = registry.build("codec", config.codec, codec.made)
        make_shards = partial(compact_parts, store, speech.made, facts)
        voice = {name_voice(config.speech.tts, speaker.voice): get_voice_licence(config.speech.tts, speaker.voice)}
        licences = {**corpus.licences, **voice}
        encode = Task("encode", "", partial(make_shards, built, codec.made, text.made, config.before_s, licences))
        yield [encode]
        return SpeechResult(encode.made, speech.made, count_rejects(store, speech.made))


def _make_facts(config: SpeechRowsConfig, corpus: Corpus, speaker: SentenceSpeaker) -> SpeechFacts:
    """Makes the facts that determine the rows; a folder that was made with other facts is an error."""
    drawn_by = config.model_dump(mode="json", include=set(_DRAWN_BY))
    if _is_codec_learnt(config):
        how = f"{config.codec_stages} stages of {config.codec_card}"
        if config.codec == _NEURAL:
            how = f"networks {ids.digest(config.codec_training.model_dump(mode='json'), n_hex=8)}"
        codec = f"learnt of {config.learning_minutes:g} minutes: {how}"
    else:
        built: Codec = registry.build("codec", config.codec, config.codec_options)
        codec = f"{built.name} {built.digest}"
    trained = f"trained, {config.vocabulary} pieces"
    return SpeechFacts(
        sentences=ids.digest("speech rows", _VERSION, SENTENCES_A_PART, corpus.digest, drawn_by),
        voice=f"{config.speech.tts} {speaker.voice}",
        speech=speaker.digest,
        codec=codec,
        tokenizer=trained if config.tokenizer is None else Tokenizer.from_file(config.tokenizer).digest,
    )


def _make_tokenizer(config: SpeechRowsConfig, corpus: Corpus, speaker: SentenceSpeaker, store: Store) -> Tokenizer:
    """Returns the tokenizer in the folder; if there is none, copies the configured one or trains one on sentences."""
    if not store.exists(TOKENIZER):
        if config.tokenizer is not None:
            store.write_bytes(TOKENIZER, Tokenizer.from_file(config.tokenizer).path.read_bytes())
        else:
            drawn = (draw_sentence(corpus, config, position) for position in range(_N_TEXTS))
            read, _ = speaker.read(list({each.written: each for each in drawn}.values()))
            train_tokenizer((said.text for _, said in read), config.vocabulary, store.resolve_path(TOKENIZER))
    return Tokenizer.from_file(store.resolve_path(TOKENIZER))


def _is_codec_learnt(config: SpeechRowsConfig) -> bool:
    """Returns whether the run learns its codec from its own speech."""
    return config.codec in LEARNT_FILES and "path" not in config.codec_options


def _make_codec_options(config: SpeechRowsConfig, makers: "_PartMakers", store: Store) -> dict[str, OptionValue]:
    """Returns the codec's options; if it is to be learnt, with the path of its folder.

    It is learnt only if the folder has none yet.
    """
    if not _is_codec_learnt(config):
        return dict(config.codec_options)
    file = f"codec/{LEARNT_FILES[config.codec]}"
    if not store.exists(file):
        clips = makers.say(60 * config.learning_minutes)
        if config.codec == _NEURAL:
            from kame_model.codec.learning import RECORD
            from kame_model.codec.neural import learn_networks, serialise_networks

            aligned = [clip for clip in clips if clip.phones]
            learnt = learn_networks(aligned, config.codec_training)
            right = learnt.phones_right  # of 20 ms of speech that is not in the training
            record = {
                "config": config.codec_training.model_dump(mode="json"),
                "speech_s": round(sum(samples_to_seconds(len(clip.samples)) for clip in aligned), 1),
                "sentences": len(aligned),
                "left_out": len(clips) - len(aligned),  # their phonemes were not found
                "phonemes_right": None if right is None else round(right, 4),
            }
            store.write_bytes(f"codec/{RECORD}", (json.dumps(record, indent=1) + "\n").encode())
            store.write_bytes(file, serialise_networks(learnt))
        else:
            from safetensors.numpy import save

            from backends.codec.codec2_learnt import learn_codebooks

            sounds = [clip.samples for clip in clips]
            books = learn_codebooks(sounds, config.codec_stages, config.codec_card, config.seed)
            store.write_bytes(file, save(books._asdict()))
    return {**config.codec_options, "path": store.resolve_path("codec")}


class _PartMaker:
    """Synthesises and encodes parts in one process."""

    def __init__(self, config: SpeechRowsConfig, speaker: SentenceSpeaker) -> None:
        self._config, self._speaker, self._store = config, speaker, Store(config.out)
        self._codec: Codec | None = None

    def say(self, number: int, sentences: Sequence[Sentence]) -> list[PhoneClip]:
        """Synthesises the sentences of a part and returns those that are not rejected, with silence around them.

        Phonemes are found only for a codec that is trained with them; a clip in which they are not found has none.

        Raises:
            DatasetError: none of the sentences could be synthesised, or needed phonemes were found in none of them.
        """
        clips, refused = [], ""
        for sentence, sound in self._say(number, sentences)[0]:
            phones: Sequence[PhoneTiming] = ()
            if self._config.codec == _NEURAL:
                try:
                    phones = align_phones(sound, SAMPLE_RATE_HZ, [each.word for each in sentence.words])
                except AlignmentRefused as error:
                    refused = f"{sentence.sentence_id}, {error}"
            clips.append(PhoneClip(sound, phones))
        if refused and not any(clip.phones for clip in clips):
            raise DatasetError(
                f"The phonemes of none of the {len(clips)} synthesised sentences of part {number} were found; the "
                f"last: {refused}.",
                "Check the voice and the language of the sentences, or use another --codec.",
            )
        return clips

    def write(self, number: int, sentences: Sequence[Sentence], codec_options: Mapping[str, OptionValue]) -> float:
        """Synthesises, encodes and writes a part, and returns its duration in seconds.

        Raises:
            DatasetError: none of the sentences could be synthesised.
        """
        self._codec = self._codec or registry.build("codec", self._config.codec, codec_options)
        said, rejects = self._say(number, sentences)
        return write_part(self._store, number, said, rejects, self._codec)

    def _say(
        self, number: int, sentences: Sequence[Sentence]
    ) -> tuple[list[tuple[SpokenSentence, Samples]], list[Reject]]:
        """Synthesises sentences, with silence before and (of random length) after each; also returns the rejects.

        Raises:
            DatasetError: none of the sentences could be synthesised.
        """
        config = self._config
        said, rejects = self._speaker.say(sentences)
        if not said:
            raise DatasetError(
                f"None of the {len(sentences)} sentences of part {number} could be synthesised; the last: "
                f"{rejects[-1].stage} rejected {rejects[-1].dialogue_id}, {rejects[-1].reason}: {rejects[-1].detail}.",
                "Check the voice, its language, and the limits of the quality gate.",
            )
        padded = []
        for sentence, sound in said:
            draw = random.Random(ids.derive_seed(config.seed, "silence", sentence.sentence_id))
            after_s = draw.uniform(config.after_min_s, config.after_max_s)
            padded.append((sentence, add_silence(sound, config.before_s, after_s)))
        return padded, rejects


class _PartMakers(WorkerPool):
    """Makes parts in order, in this process or in several; a context manager."""

    def __init__(self, config: SpeechRowsConfig, corpus: Corpus, speaker: SentenceSpeaker, store: Store) -> None:
        super().__init__(config.workers or os.cpu_count() or 1, _begin_worker, config)
        self._config, self._corpus, self._store = config, corpus, store
        self._here = _PartMaker(config, speaker)

    def make_parts(self, codec_options: Mapping[str, OptionValue], on_seconds: OnSeconds) -> int:
        """Makes the first parts that together last as long as required, except those that exist already.

        Returns:
            The number of these parts, made or found.
        """

        def begin(number: int) -> Future[float]:
            """Begins a part, or finds it, and returns the future of its duration in seconds."""
            found = read_part_duration_s(self._store, number)
            return (
                _make_done_future(found)
                if found is not None
                else self._submit("write", number, self._draw_sentences(number), codec_options)
            )

        n_parts = 0
        for part_s in self._iterate_parts(3600 * self._config.hours, begin, lambda part_s: part_s):
            on_seconds(part_s)
            n_parts += 1
        return n_parts

    def say(self, wanted_s: float) -> list[PhoneClip]:
        """Synthesises parts until a codec can learn from `wanted_s` seconds of them.

        Returns:
            A clip of each sentence that is not rejected, with those that the codec cannot learn from.

        Raises:
            DatasetError: the codec can learn from no sentence of a part, so more parts might never last long enough.
        """

        def compute_length_s(clips: list[PhoneClip]) -> float:
            """Returns the duration in seconds of the clips that the codec can learn from."""
            usable = [each for each in clips if each.phones or self._config.codec != _NEURAL]
            return sum(samples_to_seconds(len(each.samples)) for each in usable)

        parts = self._iterate_parts(
            wanted_s, lambda number: self._submit("say", number, self._draw_sentences(number)), compute_length_s
        )
        return [clip for clips in parts for clip in clips]

    def _draw_sentences(self, number: int) -> list[Sentence]:
        """Draws the sentences of the part with this number."""
        positions = range(number * SENTENCES_A_PART, (number + 1) * SENTENCES_A_PART)
        return [draw_sentence(self._corpus, self._config, position) for position in positions]

    def _submit(self, method: str, *given: object) -> "Future[Any]":
        """Calls a method of a part maker in a worker process, or at once if there is only this process."""
        if self.n_workers == 1:
            return _make_done_future(getattr(self._here, method)(*given))
        with block_interrupts():  # Ctrl-C goes to all processes, and this one ends the others
            return self.get_started().submit(_call_in_worker, method, *given)

    def _iterate_parts(
        self, wanted_s: float, begin: "Callable[[int], Future[Output]]", length_s: Callable[[Output], float]
    ) -> Iterator[Output]:
        """Yields the results of parts, in order, until they last `wanted_s`; at most a few more are begun than needed.

        Args:
            begin: begins the part of a number.
            length_s: returns the duration of a part's result.

        Raises:
            BackendError: a worker process died.
        """
        n_most = 2 * self.n_workers if self.n_workers > 1 else 1
        numbers, waiting = count(), deque[Future[Output]]()
        made_s, n_made = 0.0, 0
        try:
            while made_s < wanted_s:
                part_s = made_s / n_made if n_made else _PART_S
                while not waiting or (len(waiting) < n_most and made_s + len(waiting) * part_s < wanted_s):
                    waiting.append(begin(next(numbers)))
                made = waiting.popleft().result()
                made_s, n_made = made_s + length_s(made), n_made + 1
                yield made
        except BrokenProcessPool as error:
            raise BackendError(
                "A process that synthesised speech died.", "The usual reason is a lack of memory: use fewer --workers."
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def _make_done_future(made: Output) -> "Future[Output]":
    """Returns a future that already has this result."""
    future: Future[Output] = Future()
    future.set_result(made)
    return future


_maker: _PartMaker | None = None
"""The part maker of a worker process."""


def _begin_worker(config: SpeechRowsConfig) -> None:
    """Makes the part maker of a worker process, which ends with its parent."""
    global _maker
    leave_with_parent()
    _maker = _PartMaker(config, SentenceSpeaker(config))


def _call_in_worker(method: str, *given: object) -> Any:
    """Calls a method of the part maker of this worker process."""
    assert _maker is not None
    return getattr(_maker, method)(*given)
