"""Recordings to rows of a data shard: each session cut into dialogues, every spoken word with its time.

The stage stands in the place of `mixing`, and its rows are like those of dialogues that were written: what `kame check`
would find wrong with one is not let in. Only what a script decides is not asked of it, because nobody wrote one: when
the assistant may start, and how soon it falls silent.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import soundfile

from backends.aligner.protocol import Aligner
from data_schemas import ids
from data_schemas.arrow import from_table
from data_schemas.config import AlignmentConfig
from data_schemas.errors import StoreError
from data_schemas.fingerprint import versions, what_matters
from data_schemas.records import AudioDialogue, Item, RecordedSession, Reject
from data_schemas.store import Store
from data_schemas.units import seconds_to_samples
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import Sound
from pipelines.quality.dialogue_rules import wrong_in_dialogue
from pipelines.recordings.cutting import MOST_S, Piece, cut
from pipelines.recordings.draft import clips_of, draft_of
from pipelines.recordings.reading import STAGE, path_of
from pipelines.recordings.row import row_of
from pipelines.stage import StageResult, refused
from spoken.spoken_text import Unspeakable


class RecordingsStage:
    """Reads a session's recording, cuts it, and times its words."""

    name: ClassVar[str] = "mixing"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("items",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = AudioDialogue

    def __init__(self, folder: Store, config: AlignmentConfig, aligner: Aligner, seed: int) -> None:
        """A stage for recordings in a folder; `seed` stands in the rows' provenance, nothing is drawn."""
        self.folder, self.config, self.seed = folder, config, seed
        self.alignment = AlignmentStage(config, aligner)

    def matters(self) -> dict[str, Any]:
        """What tells apart and times the words; each item says what stands for its recording."""
        return {
            "stage": STAGE,
            "config": what_matters(self.config),
            "alignment": [self.alignment.version, self.alignment.matters()],
            "seed": self.seed,
            "made_with": versions("soundfile"),
        }

    def run(self, batch: Sequence[tuple[Item]]) -> StageResult[AudioDialogue]:
        """A row for each dialogue of each session, or a reject: of the session, or of the one dialogue."""
        result: StageResult[AudioDialogue] = StageResult([], [])
        for (item,) in batch:
            for each in self._dialogues(item):
                if isinstance(each, AudioDialogue):
                    result.outputs.append(each)
                else:
                    result.rejects.append(each)
        return result

    def _dialogues(self, item: Item) -> Iterator[AudioDialogue | Reject]:
        try:
            session = self._read(item)
        except StoreError as error:
            yield refused(item, STAGE, "not_read", str(error))
            return
        pieces = cut(session.heard, session.said, session.voices, session.duration_s)
        with soundfile.SoundFile(io.BytesIO(session.audio.bytes or b"")) as sound:
            for variant, piece in enumerate(pieces):
                yield self._dialogue(item, session, variant, piece, sound)

    def _read(self, item: Item) -> RecordedSession:
        path = path_of(str(item.native_id))
        if self.folder.describe(path).sha256[:16] != item.revision:
            raise StoreError(f"{self.folder.at(path)} has changed since it was first read.", "Give it another name.")
        (session,) = from_table(self.folder.read_table(path), RecordedSession)
        return session

    def _dialogue(
        self, item: Item, session: RecordedSession, variant: int, piece: Piece, sound: soundfile.SoundFile
    ) -> AudioDialogue | Reject:
        dialogue_id = ids.dialogue_id(item.item_id, variant)

        def reject(reason: str, detail: str) -> Reject:
            return Reject(
                item_id=item.item_id,
                dialogue_id=dialogue_id,
                source=item.source,
                stage=STAGE,
                reason=reason,
                detail=detail[:500],
            )

        if not piece.is_exchange:
            return reject("no_exchange", "the assistant says nothing after the caller has spoken")
        if len(piece.voices) > 1:
            return reject("mode_changed", f"the mode changes while somebody speaks, at {piece.voices[1].start_s:.2f} s")
        if piece.end_s - piece.start_s > MOST_S + 1:
            return reject("too_long", f"{piece.end_s - piece.start_s:.0f} s without a place to cut")
        try:
            dialogue = draft_of(item, session, variant, piece, self.seed)
        except Unspeakable as refusal:
            return reject(refusal.reason, refusal.detail)
        cut_out = _read_sound(sound, piece)
        clips = clips_of(dialogue, piece, cut_out)
        aligned = self.alignment.run([(dialogue, clips)])
        if aligned.rejects:
            return reject(aligned.rejects[0].reason, aligned.rejects[0].detail)
        row = row_of(dialogue, piece, aligned.outputs[0], cut_out)
        wrong = next(wrong_in_dialogue(row), None)
        return row if wrong is None else reject("not_sound", f"{wrong[0]}: {wrong[1]}")


def _read_sound(sound: soundfile.SoundFile, piece: Piece) -> Sound:
    """The sound of a dialogue alone: an hour of a session would be 700 MB."""
    start = seconds_to_samples(piece.start_s)
    sound.seek(start)
    cut_out: Sound = sound.read(seconds_to_samples(piece.end_s) - start, dtype="float32", always_2d=True)
    return cut_out
