"""Repairs surrogate pairs in text from JSON, which may contain half a character that no encoding can write."""


def join_surrogates(text: str) -> str:
    """Joins the halves of surrogate pairs in a text and removes those without a partner."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


class CharacterStream:
    """Turns pieces of a text that were cut anywhere into pieces of whole characters."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Adds the next piece and returns what is complete; half a character at its end waits for the other half."""
        text = self._half + piece
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return join_surrogates(text.removesuffix(self._half))
