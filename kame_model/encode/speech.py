"""Writes single utterances of the assistant's voice as token rows, part by part, for `kame speech`.

    OUT/tokens.json                          manifest, written last; with codes/ and rows/ as `kame encode` has them
    OUT/speech.json                          settings of the rows, written first; all rows must share them
    OUT/tokenizer.model   OUT/codec/         the vocabulary; the codec, if it was learnt from this voice
    OUT/parts/<number>.parquet               some sentences as they were said: text, word times, codes, but no audio
    OUT/rejects/<number>.parquet             rejected sentences of the same part with reasons

A part is written once, after its rejects. `PARTS_A_SHARD` parts make a shard, which is named by their content: new
parts make new shards, and only the last shard, if it was not full, is made again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from backends.options import OptionValue
from data_schemas import ids
from data_schemas.arrow import from_table, to_table
from data_schemas.config.base import Config
from data_schemas.fingerprint import compute_fingerprint
from data_schemas.records import Reject, SpokenSentence
from data_schemas.store import Store
from data_schemas.units import FRAME_N_SAMPLES, FRAMES_PER_S, seconds_to_samples
from kame_model.encode.audio import encode_voices, use_one_thread
from kame_model.encode.dialogue import SPEECH, make_utterance_row
from kame_model.encode.folder import find_record, remove_superseded, write_record
from kame_model.encode.manifest import (
    CODES_VERSION,
    MANIFEST,
    ROWS_VERSION,
    MadeWith,
    RowCounts,
    TokenFile,
    TokenManifest,
    TokenShard,
    make_manifest,
)
from kame_model.encode.rows import to_ragged, write_codes, write_rows
from kame_model.encode.run import resolve_codec_options
from kame_model.text.tokenizer import Tokenizer

FACTS: Final = "speech.json"
PARTS_A_SHARD: Final = 32
"""About an hour of speech; training keeps two files a shard open."""

NO_ORACLES: Final = "none"
_N_FRAMES, _CODES = "n_frames", "codes"


class SpeechFacts(Config):
    """Settings that all parts of a folder share."""

    sentences: str
    """Digest of the corpus and of how sentences, speeds and silences are sampled."""
    voice: str
    speech: str
    """Digest of the text reader, text-to-speech, quality checks and aligner."""
    codec: str
    tokenizer: str


def get_part_path(number: int) -> str:
    """Returns the path of a part in its folder of token rows; its rejects have the same name in `rejects/`."""
    return f"parts/{number:05d}.parquet"


def add_silence(sound: Samples, before_s: float, after_s: float) -> Samples:
    """Returns the audio of an utterance with silence before and after it, as in its token row."""
    return np.pad(sound, (seconds_to_samples(before_s), seconds_to_samples(after_s)))


def write_part(
    store: Store,
    number: int,
    said: Sequence[tuple[SpokenSentence, Samples]],
    rejects: Sequence[Reject],
    codec: Codec,
) -> float:
    """Writes a part, completely or not at all, and returns the duration of its rows in seconds.

    Args:
        said: each sentence with its audio, including the silence around it.

    Raises:
        BackendError: the codec returned codes of a wrong shape or range.
        StoreError: the part cannot be written.
    """
    sentences = [sentence for sentence, _ in said]
    with use_one_thread():
        codes = encode_voices(codec, [sound for _, sound in said], [each.sentence_id for each in sentences])
    table = to_table(sentences, SpokenSentence)
    table = table.append_column(_N_FRAMES, pa.array((each.shape[1] for each in codes), pa.int32()))
    table = table.append_column(_CODES, to_ragged(codes, np.int16))  # Parquet packs them into as few bits as possible
    with store.open_batch() as batch:
        batch.write_table(get_part_path(number).replace("parts", "rejects"), to_table(list(rejects), Reject))
        batch.write_table(get_part_path(number), table)
    return _compute_duration_s(table)


def read_part_duration_s(store: Store, number: int) -> float | None:
    """Returns the duration of a part's rows in seconds; None if the part does not exist.

    Raises:
        StoreError: the part is damaged.
    """
    path = get_part_path(number)
    return _compute_duration_s(store.read_table(path, [_N_FRAMES])) if store.exists(path) else None


def count_rejects(store: Store, n_parts: int) -> Counter[str]:
    """Counts the rejected sentences of the first `n_parts` parts by reason.

    Raises:
        StoreError: the file of a part's rejects is missing or damaged.
    """
    reasons: Counter[str] = Counter()
    for number in range(n_parts):
        table = store.read_table(get_part_path(number).replace("parts", "rejects"), ["reason"])
        reasons.update(table["reason"].to_pylist())
    return reasons


def compact_parts(
    store: Store,
    n_parts: int,
    facts: SpeechFacts,
    codec: Codec,
    codec_options: Mapping[str, OptionValue],
    tokenizer: Tokenizer,
    before_s: float,
    licences: Mapping[str, str | None],
) -> TokenManifest:
    """Combines the first `n_parts` parts into shards of token rows, and writes the manifest.

    Complete shards are reused; files that the manifest does not list are removed.

    Args:
        before_s: silence before each utterance in its audio, seconds.
        licences: licences of the sentences and the voice, by name.

    Raises:
        StoreError: a part is damaged, or a file cannot be written.
    """
    by, shards = MadeWith.from_codec(codec, tokenizer), []
    for first in range(0, n_parts, PARTS_A_SHARD):
        numbers = range(first, min(first + PARTS_A_SHARD, n_parts))
        inputs = [store.describe(get_part_path(number)).sha256 for number in numbers]
        for split in ("train", "validation"):
            shard = _Shard(store, numbers, inputs, split, by)
            if made := shard.find() or shard.make(codec, tokenizer, before_s):
                shards.append(made)
    options = resolve_codec_options(codec_options)
    manifest = make_manifest(shards, by, ids.digest(facts.model_dump()), NO_ORACLES, options, licences)
    store.write_bytes(MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    remove_superseded(store, manifest)
    return manifest


class _Shard:
    """The rows of some parts that belong to one split, and their files."""

    def __init__(self, store: Store, numbers: Sequence[int], inputs: list[str], split: str, by: MadeWith) -> None:
        self._store, self._numbers, self._split = store, numbers, split
        codes_print = compute_fingerprint("codes", CODES_VERSION, {"codec": by.codec_digest, "split": split}, inputs)
        rows_print = compute_fingerprint("rows", ROWS_VERSION, {"tokenizer": by.tokenizer_digest}, [codes_print])
        self._codes_path = f"codes/{split}-{SPEECH}-{codes_print}.arrow"
        self._rows_path = f"rows/{split}-{SPEECH}-{rows_print}.arrow"

    def find(self) -> TokenShard | None:
        """Returns its entry for the manifest if both files are complete, else None."""
        codes, rows = (find_record(self._store, path) for path in (self._codes_path, self._rows_path))
        return None if codes is None or rows is None else self._describe(codes.file, rows.file, rows.counts)

    def make(self, codec: Codec, tokenizer: Tokenizer, before_s: float) -> TokenShard | None:
        """Writes its files and returns its entry for the manifest; None if the parts have no row of the split."""
        said = [each for number in self._numbers for each in self._read(number, codec.n_codebooks)]
        if not said:
            return None
        longest = max(codes.shape[1] for _, codes in said)
        with use_one_thread():
            (silence,) = codec.encode([np.zeros(longest * FRAME_N_SAMPLES, np.float32)])
        made = [make_utterance_row(*each, silence, before_s, tokenizer) for each in said]
        rows, counts = [row for row, _ in made], sum((counted for _, counted in made), RowCounts())
        names, codes = [row.dialogue_id for row in rows], [(row.a.codes, row.b.codes) for row in rows]
        codes_written = write_codes(self._store, self._codes_path, names, codes)
        codes_file = write_record(self._store, codes_written, len(rows), RowCounts()).file
        written = write_rows(self._store, self._rows_path, rows, range(len(rows)))
        return self._describe(codes_file, write_record(self._store, written, len(rows), counts).file, counts)

    def _read(self, number: int, n_codebooks: int) -> list[tuple[SpokenSentence, Codes]]:
        """Returns the sentences of a part that belong to the shard's split, each with its codes."""
        table = self._store.read_table(get_part_path(number))
        codes = [np.asarray(each, np.int16).reshape(n_codebooks, -1) for each in table[_CODES].to_pylist()]
        both = zip(from_table(table, SpokenSentence), codes, strict=True)
        return [(sentence, each) for sentence, each in both if sentence.split == self._split]

    def _describe(self, codes: TokenFile, rows: TokenFile, counts: RowCounts) -> TokenShard:
        """Makes the entry of the shard for the manifest."""
        numbers = f"parts/{self._numbers[0]:05d}-{self._numbers[-1]:05d}-{self._split}"
        return TokenShard(data_path=numbers, source=SPEECH, split=self._split, codes=codes, rows=rows, counts=counts)


def _compute_duration_s(part: pa.Table) -> float:
    """Returns the total duration of a part's rows in seconds, from their numbers of frames."""
    return float(sum(part[_N_FRAMES].to_pylist())) / FRAMES_PER_S
