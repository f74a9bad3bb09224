"""What a model is called: by who asks for it, on a server's list, and in an answer."""

import re

SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
"""The day at the end of a model's name."""
NOT_TOLD = "not told"
"""Stands for the name of the model that answered where its server does not say."""
_LATEST = re.compile(r"[-:]latest$")
_EDITION = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8})$|[-:]latest$")
"""What tells an alias's edition of today: a day or a number of three digits; fewer make another model of it."""


def is_named(listed: str, model: str) -> bool:
    """Whether a name on a server's list is that of a model, which is asked for by a shorter one too: without Google's
    `models/`, Ollama's `:latest` or the day of a snapshot."""
    name = listed.removeprefix("models/")
    return model.removeprefix("models/") in (name, name.removesuffix(":latest"), SNAPSHOT.sub("", name))


def is_as_asked(answered_by: str, model: str) -> bool:
    """Whether an answer's model is the one asked for: the same, the edition for which an alias stands, or its alias.

    Two editions are two models. What stands before a slash, and a file's ending, do not count: gateways and llama.cpp
    add and drop them.
    """
    told, asked = _bare(answered_by), _bare(model)
    return told == asked or _EDITION.sub("", told) == _LATEST.sub("", asked) or told == _EDITION.sub("", asked)


def _bare(name: str) -> str:
    return name.strip().lower().rsplit("/", 1)[-1].removesuffix(".gguf")
