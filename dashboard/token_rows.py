"""What the dashboard needs of whoever reads token rows: a protocol, which `flows` implements with what encodes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenFolder:
    """A folder of token rows that has rows of a dataset's file.

    Attributes:
        key: stands for the folder in addresses.
        fingerprint: stands for the content of all its rows.
        dataset_fingerprint: the content of the dataset that they were made from.
        oracle_version: the oracles that are in them.
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
    """An oracle event as tokens. `is_hint`: it feeds the true answer; `is_last`: of its turn, never skipped."""

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
        text: an id a frame.
        codes: the ids of each codebook, an id a frame, not delayed.
        delays: frames by which each codebook comes after the text of its frame, where A is the voice that is learnt.
        oracle: the id that is fed with the text of each frame, as in validation: nothing is skipped or moved.
        events: what that is made of.
        answer_frames: frames whose text bears the answer.
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
        sizes: entries of each codebook.
        padding_id, end_of_padding_id: ids of frames without a piece of text.
        start_id: begins an oracle.
        pieces: what each id stands for that occurs as text or in an oracle; a piece that starts a word has a space.
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
        """The folders below some roots with rows of a dataset's file, and those that cannot be read.

        Args:
            data_path: the file in its dataset; its name stands for its content.
        """

    def read(self, folder: TokenFolder, data_path: str, dialogue_id: str) -> DialogueFrames | None:
        """A dialogue's row; None where it was left out, as flagged ones are.

        Raises:
            KameError: it cannot be read.
        """
