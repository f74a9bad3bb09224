"""`tokens.json`: the manifest of a folder of token rows. It is written last; files not listed in it are ignored."""

import json
from collections.abc import Mapping
from typing import Self

from pydantic import Field, ValidationError

from backends.codec.protocol import Codec
from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.config.base import Config
from data_schemas.errors import DatasetError
from data_schemas.store import Store
from kame_model.text.tokenizer import Tokenizer

MANIFEST = "tokens.json"
CODES_VERSION = 1
"""Version of the encoding of audio; raising it makes all files again."""
ROWS_VERSION = 2
"""Version of the rows' format and of how they are made; raising it makes all rows again, but keeps their codes."""


class MadeWith(Config):
    """Settings that all rows of a folder share; rows of another codec or tokenizer are not added."""

    codec: str = Field(description="Name of the codec.")
    codec_digest: str
    layout: CodeLayout = Field(description="Layout of the codes.")
    tokenizer_digest: str
    text_card: int = Field(description="Size of the vocabulary; also the oracle's start id and the text's initial id.")

    @classmethod
    def from_codec(cls, codec: Codec, tokenizer: Tokenizer) -> Self:
        """Makes the settings from a codec and a tokenizer."""
        return cls(
            codec=codec.name,
            codec_digest=codec.digest,
            layout=codec.layout,
            tokenizer_digest=tokenizer.digest,
            text_card=tokenizer.text_card,
        )


class RowCounts(Config):
    """Sums over rows, and counts of what was excluded from them."""

    n_rows: int = 0
    n_frames: int = 0
    n_events: int = 0
    n_flagged: int = Field(default=0, description="Dialogues excluded because they are flagged.")
    n_failed_events: int = Field(default=0, description="Oracle events excluded because their request failed.")
    n_late_events: int = Field(default=0, description="Oracle events excluded because they come after the last frame.")
    n_without_oracles: int = Field(default=0, description="Rows of dialogues without oracles in this version.")
    n_moved_tokens: int = Field(default=0, description="Text tokens moved because their frame was taken.")
    n_cut_tokens: int = Field(default=0, description="Text tokens dropped because no frame was left for them.")

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class TokenFile(Config):
    """A complete file: its path in the folder, number of rows, size and checksum."""

    path: str
    n_rows: int
    n_bytes: int
    sha256: str


class TokenShard(Config):
    """The two files made from a data shard: the codes of its audio, and the rest of its rows."""

    data_path: str
    source: str
    split: str
    codes: TokenFile
    rows: TokenFile
    counts: RowCounts


class TokenManifest(Config):
    """The manifest of a folder; `fingerprint` is a hash of the content of all files."""

    rows_version: int = ROWS_VERSION
    fingerprint: str
    made_with: MadeWith
    dataset_fingerprint: str = Field(description="The dataset that the rows were made from.")
    oracle_version: str
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the codec, for exports; not part of the fingerprint."
    )
    licences: dict[str, str | None] | None = Field(
        default=None,
        description="Licences of the rows' sources by part; null: unknown. Not part of the fingerprint.",
    )
    counts: RowCounts
    shards: list[TokenShard]


def make_manifest(
    shards: list[TokenShard],
    by: MadeWith,
    dataset_fingerprint: str,
    oracle_version: str,
    codec_options: Mapping[str, str | int | float | bool] | None = None,
    licences: Mapping[str, str | None] | None = None,
) -> TokenManifest:
    """Makes a manifest with its fingerprint and sums; shards are sorted by the paths of their data files."""
    ordered = sorted(shards, key=lambda each: each.data_path)
    files = [[each.codes.sha256, each.rows.sha256] for each in ordered]
    return TokenManifest(
        fingerprint=ids.digest("tokens", ROWS_VERSION, by.model_dump(), files),
        made_with=by,
        dataset_fingerprint=dataset_fingerprint,
        oracle_version=oracle_version,
        codec_options=dict(codec_options or {}),
        licences=None if licences is None else dict(licences),
        counts=sum((each.counts for each in ordered), RowCounts()),
        shards=ordered,
    )


def read_manifest(store: Store) -> TokenManifest:
    """Reads the manifest of a folder of token rows.

    Raises:
        DatasetError: there is none, it is damaged, or it has another version.
        StoreError: the file cannot be read.
    """
    if not store.exists(MANIFEST):
        raise DatasetError(f"{store.root} holds no token rows: {MANIFEST} is missing.", "Make them with `kame encode`.")
    raw = store.read_bytes(MANIFEST)
    try:
        version = json.loads(raw).get("rows_version")
        if isinstance(version, int) and version != ROWS_VERSION:
            newer = version > ROWS_VERSION
            raise DatasetError(
                f"{store.root} has token rows of version {version}; this version of kame reads {ROWS_VERSION}.",
                "Update kame-pipeline." if newer else "Remove the folder and run `kame encode` again.",
            )
        return TokenManifest.model_validate_json(raw)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DatasetError(
            f"{MANIFEST} of {store.root} is damaged: {str(error).splitlines()[0]}.",
            "Remove that file and run `kame encode` again; complete files are reused.",
        ) from error
