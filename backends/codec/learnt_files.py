"""Codecs that are learnt from speech, and the file by which a folder of each is recognised."""

from pathlib import Path
from typing import Final

LEARNT_FILES: Final = {"codec2-neural": "neural.safetensors", "codec2-learnt": "codebooks.safetensors"}


def find_learnt_codec(folder: str) -> str:
    """Returns the name of the learnt codec whose file is in a folder; `codec2-learnt` if the folder has none."""
    return next((name for name, file in LEARNT_FILES.items() if (Path(folder) / file).is_file()), "codec2-learnt")
