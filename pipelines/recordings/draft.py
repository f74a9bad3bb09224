"""A dialogue cut out of a session, before its words have times: what was said as it is spoken, and its clips."""

from pathlib import PurePath
from typing import Final

from data_schemas import ids
from data_schemas.records import (
    Clip,
    Clips,
    Dialogue,
    Item,
    Placement,
    Provenance,
    RecordedSession,
    Turn,
    Utterance,
    WrittenSpan,
)
from data_schemas.records.recording import FRONT_END
from data_schemas.units import seconds_to_samples
from pipelines.audio import Sound, to_flac
from pipelines.mixing.timing import CHANNEL
from pipelines.recordings.cutting import BEFORE_S, Piece, RoughUtterance
from pipelines.script.forms.table import RECORDED
from spoken.reader import read_aloud
from spoken.spoken_text import Spoken, joined

CALLER: Final = "caller"
"""The voice of everybody who called: nobody is told from another."""


def draft_of(item: Item, session: RecordedSession, variant: int, piece: Piece, seed: int) -> Dialogue:
    """The dialogue with its turns in words. All an assistant says is body: nobody planned a lead or a tail.

    Raises:
        Unspeakable: what was heard or said has no sure reading.
    """
    voice = voice_of(session, piece)
    turns = tuple(_turn(index, rough, voice) for index, rough in enumerate(piece.turns))
    return Dialogue.of_item(
        item,
        variant,
        form=RECORDED,
        question=" ".join(turn.written_text for turn in turns if turn.speaker == "B"),
        answer=" ".join(turn.written_text for turn in turns if turn.speaker == "A"),
        turns=turns,
        provenance=_provenance(session, piece, seed),
    )


def _turn(index: int, rough: tuple[RoughUtterance, ...], assistant: str) -> Turn:
    speaker = rough[0].speaker
    spoken = [read_aloud(" ".join(each.text.split())) for each in rough]
    whole = joined(spoken)
    voice = assistant if speaker == "A" else CALLER
    utterances, at = [], 0
    for each in spoken:
        utterances.append(_utterance(each, whole.spans[at : at + each.n_words], voice))
        at += each.n_words
    return Turn(
        turn_index=index,
        speaker=speaker,
        written_text=whole.written,
        spoken_text=whole.text,
        lead=None,
        body=whole.text,
        tail=None,
        answer_word_index=None,
        keyword_delay_s=None,
        cut_s=None,
        start_s=None,
        end_s=None,
        utterances=tuple(utterances),
    )


def _utterance(spoken: Spoken, spans: tuple[tuple[int, int] | None, ...], voice: str) -> Utterance:
    return Utterance(
        kind="speech",
        spoken_text=spoken.text,
        written_spans=tuple(
            WrittenSpan(start_char=span[0] if span else None, end_char=span[1] if span else None) for span in spans
        ),
        placement=Placement(rule=RECORDED, seconds=None, turn_index=None, word_index=None),
        hearing=None,
        voice=voice,
        speed=1.0,
        start_s=None,
        end_s=None,
        words=(),
    )


def voice_of(session: RecordedSession, piece: Piece) -> str:
    """Who speaks for the server: the cascade's voice, or the checkpoint by its name, since where it lay tells nobody
    anything.
    """
    voice = piece.voices[0].voice
    return PurePath(session.checkpoint).name if voice == FRONT_END else voice


def _provenance(session: RecordedSession, piece: Piece, seed: int) -> Provenance:
    """The caller's words are a recogniser's, which is no listener that let speech pass: `asr` stays empty."""
    voice = voice_of(session, piece)
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


def clips_of(dialogue: Dialogue, piece: Piece, sound: Sound) -> Clips:
    """The sound in which each utterance lies, of its speaker's channel."""
    clips = []
    for turn_index, rough in enumerate(piece.turns):
        for utterance_index, each in enumerate(rough):
            start, end = window(piece, each)
            channel = sound[start:end, CHANNEL[each.speaker]]
            clips.append(
                Clip(
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
    return Clips(
        dialogue_id=dialogue.dialogue_id,
        tts=str(provenance.tts),
        tts_digest=str(provenance.tts_digest),
        asr=None,
        asr_digest=None,
        clips=tuple(clips),
    )


def window(piece: Piece, utterance: RoughUtterance) -> tuple[int, int]:
    """Samples [start, end) of the dialogue in which an utterance lies: after what its speaker said before."""
    own = [each for rough in piece.turns for each in rough if each.speaker == utterance.speaker]
    before_s = max((each.end_s for each in own[: own.index(utterance)]), default=0.0)
    start_s = max(utterance.start_s - BEFORE_S[utterance.speaker], before_s, piece.start_s)
    end_s = min(utterance.end_s, piece.end_s)
    return seconds_to_samples(start_s - piece.start_s), seconds_to_samples(end_s - piece.start_s)
