"""Texts from elsewhere as texts that can be written: JSON may hold half a character, which no encoding has."""


def join_surrogates(text: str) -> str:
    """A text whose halves of surrogate pairs are joined where they belong together, and left out where they do not."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


class CharacterStream:
    """Pieces of one text that were cut anywhere, as pieces of whole characters."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Adds the next piece; half a character at its end waits for its other one."""
        text = self._half + piece
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return join_surrogates(text.removesuffix(self._half))
