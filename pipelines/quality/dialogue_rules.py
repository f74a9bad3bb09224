"""Rules for one row of a data shard: its id, its audio, its turns and their words."""

import io
import math
from itertools import pairwise, zip_longest

import soundfile

from data_schemas import ids
from data_schemas.records import AudioDialogue, Turn, Utterance
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.audio import Sound, decode_flac, measure_peak_dbfs, measure_rms_dbfs
from pipelines.mixing.layout import LEAD_OUTLASTS_S, MOST_CUT_S
from pipelines.mixing.timing import CHANNEL
from pipelines.quality import measured_rules as measured
from pipelines.quality.measured_rules import SILENT_DBFS, BrokenRules
from pipelines.script.forms.table import FORMS, RECORDED
from spoken.spoken_text import split_words

TIME_TOLERANCE_S = 1e-5
"""Times are stored in whole microseconds; their sums may differ by a few."""

NOISE_VARIES_DB = 3.0
"""How much louder than its mean a short piece of a noise floor may be; speech is at least 6 dB above it."""

_MADE_WITH = ("tts", "tts_digest", "voice_a", "voice_b", "aligner", "aligner_digest", "seed")


def check_dialogue(row: AudioDialogue) -> BrokenRules:
    """Yields a (rule, finding) pair for each rule that a row breaks by itself, without the rest of the dataset."""
    if row.dialogue_id != ids.make_dialogue_id(row.item_id, row.variant):
        yield "a dialogue's id is its item's and variant's", f"{row.item_id}, variant {row.variant}"
    missing = [name for name in _MADE_WITH if getattr(row.provenance, name) is None]
    if missing or not row.provenance.script_method or row.licence is None:
        yield "provenance is complete", f"missing: {', '.join(missing) or 'licence or script method'}"
    if row.form not in (*FORMS, RECORDED):
        yield "a dialogue has a known form", row.form
    yield from _check_audio(row)
    yield from measured.check_hearings(row)
    yield from measured.check_speakers(row)
    for turn in row.turns:
        yield from _check_turn(turn)
        yield from measured.check_delay(turn)
        yield from _check_words(turn, row.duration_s)
    yield from _check_overlaps(row.turns)
    if row.form != RECORDED:  # real speakers choose when they start and stop
        yield from _check_interruptions(row.turns)


def _check_audio(row: AudioDialogue) -> BrokenRules:
    """Checks that the audio can be decoded, and has the format, length, channels, levels and silences of the row."""
    try:
        info = soundfile.info(io.BytesIO(row.flac))
        sound = decode_flac(row.flac)
    except soundfile.LibsndfileError as error:
        yield "audio can be read", str(error)
        return
    if (info.samplerate, info.channels, row.sample_rate_hz) != (SAMPLE_RATE_HZ, 2, SAMPLE_RATE_HZ):
        yield "audio is stereo at 24 kHz", f"{info.channels} channel(s) at {info.samplerate} Hz"
    if len(sound) != row.n_samples or abs(row.duration_s - len(sound) / SAMPLE_RATE_HZ) > TIME_TOLERANCE_S:
        yield "audio is as long as the row says", f"{len(sound)} samples, row: {row.n_samples}"
    if (info.samplerate, info.channels) == (SAMPLE_RATE_HZ, 2):
        yield from _check_channels(row, sound)
        yield from _check_cuts(row.turns, sound)
        yield from measured.check_quality(row, sound)
        yield from measured.check_coverage(row, sound)
        if row.form == RECORDED:
            yield from measured.check_recorded_silence(row, sound)
        else:
            yield from measured.check_silence(row, sound)


def _check_channels(row: AudioDialogue, sound: Sound) -> BrokenRules:
    """Checks that each utterance is on its speaker's channel, and louder there unless the other one speaks too."""
    floor_dbfs = _find_floors_dbfs(row)
    spans = [
        (turn.speaker, seconds_to_samples(said.start_s), seconds_to_samples(said.end_s))
        for turn in row.turns
        for said in turn.utterances
        if said.start_s is not None and said.end_s is not None
    ]
    for speaker, start, end in spans:
        where = f"{speaker} at {start / SAMPLE_RATE_HZ:.2f} s"
        if speaker not in CHANNEL:
            yield "each speaker is on their own channel", f"{where}: speakers are {', '.join(CHANNEL)}"
            continue
        if not 0 <= start < end <= len(sound):
            continue  # reported by the rule that utterances lie inside the audio
        own, other = CHANNEL[speaker], 1 - CHANNEL[speaker]
        own_dbfs, other_dbfs = (measure_rms_dbfs(sound[start:end, at]) for at in (own, other))
        is_alone = not any(who != speaker and begin < end and start < stop for who, begin, stop in spans)
        is_drowned = is_alone and floor_dbfs[other] < other_dbfs >= own_dbfs
        if own_dbfs <= floor_dbfs[own] or is_drowned:
            found = f"{where}: {own_dbfs:.0f} dBFS there, {other_dbfs:.0f} on the other"
            yield "each speaker is on their own channel", found


def _find_floors_dbfs(row: AudioDialogue) -> tuple[float, float]:
    """Returns the level that each channel must exceed to hold speech: silence, or the noise on the user's channel."""
    noise_dbfs = row.surroundings.noise_dbfs
    return SILENT_DBFS, SILENT_DBFS if noise_dbfs is None else max(SILENT_DBFS, noise_dbfs + NOISE_VARIES_DB)


