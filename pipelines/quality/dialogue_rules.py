"""Rules of one row of a data shard: its id, its sound, its turns and their words; each with what was found instead."""

import io
from collections.abc import Iterator
from itertools import pairwise

import soundfile

from data_schemas import ids
from data_schemas.records import AudioDialogue, Turn
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.audio import Sound, from_flac, rms_dbfs
from pipelines.script.speakable import spoken_words
from pipelines.speech.mixing import CHANNEL

Wrong = Iterator[tuple[str, str]]
"""Broken rules, each with what was found instead."""

TIME_TOLERANCE_S = 1e-5
"""Times are stored in whole microseconds; sums of them may differ by a few."""

SILENT_DBFS = -60.0
"""A channel no louder holds no speech: utterances are mixed at -40 dBFS or louder (`SpeechConfig`)."""

_MADE_WITH = ("tts", "tts_digest", "voice_a", "voice_b", "aligner", "aligner_digest", "seed")


def wrong_in_dialogue(row: AudioDialogue) -> Wrong:
    """What is wrong with a row, whatever else is in the dataset."""
    if row.dialogue_id != ids.dialogue_id(row.item_id, row.variant):
        yield "a dialogue's id is its item's and variant's", f"{row.item_id}, variant {row.variant}"
    missing = [name for name in _MADE_WITH if getattr(row.provenance, name) is None]
    if missing or not row.provenance.script_method or row.licence is None:
        yield "provenance is complete", f"missing: {', '.join(missing) or 'licence or script method'}"
    yield from _audio(row)
    for turn in row.turns:
        yield from _turn(turn)
        yield from _words(turn, row.duration_s)


def _audio(row: AudioDialogue) -> Wrong:
    try:
        info = soundfile.info(io.BytesIO(row.flac))
        sound = from_flac(row.flac)
    except soundfile.LibsndfileError as error:
        yield "audio can be read", str(error)
        return
    if (info.samplerate, info.channels, row.sample_rate_hz) != (SAMPLE_RATE_HZ, 2, SAMPLE_RATE_HZ):
        yield "audio is stereo at 24 kHz", f"{info.channels} channel(s) at {info.samplerate} Hz"
    if len(sound) != row.n_samples or abs(row.duration_s - len(sound) / SAMPLE_RATE_HZ) > TIME_TOLERANCE_S:
        yield "audio is as long as the row says", f"{len(sound)} samples, row: {row.n_samples}"
    if (info.samplerate, info.channels) == (SAMPLE_RATE_HZ, 2):
        yield from _channels(row.turns, sound)


def _channels(turns: tuple[Turn, ...], sound: Sound) -> Wrong:
    """Each utterance is heard on its speaker's channel, and louder there unless the other speaks as well."""
    spans = [
        (turn.speaker, seconds_to_samples(said.start_s), seconds_to_samples(said.end_s))
        for turn in turns
        for said in turn.utterances
        if said.start_s is not None and said.end_s is not None
    ]
    for speaker, start, end in spans:
        where = f"{speaker} at {start / SAMPLE_RATE_HZ:.2f} s"
        if speaker not in CHANNEL:
            yield "each speaker is on their own channel", f"{where}: speakers are {', '.join(CHANNEL)}"
            continue
        if not 0 <= start < end <= len(sound):
            continue  # told by the rule that utterances lie inside the audio
        own_dbfs, other_dbfs = (rms_dbfs(sound[start:end, at]) for at in (CHANNEL[speaker], 1 - CHANNEL[speaker]))
        is_alone = not any(who != speaker and begin < end and start < stop for who, begin, stop in spans)
        if own_dbfs <= SILENT_DBFS or (is_alone and own_dbfs <= other_dbfs):
            found = f"{where}: {own_dbfs:.0f} dBFS there, {other_dbfs:.0f} on the other"
            yield "each speaker is on their own channel", found


def _turn(turn: Turn) -> Wrong:
    """A turn says and lasts what its utterances do."""
    where = f"turn {turn.turn_index}"
    if turn.spoken_text != " ".join(said.spoken_text for said in turn.utterances if said.kind == "speech"):
        yield "a turn's spoken text is its utterances'", where
        return
    edges = (turn.utterances[0].start_s, turn.utterances[-1].end_s) if turn.utterances else (None, None)
    for name, own_s, spoken_s in zip(("starts", "ends"), (turn.start_s, turn.end_s), edges, strict=True):
        if spoken_s is not None and (own_s is None or abs(own_s - spoken_s) > TIME_TOLERANCE_S):
            yield "a turn starts and ends with its utterances", f"{where} {name} at {own_s} s, not {spoken_s} s"


def _words(turn: Turn, duration_s: float) -> Wrong:
    where = f"turn {turn.turn_index}"
    for utterance in turn.utterances:
        timed = [word.word for word in utterance.words]
        if timed != spoken_words(utterance.spoken_text):
            yield "every spoken word is timed", f"{where}: {len(timed)} timed"
        if utterance.start_s is None or utterance.end_s is None:
            yield "utterances have times", where
            continue
        edges = [
            utterance.start_s,
            *(t for word in utterance.words for t in (word.start_s, word.end_s)),
            utterance.end_s,
        ]
        if any(later < earlier - TIME_TOLERANCE_S for earlier, later in pairwise(edges)):
            yield "words are ordered and inside their utterance", where
        if not (0 <= utterance.start_s < utterance.end_s <= duration_s + TIME_TOLERANCE_S):
            yield "utterances lie inside the audio", f"{where}: {utterance.start_s} to {utterance.end_s} s"
        if any(word.end_s <= word.start_s for word in utterance.words):
            yield "words last", where
