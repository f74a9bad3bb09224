"""Finds the file of a row's picture, only within its source's folder, since it may be sent to another machine."""

from pathlib import Path


def find_picture_file(folder: str, picture: str) -> Path | None:
    """Returns the file of a picture, with links resolved; None if it does not exist or lies outside the folder."""
    try:
        root = Path(folder).resolve()
        file = (root / picture).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # name too long, circular links, null character in a name
        return None
