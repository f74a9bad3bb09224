"""Finds and reads token rows (`kame encode`) of dialogues for the dashboard."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dashboard.folders import find_folders
from dashboard.token_rows import DialogueFrames, FedOracle, SpeakerFrames, TokenFolder
from data_schemas.errors import KameError, StoreError
from data_schemas.store import Store
from data_schemas.units import FRAME_S
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.manifest import MANIFEST, TokenManifest, TokenShard, read_manifest
from kame_model.encode.rows import CodesFile, RowsFile, SpeakerTokens
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import make_oracle_stream
from kame_model.text.tokenizer import Tokenizer

_N_KEPT: Final = 16
_AGAIN: Final = "Run `kame encode` again; it restores missing files."


class EncodedRows:
    """Token rows on disk (`dashboard.token_rows.TokenRows`).

    A dialogue is searched in one file only: the one made from its data file, which the manifest names.
    """

    def __init__(self) -> None:
        self._manifests: dict[Path, tuple[tuple[int, int], TokenManifest, dict[str, TokenShard]]] = {}

    def find(self, roots: Sequence[Path], data_path: str) -> list[TokenFolder]:
        """Returns the folders at or below `roots` with rows of a dataset's file, sorted by key.

        Folders whose manifest cannot be read are returned as well, with `error`, whichever files they have rows of.

        Args:
            data_path: path of the file in its dataset.
        """
        found = []
        for key, folder in sorted(find_folders(roots, lambda each: (each / MANIFEST).is_file())):
            try:
                manifest, shards = self._read_manifest(folder)
            except KameError as error:
                found.append(TokenFolder(key, folder, error=f"{error.what} {error.remedy}".strip()))
                continue
            if data_path in shards:
                by = manifest.made_with
                found.append(
                    TokenFolder(
                        key,
                        folder,
                        fingerprint=manifest.fingerprint,
                        dataset_fingerprint=manifest.dataset_fingerprint,
                        oracle_version=manifest.oracle_version,
                        codec=by.codec,
                        codec_digest=by.codec_digest,
                        tokenizer_digest=by.tokenizer_digest,
                    )
                )
        return found

    def read(self, folder: TokenFolder, data_path: str, dialogue_id: str) -> DialogueFrames | None:
        """Reads the row of a dialogue from a folder that `find` returned for this file; None if it was not encoded.

        Raises:
            KameError: a file is missing, damaged or outside the folder, or the vocabulary has changed.
        """
        manifest, shards = self._read_manifest(folder.folder)
        shard = shards[data_path]
        codes = CodesFile(str(_resolve_inside(folder.folder, shard.codes.path)))
        rows = RowsFile(str(_resolve_inside(folder.folder, shard.rows.path)), codes)
        dialogue_ids = rows.read_column("dialogue_id")
        if dialogue_id not in dialogue_ids:
            return None
        row = rows.read_row(dialogue_ids.index(dialogue_id))
        by = manifest.made_with
        tokenizer = self._load_tokenizer(folder.folder, by.tokenizer_digest)
        speakers = {
            "A": _make_frames(row.a, by.layout.delays, by.text_card, tokenizer),
            "B": _make_frames(row.b, by.layout.other_delays, by.text_card, tokenizer),
        }
        ids = {each for shown in speakers.values() for each in (*shown.text, *shown.oracle)}
        return DialogueFrames(
            n_frames=row.n_frames,
            frame_s=FRAME_S,
            sizes=by.layout.sizes,
            padding_id=PADDING_ID,
            end_of_padding_id=END_OF_PADDING_ID,
            start_id=by.text_card,
            pieces={each: _format_piece(tokenizer, each) for each in sorted(ids)},
            speakers=speakers,
        )

    def _read_manifest(self, folder: Path) -> tuple[TokenManifest, dict[str, TokenShard]]:
        """Returns a folder's manifest, and its shards by the data file that they were made from.

        It is read again only if the file has changed.

        Raises:
            KameError: the manifest is missing or damaged.
        """
        try:
            status = (folder / MANIFEST).stat()
        except OSError as error:
            raise StoreError(f"{folder / MANIFEST} cannot be read: {error.strerror}.", _AGAIN) from error
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._manifests.get(folder)
        if known is None or known[0] != stamp:
            manifest = read_manifest(Store(str(folder)))
            known = (stamp, manifest, {each.data_path: each for each in manifest.shards})
            self._manifests[folder] = known
        return known[1], known[2]

    def _load_tokenizer(self, folder: Path, digest: str) -> Tokenizer:
        """Loads the tokenizer beside the rows, with a cache.

        Raises:
            BackendError: the file is missing, or is not a vocabulary for this model.
            StoreError: it is outside the folder, or not the one that the rows were encoded with.
        """
        tokenizer = _read_tokenizer(_resolve_inside(folder, TOKENIZER), digest)
        if tokenizer.digest != digest:
            _read_tokenizer.cache_clear()
            raise StoreError(
                f"{tokenizer.path} is not the tokenizer that the rows beside it were encoded with.",
                "Restore the right file, or encode the dataset into another folder.",
            )
        return tokenizer


@lru_cache(maxsize=_N_KEPT)
def _read_tokenizer(path: Path, digest: str) -> Tokenizer:
    """Reads a tokenizer; cached by path and digest, so that it is read again if another digest is expected."""
    return Tokenizer(path)


def _resolve_inside(folder: Path, path: str) -> Path:
    """Returns the path of a file in a folder.

    Raises:
        StoreError: the file is outside the folder.
    """
    file = (folder / path).resolve()
    if not file.is_relative_to(folder):
        raise StoreError(f"{MANIFEST} of {folder} lists {path!r}, which is outside the folder.", _AGAIN)
    return file


def _make_frames(tokens: SpeakerTokens, delays: Sequence[int], start_id: int, tokenizer: Tokenizer) -> SpeakerFrames:
    """Converts one speaker's tokens to lists by frame, with the oracle laid on frames as the model receives it."""
    oracle = tokens.oracle
    n_frames = len(tokens.text)
    events = [
        FedOracle(
            frame=int(oracle.frame[event]),
            level=int(oracle.level[event]),
            ratio=round(float(oracle.ratio[event]), 3),
            n_tokens=len(said),
            text=tokenizer.decode(_convert_to_list(said)),
            is_hint=bool(oracle.ratio[event] >= 1 and len(oracle.get_hint(event))),
            is_last=bool(oracle.skip_forbid[event]),
        )
        for event in range(len(oracle))
        for said in [oracle.get_fed(event)]
    ]
    # Position f + 1 of the model is where text token f is: counted by text frames, an oracle begins at its own.
    fed = make_oracle_stream(oracle.list_events(), n_frames + 1, start_id)[1:]
    return SpeakerFrames(
        text=_convert_to_list(tokens.text),
        codes=[_convert_to_list(each) for each in tokens.codes],
        delays=list(delays),
        oracle=_convert_to_list(fed),
        events=events,
        answer_frames=_convert_to_list(np.flatnonzero(tokens.answer_mask)),
    )


def _convert_to_list(values: NDArray[Any]) -> list[int]:
    """Converts an array of integers to a list."""
    found: list[int] = values.tolist()
    return found


def _format_piece(tokenizer: Tokenizer, token: int) -> str:
    """Returns the piece of a token id as text; a piece of one byte is written as in the vocabulary, such as <0x0A>."""
    piece = tokenizer.get_piece(token)
    return f"<0x{piece[0]:02X}>" if isinstance(piece, bytes) else piece
