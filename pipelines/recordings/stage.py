"""The stage for recordings: cuts each session into dialogues with word timings, as rows of a data shard.

The stage replaces `mixing`, and its rows are like those of scripted dialogues: a row that `kame check` would reject is
rejected here. Rules for what a script decides do not apply: when the assistant may start, and how soon it stops.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from pathlib import PurePath
from typing import Any, ClassVar, Final

import numpy as np
import soundfile

from backends.aligner.protocol import Aligner
from data_schemas import ids
from data_schemas.arrow import from_table
from data_schemas.config import AlignmentConfig
from data_schemas.errors import StoreError
from data_schemas.fingerprint import dump_relevant_fields, get_versions
from data_schemas.records import (
    Audio,
    AudioDialogue,
    Dialogue,
    DialogueClips,
    DialogueWords,
    Item,
    Placement,
    Provenance,
    RecordedSession,
    Reject,
    Surroundings,
    Turn,
    UtteranceClip,
    WordTiming,
)
from data_schemas.records.recording import FRONT_END
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, round_s, samples_to_seconds, seconds_to_samples
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import Sound, measure_rms_dbfs, to_flac
from pipelines.mixing.timing import CHANNEL, measure_quality
from pipelines.quality.dialogue_rules import check_dialogue
from pipelines.recordings.cutting import BEFORE_S, MOST_S, CutDialogue, RoughUtterance, cut_session
from pipelines.recordings.reading import STAGE, make_session_path
from pipelines.script.forms.table import RECORDED
from pipelines.script.forms.turns import make_user_turn
from pipelines.stage import StageResult, make_reject
from spoken.reader import read_aloud
from spoken.spoken_text import Unspeakable, join_spoken

CALLER: Final = "caller"
"""The voice of all callers, who are not distinguished."""

AS_RECORDED: Final = Placement(rule=RECORDED, seconds=None, turn_index=None, word_index=None)

AROUND_S: Final = 0.15
"""How far, in seconds, an utterance reaches beyond its first and last word: aligners place edges at certain phones."""

LEAST_NOISE_DBFS: Final = -60.0
"""A channel below this level counts as silent, as in `kame check`."""


class RecordingsStage:
    """Reads a session's recording, cuts it, and times its words."""

    name: ClassVar[str] = "mixing"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("items",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = AudioDialogue

    def __init__(self, folder: Store, config: AlignmentConfig, aligner: Aligner, seed: int) -> None:
        """Makes a stage for recordings in a folder; `seed` is for the rows' provenance, nothing is drawn."""
        self.folder, self.config, self.seed = folder, config, seed
        self.alignment = AlignmentStage(config, aligner)

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the rows besides the items, each of which has the digest of its recording."""
        return {
            "stage": STAGE,
            "config": dump_relevant_fields(self.config),
            "alignment": [self.alignment.version, self.alignment.get_fingerprint_fields()],
            "seed": self.seed,
            "made_with": get_versions("soundfile"),
        }

    def run(self, batch: Sequence[tuple[Item]]) -> StageResult[AudioDialogue]:
        """Returns a row for each dialogue of each session, or a reject: of the session, or of the one dialogue."""
        made = [each for (item,) in batch for each in self._make_dialogues(item)]
        return StageResult(
            [each for each in made if isinstance(each, AudioDialogue)],
            [each for each in made if isinstance(each, Reject)],
        )

    def _make_dialogues(self, item: Item) -> Iterator[AudioDialogue | Reject]:
        """Yields a row or a reject for each dialogue of a session, or one reject if its recording cannot be read."""
        try:
            session = self._read(item)
        except StoreError as error:
            yield make_reject(item, STAGE, "not_read", str(error))
            return
        pieces = cut_session(session.heard, session.said, session.voices, session.duration_s)
        with soundfile.SoundFile(io.BytesIO(session.audio.bytes or b"")) as sound:
            for variant, piece in enumerate(pieces):
                yield self._make_dialogue(item, session, variant, piece, sound)

    def _read(self, item: Item) -> RecordedSession:
        """Reads the recording of an item; raises `StoreError` if it is damaged or has changed since it was planned."""
        path = make_session_path(str(item.native_id))
        if self.folder.describe(path).sha256[:16] != item.revision:
            raise StoreError(
                f"{self.folder.resolve_path(path)} has changed since it was first read.", "Give it another name."
            )
        (session,) = from_table(self.folder.read_table(path), RecordedSession)
        return session

    def _make_dialogue(
        self, item: Item, session: RecordedSession, variant: int, piece: CutDialogue, sound: soundfile.SoundFile
    ) -> AudioDialogue | Reject:
        """Returns the row of one dialogue, or a reject if it is not usable or breaks a rule of `kame check`."""
        dialogue_id = ids.make_dialogue_id(item.item_id, variant)

        def reject(reason: str, detail: str) -> Reject:
            return replace(make_reject(item, STAGE, reason, detail), dialogue_id=dialogue_id)

        if not piece.is_exchange:
            return reject("no_exchange", "the assistant says nothing after the caller has spoken")
        if len(piece.voices) > 1:
            return reject("mode_changed", f"the mode changes while somebody speaks, at {piece.voices[1].start_s:.2f} s")
        if piece.end_s - piece.start_s > MOST_S + 1:
            return reject("too_long", f"{piece.end_s - piece.start_s:.0f} s without a place to cut")
        try:
            dialogue = make_draft(item, session, variant, piece, self.seed)
        except Unspeakable as refusal:
            return reject(refusal.reason, refusal.detail)
        cut_out = _read_sound(sound, piece)
        clips = make_clips(dialogue, piece, cut_out)
        aligned = self.alignment.run([(dialogue, clips)])
        if aligned.rejects:
            return reject(aligned.rejects[0].reason, aligned.rejects[0].detail)
        row = make_row(dialogue, piece, aligned.outputs[0], cut_out)
        wrong = next(check_dialogue(row), None)
        return row if wrong is None else reject("not_sound", f"{wrong[0]}: {wrong[1]}")


def _read_sound(sound: soundfile.SoundFile, piece: CutDialogue) -> Sound:
    """Returns the audio of one dialogue, [n_samples, 2]; the rest of the session is not read (700 MB an hour)."""
    start = seconds_to_samples(piece.start_s)
    sound.seek(start)
    cut_out: Sound = sound.read(seconds_to_samples(piece.end_s) - start, dtype="float32", always_2d=True)
    return cut_out


def make_draft(item: Item, session: RecordedSession, variant: int, piece: CutDialogue, seed: int) -> Dialogue:
    """Makes a dialogue of a piece of a session: its turns with their words in spoken form, without times.

    All turns are body alone, without a lead or tail.

    Raises:
        Unspeakable: a transcript has no unambiguous reading.
    """
    voice = get_voice_name(session, piece)
    turns = tuple(_make_turn(index, rough, voice) for index, rough in enumerate(piece.turns))
    return Dialogue.from_item(
        item,
        variant,
        form=RECORDED,
        question=" ".join(turn.written_text for turn in turns if turn.speaker == "B"),
        answer=" ".join(turn.written_text for turn in turns if turn.speaker == "A"),
        turns=turns,
        provenance=_make_provenance(session, piece, seed),
    )


def _make_turn(index: int, rough: tuple[RoughUtterance, ...], assistant: str) -> Turn:
    """Makes a turn of a speaker's utterances; `assistant` is the name of the assistant's voice."""
    speaker = rough[0].speaker
    spoken = [read_aloud(" ".join(each.text.split())) for each in rough]
    starts = [*accumulate(each.n_words for each in spoken)][:-1]
    turn = make_user_turn(index, join_spoken(spoken), pauses=dict.fromkeys(starts, 0.0))
    voice = assistant if speaker == "A" else CALLER
    utterances = tuple(replace(each, placement=AS_RECORDED, voice=voice, speed=1.0) for each in turn.utterances)
    return replace(turn, speaker=speaker, utterances=utterances)


def get_voice_name(session: RecordedSession, piece: CutDialogue) -> str:
    """Returns the name of the assistant's voice: the cascade's voice, or the checkpoint's name without its path."""
    voice = piece.voices[0].voice
    return PurePath(session.checkpoint).name if voice == FRONT_END else voice


def _make_provenance(session: RecordedSession, piece: CutDialogue, seed: int) -> Provenance:
    """Makes the provenance of a dialogue; `asr` is None, since the session's recogniser did not check speech."""
    voice = get_voice_name(session, piece)
    return Provenance(
        script_method=f"recorded, heard by {session.recogniser}",
        tts=f"kame serve, {piece.voices[0].mode}",
        tts_digest=ids.digest("checkpoint" if piece.voices[0].voice == FRONT_END else "voice", voice),
        voice_a=voice,
        voice_b=CALLER,
        asr=None,
        asr_digest=None,
        aligner=None,
        aligner_digest=None,
        seed=seed,
    )


def make_clips(dialogue: Dialogue, piece: CutDialogue, sound: Sound) -> DialogueClips:
    """Cuts out the audio of each utterance, for the aligner; `sound` is the dialogue's, [n_samples, 2]."""
    clips = []
    for turn_index, rough in enumerate(piece.turns):
        for utterance_index, each in enumerate(rough):
            start, end = find_window(piece, each)
            channel = sound[start:end, CHANNEL[each.speaker]]
            clips.append(
                UtteranceClip(
                    turn_index=turn_index,
                    utterance_index=utterance_index,
                    voice=str(dialogue.turns[turn_index].utterances[utterance_index].voice),
                    speed=1.0,
                    n_samples=len(channel),
                    flac=to_flac(channel),
                    words=(),
                    hearing=None,
                )
            )
    provenance = dialogue.provenance
    return DialogueClips(
        dialogue_id=dialogue.dialogue_id,
        tts=str(provenance.tts),
        tts_digest=str(provenance.tts_digest),
        asr=None,
        asr_digest=None,
        clips=tuple(clips),
    )


def find_window(piece: CutDialogue, utterance: RoughUtterance) -> tuple[int, int]:
    """Returns the samples [start, end) of the dialogue that contain an utterance, after its speaker's previous one."""
    own = [each for rough in piece.turns for each in rough if each.speaker == utterance.speaker]
    before_s = max((each.end_s for each in own[: own.index(utterance)]), default=0.0)
    start_s = max(utterance.start_s - BEFORE_S[utterance.speaker], before_s, piece.start_s)
    end_s = min(utterance.end_s, piece.end_s)
    return seconds_to_samples(start_s - piece.start_s), seconds_to_samples(end_s - piece.start_s)


def make_row(dialogue: Dialogue, piece: CutDialogue, words: DialogueWords, sound: Sound) -> AudioDialogue:
    """Makes the row of a data shard of a dialogue and its word timings, and measures its quality.

    Args:
        words: timings from the start of each utterance's window.
        sound: the dialogue's audio, [n_samples, 2].
    """
    found = {(each.turn_index, each.utterance_index): each.words for each in words.utterances}
    turns = tuple(_place_turn(turn, piece, found) for turn in dialogue.turns)
    quality = measure_quality(sound, turns)
    provenance = replace(dialogue.provenance, aligner=words.aligner, aligner_digest=words.aligner_digest)
    kept = {field.name: getattr(dialogue, field.name) for field in fields(Dialogue)}
    return AudioDialogue(
        **{**kept, "turns": turns, "provenance": provenance},
        n_samples=len(sound),
        sample_rate_hz=SAMPLE_RATE_HZ,
        duration_s=round_s(samples_to_seconds(len(sound))),
        quality=quality,
        surroundings=Surroundings(
            level_dbfs=quality.rms_dbfs_b,
            noise_dbfs=_measure_noise_dbfs(sound, turns),
            room_rt60_s=None,
            is_telephone=False,
        ),
        audio=Audio(bytes=to_flac(sound), path=f"{dialogue.dialogue_id}.flac"),
    )


def _place_turn(turn: Turn, piece: CutDialogue, found: dict[tuple[int, int], tuple[WordTiming, ...]]) -> Turn:
    """Returns a turn with the times of its words on the dialogue's clock; its utterances reach `AROUND_S` beyond them.

    `found` has the word timings from the start of an utterance's window, by the indices of its turn and itself.
    """
    utterances = []
    for index, utterance in enumerate(turn.utterances):
        start, end = find_window(piece, piece.turns[turn.turn_index][index])
        offset_s, end_s = samples_to_seconds(start), samples_to_seconds(end)
        words = tuple(
            replace(word, start_s=round_s(offset_s + word.start_s), end_s=round_s(offset_s + word.end_s))
            for word in found[turn.turn_index, index]
        )
        utterances.append(
            replace(
                utterance,
                words=words,
                start_s=round_s(max(offset_s, words[0].start_s - AROUND_S)),
                end_s=round_s(min(end_s, words[-1].end_s + AROUND_S)),
            )
        )
    return replace(turn, utterances=tuple(utterances), start_s=utterances[0].start_s, end_s=utterances[-1].end_s)


def _measure_noise_dbfs(sound: Sound, turns: Sequence[Turn]) -> float | None:
    """Returns the level of the caller's channel outside their utterances; None if it is silent or there is no pause."""
    is_quiet = np.ones(len(sound), np.bool_)
    for turn in turns:
        for each in turn.utterances if turn.speaker == "B" else ():
            is_quiet[seconds_to_samples(each.start_s or 0.0) : seconds_to_samples(each.end_s or 0.0)] = False
    if not is_quiet.any():
        return None
    level_dbfs = measure_rms_dbfs(sound[is_quiet, CHANNEL["B"]])
    return level_dbfs if level_dbfs > LEAST_NOISE_DBFS else None
