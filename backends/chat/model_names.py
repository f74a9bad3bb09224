"""Names of chat models: compares a requested name with those in a server's model list and in an answer."""

import re

SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
"""The date at the end of a model's name."""
NOT_REPORTED = "not told"
"""Stands for the name of the answering model if its server does not report it."""
_LATEST = re.compile(r"[-:]latest$")
_EDITION = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8})$|[-:]latest$")
"""The current edition of an alias: a date or a number of at least three digits; fewer digits name another model."""


def is_named(listed: str, model: str) -> bool:
    """Returns whether the name `listed` by a server is that of the requested `model`.

    The requested name may omit Google's `models/`, Ollama's `:latest` or the date of a snapshot.
    """
    name = listed.removeprefix("models/")
    return model.removeprefix("models/") in (name, name.removesuffix(":latest"), SNAPSHOT.sub("", name))


def is_as_asked(answered_by: str, model: str) -> bool:
    """Returns whether the answering model is the requested one: the same name, an edition of it, or its alias.

    Two editions are two models. A prefix up to a slash and a file extension are ignored, as gateways and llama.cpp add
    and remove them.
    """
    actual, requested = _normalise_name(answered_by), _normalise_name(model)
    is_edition = _EDITION.sub("", actual) == _LATEST.sub("", requested)
    return actual == requested or is_edition or actual == _EDITION.sub("", requested)


def _normalise_name(name: str) -> str:
    """Returns a name in lower case, without what precedes its last slash and without `.gguf`."""
    return name.strip().lower().rsplit("/", 1)[-1].removesuffix(".gguf")