def _check_cuts(turns: tuple[Turn, ...], sound: Sound) -> BrokenRules:
    """Checks that an interrupted speaker is silent from the cut to their next utterance, by the loudest sample."""
    for turn in turns:
        if turn.cut_s is None or turn.speaker not in CHANNEL:
            continue
        starts_s = [said.start_s for each in turns if each.speaker == turn.speaker for said in each.utterances]
        next_s = min((each for each in starts_s if each is not None and each >= turn.cut_s), default=None)
        end = len(sound) if next_s is None else seconds_to_samples(next_s)
        level_dbfs = measure_peak_dbfs(sound[seconds_to_samples(turn.cut_s) : end, CHANNEL[turn.speaker]])
        if level_dbfs > SILENT_DBFS:
            yield "a cut turn is silent from its cut on", f"turn {turn.turn_index}: {level_dbfs:.0f} dBFS"


def _check_turn(turn: Turn) -> BrokenRules:
    """Checks that a turn's text, times, cut and answer word are those of its speech; backchannels lie elsewhere."""
    where = f"turn {turn.turn_index}"
    speech = [said for said in turn.utterances if said.kind == "speech"]
    if turn.spoken_text != " ".join(said.spoken_text for said in speech):
        yield "a turn's spoken text is its utterances'", where
        return
    edges = (speech[0].start_s, speech[-1].end_s) if speech else (None, None)
    for name, own_s, spoken_s in zip(("starts", "ends"), (turn.start_s, turn.end_s), edges, strict=True):
        if spoken_s is not None and (own_s is None or abs(own_s - spoken_s) > TIME_TOLERANCE_S):
            yield "a turn starts and ends with its utterances", f"{where} {name} at {own_s} s, not {spoken_s} s"
    if turn.cut_s is not None and turn.end_s is not None and abs(turn.cut_s - turn.end_s) > TIME_TOLERANCE_S:
        yield "a cut turn ends where it is cut", f"{where} ends at {turn.end_s} s, is cut at {turn.cut_s} s"
    if turn.answer_word_index is not None and turn.answer_word_index >= sum(len(said.words) for said in speech):
        yield "the word that bears the answer is said", f"{where}: word {turn.answer_word_index}"
    for said in turn.utterances:
        yield from _check_spans(turn, said)


def _check_spans(turn: Turn, said: Utterance) -> BrokenRules:
    """Checks that each spoken word has a span, which lies inside the turn's written text or is empty."""
    n_words = len(split_words(said.spoken_text))
    if len(said.written_spans) != n_words:
        yield "every spoken word has a written span", f"turn {turn.turn_index}: {len(said.written_spans)} of {n_words}"
    for span in said.written_spans:
        start, end = span.start_char, span.end_char
        if (start, end) != (None, None) and not (
            start is not None and end is not None and 0 <= start < end <= len(turn.written_text)
        ):
            yield "written spans lie inside the written text", f"turn {turn.turn_index}: {start} to {end}"


def _check_overlaps(turns: tuple[Turn, ...]) -> BrokenRules:
    """Checks that no speaker's utterances overlap each other."""
    ends_s: dict[str, float] = {}
    times = [
        (said.start_s, said.end_s, turn.speaker)
        for turn in turns
        for said in turn.utterances
        if said.start_s is not None and said.end_s is not None
    ]
    for start_s, end_s, speaker in sorted(times):
        if start_s < ends_s.get(speaker, 0.0) - TIME_TOLERANCE_S:
            yield "a speaker says one thing at a time", f"{speaker} at {start_s} s"
        ends_s[speaker] = max(end_s, ends_s.get(speaker, 0.0))


def _check_interruptions(turns: tuple[Turn, ...]) -> BrokenRules:
    """Checks that turns overlap only if the user interrupts the assistant, or an answer starts early with a lead.

    Also checks that the next turn has started by the time at which a turn is cut.
    """
    spoken = [(turn, turn.start_s, turn.end_s) for turn in turns if turn.start_s is not None and turn.end_s is not None]
    for (one, _, end_s), following in zip_longest(spoken, spoken[1:]):
        other, other_s = following[:2] if following else (one, math.inf)
        if one.cut_s is not None and other_s > one.cut_s + TIME_TOLERANCE_S:
            yield "only an interruption cuts a turn", f"turn {one.turn_index} is cut, and nobody interrupts"
        overlap_s = end_s - other_s
        if overlap_s <= TIME_TOLERANCE_S or one.speaker == other.speaker:
            continue
        if one.speaker == "B":
            yield from _check_early_start(one, other)
        elif overlap_s > MOST_CUT_S + TIME_TOLERANCE_S:
            found = f"turn {one.turn_index} goes on for {overlap_s:.3f} s"
            yield f"the assistant falls silent within {MOST_CUT_S} s of an interruption", found


def _check_early_start(question: Turn, answer: Turn) -> BrokenRules:
    """Checks that the lead of an answer that starts early lasts `LEAD_OUTLASTS_S` beyond the question.

    An answer that is cut within its lead is not checked.
    """
    n_lead = len(split_words(answer.lead or ""))
    words = [word for said in answer.utterances if said.kind == "speech" for word in said.words]
    if answer.cut_s is not None and n_lead > len(words):
        return  # cut within its lead
    end_s = words[n_lead - 1].end_s if 0 < n_lead <= len(words) else 0.0
    if end_s < (question.end_s or 0.0) + LEAD_OUTLASTS_S - TIME_TOLERANCE_S:
        found = (
            f"turn {answer.turn_index}: the lead ends at {end_s} s, turn {question.turn_index} at {question.end_s} s"
        )
        yield f"an early start has a lead that outlasts the question by {LEAD_OUTLASTS_S:.0f} s", found


def _check_words(turn: Turn, duration_s: float) -> BrokenRules:
    """Checks that a turn's words are timed, in order and inside their utterance, and utterances inside the audio."""
    where = f"turn {turn.turn_index}"
    for utterance in turn.utterances:
        timed = [word.word for word in utterance.words]
        if timed != split_words(utterance.spoken_text):
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
            yield "words have a duration", where
