"""Licences of the parts of a dataset or checkpoint, and which of them permit redistribution."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import yaml

from data_schemas.errors import ConfigError
from data_schemas.manifest import DATA, ORACLE, REJECTS
from data_schemas.reader import DatasetReader
from data_schemas.records import USERS_BY

NOT_STATED: Final = "not stated"
FORBIDS: Final = "not for"
"""Marks a source that must not be redistributed, as in `none found: not for redistribution`."""

Verdict = Literal["open", "forbidden", "unknown"]

_OTHERWISE_NAMED: Final = {"odc-by-1.0": "odc-by", "odbl-1.0": "odbl", "pddl-1.0": "pddl"}
_OPEN: Final = (
    *("afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd-2-clause", "bsd-3-clause", "bsl-1.0", "cc0-1.0"),
    *("cc-by-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0"),
    *("cc-by-nc-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cdla-permissive-1.0"),
    *("cdla-permissive-2.0", "cdla-sharing-1.0", "ecl-2.0", "epl-2.0", "eupl-1.2", "gpl-2.0", "gpl-3.0", "isc"),
    *("lgpl-2.1", "lgpl-3.0", "mit", "mpl-2.0", "ms-pl", "ofl-1.1", "unlicense", "wtfpl", "zlib"),
)
_HUB_NAMES: Final = {name: name for name in _OPEN} | _OTHERWISE_NAMED
"""Lower-case SPDX names of licences that permit redistribution, and their names on the Hub."""

_VOICES: Final = {"kokoro": "Apache-2.0", "espeak": "GPL-3.0", "double": "Apache-2.0"}
"""Engines whose voices all have one licence; for other engines it depends on the voice."""

_HEAD = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)

_PIPER: Final = {"en_US-joe-medium": "CC0-1.0"}


def get_hub_names(licence: str | None) -> list[str]:
    """Returns the Hub's name of each licence in a text such as "MIT AND CC-BY-4.0", in their order.

    Empty if the text is, or if one of them is not in the list of licences that permit redistribution.
    """
    parts = re.split(r"\s+and\s+", (licence or "").strip().lower())
    found = [_HUB_NAMES.get(re.sub(r"-(only|or-later)$", "", each)) for each in parts]
    return [] if None in found else [str(each) for each in found]


def judge_licence(licence: str | None) -> Verdict:
    """Returns whether a licence permits redistribution of derived works: open, forbidden, or unknown."""
    if get_hub_names(licence):
        return "open"
    text = (licence or "").lower()
    return "forbidden" if FORBIDS in text or re.search(r"\bnd\b|proprietary|all rights reserved", text) else "unknown"


def check_licences(licences: Mapping[str, str | None], given: Mapping[str, str], where: str) -> dict[str, str]:
    """Returns the licences of all parts by name, after checking that each permits redistribution.

    Args:
        licences: licence of each part by its name, from the files; None: not stated.
        given: licences given by the user, for parts whose licence is unknown (`judge_licence`).
        where: the folder, for messages.

    Raises:
        ConfigError: if a licence forbids it or is unknown, or `given` names a part that does not exist or whose licence
            is known.
    """
    wrong = [name for name in given if name not in licences or judge_licence(licences[name]) != "unknown"]
    if wrong:
        unknown = [name for name, licence in licences.items() if judge_licence(licence) == "unknown"]
        raise ConfigError(
            f"--licence {wrong[0]}: {where} has no such part, or states its licence itself.",
            f"Parts with an unknown licence: {', '.join(unknown) or 'none'}.",
        )
    known = {name: given.get(name, licence or NOT_STATED) for name, licence in licences.items()}
    forbidden = [f"{name} ({licence})" for name, licence in known.items() if judge_licence(licence) == "forbidden"]
    if forbidden:
        raise ConfigError(
            f"{where} must not be published; its licences forbid it: {'; '.join(forbidden)}.",
            "Make it without these parts.",
        )
    unknown = [f"{name} ({licence})" for name, licence in known.items() if judge_licence(licence) == "unknown"]
    if unknown:
        raise ConfigError(
            f"{where} is not published because licences are unknown: {'; '.join(unknown)}.",
            "Give them by SPDX name: --licence NAME=LICENCE. For question sets, give them when you make the dataset: "
            "`kame refresh --licence NAME=LICENCE`.",
        )
    return known


def name_questions(source: str) -> str:
    """Returns `questions of SOURCE`, the name of a source's questions in tables of licences."""
    return f"questions of {source}"


def name_voice(engine: str, voice: str) -> str:
    """Returns `voice NAME of ENGINE`, the name of a voice in tables of licences."""
    return f"voice {voice} of {engine}"


def collect_dataset_licences(reader: DatasetReader) -> dict[str, str | None]:
    """Returns the licences of a dataset's parts by name: `questions of SOURCE` and `voice NAME of ENGINE`.

    Several licences of one source are joined by `join_licences`; a source of which only rejects exist has None.
    """
    found: dict[str, set[str | None]] = {}
    for entry in reader.manifest.select_kind(DATA):
        table = reader.store.read_table(entry.path, ["source", "licence", "provenance"])
        for pair in table.select(["source", "licence"]).group_by(["source", "licence"]).aggregate([]).to_pylist():
            found.setdefault(name_questions(pair["source"]), set()).add(pair["licence"])
        for engine, voice in {each for row in table["provenance"].to_pylist() for each in _list_voices(row)}:
            found.setdefault(name_voice(engine, voice), set()).add(get_voice_licence(engine, voice))
    for entry in reader.manifest.shards:
        if entry.kind in (REJECTS, ORACLE) and name_questions(entry.source) not in found:
            found[name_questions(entry.source)] = {None}
    return {name: join_licences(licences) for name, licences in sorted(found.items())}


def get_voice_licence(engine: str, voice: str) -> str | None:
    """Returns the licence of a voice, or None if it is unknown for that engine."""
    return _PIPER.get(voice) if engine == "piper" else _VOICES.get(engine)


def join_licences(licences: Iterable[str | None]) -> str | None:
    """Returns a forbidden licence if there is one, else an unknown one (None: not stated), else all joined by AND."""
    several = sorted({each or "" for each in licences})
    shut = [each for verdict in ("forbidden", "unknown") for each in several if judge_licence(each) == verdict]
    return (shut[0] or None) if shut else " AND ".join(several)


def add_licences_to_card(card: str, licences: Mapping[str, str], more: str) -> str:
    """Returns a dataset or model card with its licences as a table, and as `license` of its YAML metadata for the Hub.

    Args:
        card: Markdown, with or without YAML metadata.
        licences: licence of each part by its name; all permit redistribution.
        more: Markdown that is appended.
    """
    found = _HEAD.match(card)
    head = yaml.safe_load(found[1]) if found else {}
    names = sorted({name for licence in licences.values() for name in get_hub_names(licence)})
    head["license"] = names[0] if len(names) == 1 else names
    body = card[found.end() :] if found else card
    rows = "".join(f"| {name} | {licence} |\n" for name, licence in licences.items())
    return (
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n{body.rstrip()}\n\n## Licences\n\n"
        f"| what | licence |\n|---|---|\n{rows}\nWhoever passes this on keeps to all of them. What models wrote comes "
        f"under their providers' terms too.\n\n{more}"
    )


def _list_voices(provenance: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Returns (engine, voice) of both speakers; recorded callers have no voice, and are omitted."""
    if not provenance["tts"]:
        return []
    own, _, users = provenance["tts"].partition(USERS_BY)
    pairs = ((own, provenance["voice_a"]), (users or own, provenance["voice_b"]))
    return [(engine, voice) for engine, voice in pairs if voice]
