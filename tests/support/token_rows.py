"""Token rows for tests: dialogues with words at given times, vocabularies piece by piece, and folders of rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from data_schemas.code_layout import CodeLayout
from data_schemas.records import AudioDialogue, OracleEvent, OracleRow, Quality, Surroundings, Turn, WordTiming
from data_schemas.store import Store
from kame_model.encode.folder import write_record
from kame_model.encode.manifest import MANIFEST, MadeWith, RowCounts, TokenShard, make_manifest
from kame_model.encode.rows import TokenRow, write_codes, write_rows
from kame_model.encode.token_dataset import TokenDataset
from kame_model.text.tokenizer import Tokenizer
from tests.support.builders import make_dialogue, make_turn, make_utterance

QUALITY = Quality(
    rms_dbfs_a=-27.0,
    rms_dbfs_b=-27.0,
    peak_dbfs=-3.0,
    mean_word_score=-1.0,
    wer=None,
    number_recall=None,
    name_recall=None,
)
SURROUNDINGS = Surroundings(level_dbfs=-27.0, noise_dbfs=None, room_rt60_s=None, is_telephone=False)
MADE_WITH = MadeWith(
    codec="made", codec_digest="c", layout=CodeLayout.make_mimi(8, 2048), tokenizer_digest="t", text_card=16
)


def vocabulary_of(pieces: Sequence[str], path: Path) -> Tokenizer:
    """Writes a vocabulary to a file and loads it; ids are the positions of pieces, and longer pieces are preferred."""
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    kinds = {"<unk>": 2, "<end-of-padding>": 3, "<s>": 3, "<pad>": 3}
    for piece in pieces:
        proto.pieces.add(piece=piece, score=-1.0, type=kinds.get(piece, 1))
    proto.trainer_spec.model_type = 1  # unigram: the fewest pieces, where all have one score
    proto.trainer_spec.vocab_size = len(pieces)
    proto.trainer_spec.eos_id, proto.trainer_spec.bos_id, proto.trainer_spec.unk_id = 0, 1, 2
    proto.trainer_spec.pad_id = 3
    proto.trainer_spec.eos_piece = "<end-of-padding>"
    proto.normalizer_spec.name = "identity"
    path.write_bytes(proto.SerializeToString())
    return Tokenizer(path)


def timed(*words: tuple[str, float, float]) -> list[WordTiming]:
    """Words with their start and end in seconds."""
    return [WordTiming(word=word, start_s=start, end_s=end, score=0.0, method="made") for word, start, end in words]


def said_turn(index: int, speaker: str, text: str, *words: tuple[str, float, float], **fields: Any) -> Turn:
    """A turn of one utterance."""
    return make_turn(index, speaker, [make_utterance(text, timed(*words))], **fields)


def audio_dialogue(*turns: Turn, duration_s: float = 1.2, **fields: Any) -> AudioDialogue:
    """A data shard's row without its sound."""
    dialogue = make_dialogue(*turns, **fields)
    own = {name: getattr(dialogue, name) for name in type(dialogue).__slots__}
    return AudioDialogue(
        **own,
        n_samples=round(duration_s * 24_000),
        sample_rate_hz=24_000,
        duration_s=duration_s,
        quality=QUALITY,
        surroundings=SURROUNDINGS,
        audio=None,
    )


def event(number: int, **fields: Any) -> OracleEvent:
    """Makes an event for the assistant's words, level 0, in the first turn; `fields` need `t_s`, `r` and `text`."""
    values: dict[str, Any] = {
        "event_id": f"e{number}",
        "turn_index": 0,
        "n_words_heard": 1,
        "n_words": 2,
        "level": 0,
        "status": "answered",
        "raw_text": None,
        "request_id": None,
        "attempt": None,
        "answered_by": None,
        "system_fingerprint": None,
        "taken_from": None,
        "error": None,
    }
    return OracleEvent(**values | fields)


def oracle_row(*events: OracleEvent) -> OracleRow:
    """Makes the row of a dialogue `mine-1-v0` with these events; they were written by no model."""
    return OracleRow(
        dialogue_id="mine-1-v0",
        split="train",
        source="mine",
        oracle_version="default",
        simulator="random",
        endpoint=None,
        model=None,
        model_digest=None,
        prompt_version="none",
        prompt_digest="none",
        interval_s=0.5,
        level_bounds=(0.5, 0.65, 0.8, 0.95),
        max_requests_per_turn=8,
        both_directions=False,
        max_tokens=60,
        temperature=0.0,
        max_asks=1,
        max_words=30,
        min_words=1,
        share_from=0.0,
        share_to=1.0,
        seed=0,
        events=events,
    )


def write_token_rows(
    folder: Path, *shards: Sequence[TokenRow], made_with: MadeWith = MADE_WITH, data_paths: Sequence[str] = ()
) -> TokenDataset:
    """Writes a folder of token rows as `kame encode` does, with a shard for each list of rows, and opens it.

    Args:
        data_paths: path of the data file of each shard; if empty, they have the names of the shards.
    """
    store, entries = Store(str(folder)), []
    for number, rows in enumerate(shards):
        name = f"{rows[0].split}-{rows[0].source}-{number:016x}.arrow"
        written = write_codes(
            store, f"codes/{name}", [row.dialogue_id for row in rows], [(row.a.codes, row.b.codes) for row in rows]
        )
        codes = write_record(store, written, len(rows), RowCounts())
        written = write_rows(store, f"rows/{name}", rows, range(len(rows)))
        counts = RowCounts(n_rows=len(rows), n_frames=sum(row.n_frames for row in rows))
        kept = write_record(store, written, len(rows), counts)
        entries.append(
            TokenShard(
                data_path=data_paths[number] if data_paths else f"data/{name}",
                source=rows[0].source,
                split=rows[0].split,
                codes=codes.file,
                rows=kept.file,
                counts=counts,
            )
        )
    manifest = make_manifest(entries, made_with, "made", "default")
    store.write_bytes(MANIFEST, manifest.model_dump_json().encode())
    return TokenDataset(str(folder))
