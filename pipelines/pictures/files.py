"""Where the picture that a row names lies: in its source's folder or nowhere, for it may be sent to another machine."""

from pathlib import Path


def find_picture_file(folder: str, picture: str) -> Path | None:
    """The file of a picture, links followed; None where there is none, or it lies outside the folder."""
    try:
        root = Path(folder).resolve()
        file = (root / picture).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, links in a circle, a name with a null character
        return None
