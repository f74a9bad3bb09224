"""Protocol for reading token rows, which `flows` implements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenFolder:
    """A folder of token rows that has rows of a dataset's file.

    Attributes:
        key: id of the folder in URLs.
        fingerprint: fingerprint of its rows.
        dataset_fingerprint: fingerprint of the dataset that was encoded.
        oracle_version: version of its oracles.
        error: why the folder cannot be read; then all other texts but the key are empty.
    """

    key: str
    folder: Path
    fingerprint: str = ""
    dataset_fingerprint: str = ""
    oracle_version: str = ""
    codec: str = ""
    codec_digest: str = ""
    tokenizer_digest: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class FedOracle:
    """An oracle event as tokens. `is_hint`: it feeds the true answer; `is_last`: the last of its turn.

    `ratio` is the share of the user's turn that had been heard; `n_tokens` and `text` are what is fed.
    """

    frame: int
    level: int
    ratio: float
    n_tokens: int
    text: str
    is_hint: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class SpeakerFrames:
    """One speaker on T frames.

    Attributes:
        text: one id per frame.
        codes: ids of each codebook, one per frame, not delayed.
        delays: delay of each codebook after the text in frames, if A is the voice that is learnt.
        oracle: id that is fed with the text of each frame, as in validation: nothing is skipped or shifted.
        events: the events it consists of.
        answer_frames: frames whose text is part of the answer.
    """

    text: Sequence[int]
    codes: Sequence[Sequence[int]]
    delays: Sequence[int]
    oracle: Sequence[int]
    events: Sequence[FedOracle]
    answer_frames: Sequence[int]


@dataclass(frozen=True, slots=True)
class DialogueFrames:
    """A dialogue's token row.

    Attributes:
        frame_s: length of a frame in seconds.
        sizes: number of entries of each codebook.
        padding_id, end_of_padding_id: ids of frames without a text piece.
        start_id: id that starts an oracle.
        pieces: piece of each id that occurs as text or in an oracle; one that starts a word begins with a space.
        speakers: by A and B.
    """

    n_frames: int
    frame_s: float
    sizes: Sequence[int]
    padding_id: int
    end_of_padding_id: int
    start_id: int
    pieces: Mapping[int, str]
    speakers: Mapping[str, SpeakerFrames]


class TokenRows(Protocol):
    """Finds and reads token rows. Its methods are called from several threads."""

    def find(self, roots: Sequence[Path], data_path: str) -> list[TokenFolder]:
        """Returns the folders below some roots with rows of a dataset's file, and those that cannot be read (`error`).

        Args:
            data_path: path of the file in its dataset; its name identifies its content.
        """

    def read(self, folder: TokenFolder, data_path: str, dialogue_id: str) -> DialogueFrames | None:
        """Reads a dialogue's row; None if it was not encoded, as flagged dialogues are not.

        Raises:
            KameError: it cannot be read.
        """
