"""`tokens.json`: what a folder of token rows holds and what made it. Written last; what it does not list, is not."""

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
"""Version of how sound becomes codes; raising it makes everything anew."""
ROWS_VERSION = 2
"""Version of the rows' form and of how they are made; raising it makes all rows anew, and leaves their codes."""


class MadeWith(Config):
    """What all rows of a folder share: nothing of another codec or tokenizer goes beside them."""

    codec: str = Field(description="The codec's name.")
    codec_digest: str
    layout: CodeLayout = Field(description="How the codes are read and said.")
    tokenizer_digest: str
    text_card: int = Field(description="Size of the vocabulary; the oracle's start id and the text's initial one.")

    @classmethod
    def of(cls, codec: Codec, tokenizer: Tokenizer) -> Self:
        """What a codec and a tokenizer give to all rows."""
        return cls(
            codec=codec.name,
            codec_digest=codec.digest,
            layout=codec.layout,
            tokenizer_digest=tokenizer.digest,
            text_card=tokenizer.text_card,
        )


class Counts(Config):
    """Sums over rows, and what was left out of them."""

    n_rows: int = 0
    n_frames: int = 0
    n_events: int = 0
    n_flagged: int = Field(default=0, description="Dialogues left out because somebody flagged them.")
    n_failed_events: int = Field(default=0, description="Oracle events left out because nobody answered.")
    n_late_events: int = Field(default=0, description="Oracle events left out because they come after the last frame.")
    n_without_oracles: int = Field(default=0, description="Rows whose dialogue has no oracles in this version.")
    n_moved_tokens: int = Field(default=0, description="Text tokens that came later, their frame being taken.")
    n_cut_tokens: int = Field(default=0, description="Text tokens for which a dialogue had no frame left at its end.")

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class TokenFile(Config):
    """One file, whole: its path in the folder, rows, bytes and checksum."""

    path: str
    n_rows: int
    n_bytes: int
    sha256: str


class TokenShard(Config):
    """The files made of one data shard: its sound as codes, and all the rest of its rows."""

    data_path: str
    source: str
    split: str
    codes: TokenFile
    rows: TokenFile
    counts: Counts


class TokenManifest(Config):
    """The whole folder; `fingerprint` stands for all files' content."""

    rows_version: int = ROWS_VERSION
    fingerprint: str
    made_with: MadeWith
    dataset_fingerprint: str = Field(description="The dataset that the rows were made from.")
    oracle_version: str
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Where the codec was found, for an export; not part of the fingerprint."
    )
    licences: dict[str, str | None] | None = Field(
        default=None,
        description="Licences of what the rows were made from, by part; null: not known. Not part of the fingerprint.",
    )
    counts: Counts
    shards: list[TokenShard]


def make_manifest(
    shards: list[TokenShard],
    by: MadeWith,
    dataset_fingerprint: str,
    oracle_version: str,
    codec_options: Mapping[str, str | int | float | bool] | None = None,
    licences: Mapping[str, str | None] | None = None,
) -> TokenManifest:
    """A manifest with its fingerprint and sums, its shards in order of their data's paths."""
    ordered = sorted(shards, key=lambda each: each.data_path)
    files = [[each.codes.sha256, each.rows.sha256] for each in ordered]
    return TokenManifest(
        fingerprint=ids.digest("tokens", ROWS_VERSION, by.model_dump(), files),
        made_with=by,
        dataset_fingerprint=dataset_fingerprint,
        oracle_version=oracle_version,
        codec_options=dict(codec_options or {}),
        licences=None if licences is None else dict(licences),
        counts=sum((each.counts for each in ordered), Counts()),
        shards=ordered,
    )


def read_manifest(store: Store) -> TokenManifest:
    """The manifest of a folder of token rows.

    Raises:
        DatasetError: there is none, it is damaged, or it is of another version.
    """
    if not store.exists(MANIFEST):
        raise DatasetError(f"{store.root} holds no token rows: it has no {MANIFEST}.", "Make them with `kame encode`.")
    raw = store.read_bytes(MANIFEST)
    try:
        version = json.loads(raw).get("rows_version")
        if isinstance(version, int) and version != ROWS_VERSION:
            newer = version > ROWS_VERSION
            raise DatasetError(
                f"{store.root} has token rows of version {version}; this program reads {ROWS_VERSION}.",
                "Update kame-pipeline." if newer else "Run `kame encode` with the same options again.",
            )
        return TokenManifest.model_validate_json(raw)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DatasetError(
            f"{MANIFEST} of {store.root} is damaged: {str(error).splitlines()[0]}.",
            "Remove that file and run `kame encode` again; what stands is not made twice.",
        ) from error
