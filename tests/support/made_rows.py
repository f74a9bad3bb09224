"""Token rows made up from a seed, in the form of real ones: for benchmarks and tests of training, without any sound.

A user asks in random words; events tell random words until all is heard, then the answer; the assistant says it. Codes
are a hash of the word that is being said, so that there is something to learn.
"""

import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.store import Store
from kame_model.encode.manifest import (
    MANIFEST,
    MadeWith,
    RowCounts,
    TokenFile,
    TokenManifest,
    TokenShard,
    make_manifest,
)
from kame_model.encode.rows import SpeakerTokens, TokenRow, write_codes, write_rows
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleTokens

TICK_FRAMES = 6
SILENCE = 1
"""The code of silence, in every codebook."""


def made_with(text_card: int = 200, card: int = 32, n_codebooks: int = 4, tokenizer_digest: str = "made") -> MadeWith:
    """Returns the facts of a made-up vocabulary and a made-up codec."""
    return MadeWith(
        codec="made",
        codec_digest="made",
        layout=CodeLayout.make_mimi(n_codebooks, card),
        tokenizer_digest=tokenizer_digest,
        text_card=text_card,
    )


def make_row(number: int, split: str, by: MadeWith, n_words: tuple[int, int] = (4, 12)) -> TokenRow:
    """Makes a dialogue: B asks, events come while B asks, and A answers.

    Args:
        number: seed of everything in it.
        n_words: least and greatest number of words of the question, and of the answer.
    """
    draw = random.Random(ids.derive_seed("made-row", number))
    words = [_drawn_words(draw, by, n_words) for _ in range(2)]
    asked = _placed(words[0], draw.randint(2, 8), draw)
    heard = asked[-1][0] + 5
    answered = _placed(words[1], heard + draw.randint(4, 9), draw)
    n_frames = answered[-1][0] + 8
    a, b = _text(answered, n_frames), _text(asked, n_frames)
    answer_mask = np.zeros(n_frames, np.bool_)
    answer_mask[answered[1][0] :] = a[answered[1][0] :] > PADDING_ID
    nothing = OracleTokens.pack([], [], [], [], [], [])
    return TokenRow(
        dialogue_id=f"made-{number}-v0",
        item_id=f"made-{number}",
        source="made",
        split=split,
        form="plain",
        question=" ".join(map(str, words[0])),
        answer=" ".join(map(str, words[1])),
        n_frames=n_frames,
        duration_s=n_frames * 0.08,
        a=SpeakerTokens(a, _codes(answered, n_frames, by), _oracle(words[1], asked, heard, by, draw), answer_mask),
        b=SpeakerTokens(b, _codes(asked, n_frames, by), nothing, np.zeros(n_frames, np.bool_)),
    )


def write_made(
    folder: Path, n_train: int, n_validation: int, by: MadeWith, n_words: tuple[int, int] = (4, 12)
) -> TokenManifest:
    """Writes a folder of made-up token rows with a shard for each split, and returns its manifest."""
    store = Store(str(folder))
    shards, number = [], 0
    for split, n_rows in (("train", n_train), ("validation", n_validation)):
        rows = [make_row(number + at, split, by, n_words) for at in range(n_rows)]
        number += n_rows
        written = (
            write_codes(
                store,
                f"codes/{split}.arrow",
                [row.dialogue_id for row in rows],
                [(row.a.codes, row.b.codes) for row in rows],
            ),
            write_rows(store, f"rows/{split}.arrow", rows, range(n_rows)),
        )
        files = [TokenFile(path=each.path, n_rows=n_rows, n_bytes=each.n_bytes, sha256=each.sha256) for each in written]
        counts = RowCounts(n_rows=n_rows, n_frames=sum(row.n_frames for row in rows))
        shards.append(
            TokenShard(
                data_path=f"data/{split}", source="made", split=split, codes=files[0], rows=files[1], counts=counts
            )
        )
    manifest = make_manifest(shards, by, dataset_fingerprint="made", oracle_version="v1")
    store.write_bytes(MANIFEST, manifest.model_dump_json(indent=1).encode())
    return manifest


_Placed = list[tuple[int, int]]
"""Frames of words and the words, each one token."""


def _drawn_words(draw: random.Random, by: MadeWith, n_words: tuple[int, int]) -> list[int]:
    return [draw.randrange(PADDING_ID + 1, by.text_card) for _ in range(draw.randint(*n_words))]


def _placed(words: list[int], first: int, draw: random.Random) -> _Placed:
    """Places words on frames, the first one on frame `first`, and each 2 to 5 frames after the one before."""
    placed, frame = [], first
    for word in words:
        placed.append((frame, word))
        frame += draw.randint(2, 5)
    return placed


def _text(placed: _Placed, n_frames: int) -> NDArray[np.int32]:
    """Returns a text stream with each word on its frame, and the end of padding on the frame before it."""
    text = np.full(n_frames, PADDING_ID, np.int32)
    for frame, word in placed:
        text[frame - 1 : frame + 1] = END_OF_PADDING_ID, word
    return text


def _codes(placed: _Placed, n_frames: int, by: MadeWith) -> NDArray[np.int16]:
    """Returns codes that are silence, but for the three frames from each word on, which have a hash of the word."""
    codes = np.full((by.layout.n_codebooks, n_frames), SILENCE, np.int16)
    for frame, word in placed:
        for codebook in range(by.layout.n_codebooks):
            codes[codebook, frame : frame + 3] = ids.derive_seed("code", word, codebook) % by.layout.card
    return codes


def _oracle(answer: list[int], asked: _Placed, heard: int, by: MadeWith, draw: random.Random) -> OracleTokens:
    """Makes events every `TICK_FRAMES` from the second word of the question on, and the answer at frame `heard`."""
    ticks = [*range(asked[1][0], heard, TICK_FRAMES), heard]
    ratios = [*(sum(frame <= tick for frame, _ in asked) / len(asked) * 0.99 for tick in ticks[:-1]), 1.0]
    return OracleTokens.pack(
        frame=ticks,
        ratio=ratios,
        level=[min(5, int(ratio * 5)) for ratio in ratios],
        skip_forbid=[tick == heard for tick in ticks],
        preds=[_drawn_words(draw, by, (3, 8)) if tick < heard else answer for tick in ticks],
        hints=[answer if ratio > 0.5 else [] for ratio in ratios],
    )


def make_speech_row(number: int, split: str, by: MadeWith, form: str = "sentence") -> TokenRow:
    """Makes an utterance as `kame speech` does: A says it, B is silent, and there is no oracle."""
    draw = random.Random(ids.derive_seed("made-speech", number))
    placed = _placed(_drawn_words(draw, by, (3, 9)), 1, draw)
    n_frames = placed[-1][0] + 9
    nothing, nobody = OracleTokens.pack([], [], [], [], [], []), np.zeros(n_frames, np.bool_)
    silence = np.full(n_frames, PADDING_ID, np.int32)
    return TokenRow(
        dialogue_id=f"speech-{number}",
        item_id=f"speech-{number}",
        source="speech",
        split=split,
        form=form,
        question="",
        answer="",
        n_frames=n_frames,
        duration_s=n_frames * 0.08,
        a=SpeakerTokens(_text(placed, n_frames), _codes(placed, n_frames, by), nothing, nobody),
        b=SpeakerTokens(silence, _codes([], n_frames, by), nothing, nobody),
    )
