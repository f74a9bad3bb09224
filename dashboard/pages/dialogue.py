"""Page of a dialogue: time line, audio, peaks, and its flag."""

import re
from contextlib import closing
from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dashboard.catalog import Dataset, MissingError
from dashboard.index import Index
from dashboard.provenance import list_run_files, read_prompts
from dashboard.query import DIALOGUES, TableReader, View
from dashboard.site import Site
from dashboard.sounds import SPECTRUM_ROWS, read_dialogue
from dashboard.timeline import SPEAKERS, lay_out
from dashboard.token_rows import TokenFolder
from data_schemas.flags import clear_flag, read_flagged, set_flag

_RANGE = re.compile(r"bytes=(\d{0,12})-(\d{0,12})")
_MOST_RUNS = 10
_KEPT = {"Cache-Control": "private, max-age=31536000, immutable"}


class FlagRequest(BaseModel):
    """Request to set a flag with its reason, or to remove it."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    is_flagged: bool
    reason: str = Field(default="", max_length=2000)


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of a dialogue."""
    routes = APIRouter(prefix="/datasets/{key}/dialogues/{dialogue_id}")

    @routes.get("", response_class=HTMLResponse)
    def show_dialogue(request: Request, key: str, dialogue_id: str) -> HTMLResponse:
        """Shows a dialogue: time line, texts, oracles of a version, flag, origin, and its neighbours in the table.

        `oracles` in the URL names the version; the other parameters are the view of the table.
        """
        dataset, index = site.open_dataset(key)
        place = _find_row(index, dialogue_id)
        view_pairs = [(name, value) for name, value in request.query_params.multi_items() if name != "oracles"]
        versions = [
            name
            for (name,) in index.fetch_rows(
                "SELECT DISTINCT oracle_version FROM events WHERE dialogue_id = ? ORDER BY 1", [dialogue_id]
            )
        ]
        version = request.query_params.get("oracles", dataset.manifest.oracle_version)
        if version not in versions and "oracles" in request.query_params:
            raise MissingError(
                f"Dialogue {dialogue_id} has no oracles {version!r}.", f"It has: {', '.join(versions) or 'none'}."
            )
        events = index.fetch_records(
            "SELECT * FROM events WHERE dialogue_id = ? AND oracle_version = ? ORDER BY t_s, event_id",
            [dialogue_id, version],
        )
        view = View.parse(DIALOGUES, view_pairs)
        flags = read_flagged(dataset.store)
        with closing(TableReader(index, view, flags)) as reader:
            neighbours = reader.find_neighbours(dialogue_id)
        oracles = index.fetch_records(
            "SELECT * FROM oracles WHERE dialogue_id = ? AND oracle_version = ?", [dialogue_id, version]
        )
        oracle = oracles[0] if oracles else None
        row = read_dialogue(dataset.get_file(place["file"]), place["file_row"], dialogue_id)
        return site.render(
            request,
            "dialogue.html",
            dataset=dataset,
            tab="rows",
            row=row,
            place=place,
            events=events,
            versions=versions,
            version=version,
            timeline=lay_out(row, [each for each in events if each["speaker"] == "A"]),
            speakers=SPEAKERS,
            spectrum_rows=SPECTRUM_ROWS,
            view=view,
            neighbours=neighbours,
            flag=flags.get(dialogue_id),
            reasons=sorted(set(flags.values()))[:20],
            oracle=oracle,
            prompts=read_prompts(dataset, version, oracle["prompt_digest"]) if oracle else None,
            shard=next((each for each in dataset.manifest.shards if each.path == place["file"]), None),
            runs=list_run_files(dataset, row.source)[:_MOST_RUNS],
            token_folders=_find_token_folders(site, place),
        )

    @routes.get("/sound")
    def get_sound(request: Request, key: str, dialogue_id: str) -> Response:
        """Sends the audio file of a dialogue, or the byte range that is requested."""
        dataset, index = site.open_dataset(key)
        place = _find_row(index, dialogue_id)
        sound = site.sounds.read_sound(dataset.get_file(place["file"]), place["file_row"], dialogue_id)
        return make_sound_response(sound, request.headers.get("range", ""), _choose_cache_headers(request, dataset))

    @routes.get("/peaks")
    def get_peaks(request: Request, key: str, dialogue_id: str) -> Response:
        """Sends the peaks of a dialogue's audio as JSON."""
        dataset, index = site.open_dataset(key)
        place = _find_row(index, dialogue_id)
        peaks = site.sounds.measure_peaks(dataset.get_file(place["file"]), place["file_row"], dialogue_id)
        return Response(peaks, media_type="application/json", headers=_choose_cache_headers(request, dataset))

    @routes.get("/spectrogram/{speaker}")
    def get_spectrogram(request: Request, key: str, dialogue_id: str, speaker: Literal["A", "B"]) -> Response:
        """Sends the spectrogram of a speaker as bytes, row by row."""
        dataset, index = site.open_dataset(key)
        place = _find_row(index, dialogue_id)
        file = dataset.get_file(place["file"])
        picture = site.sounds.measure_spectrogram(file, place["file_row"], dialogue_id, "AB".index(speaker))
        return Response(picture, media_type="application/octet-stream", headers=_choose_cache_headers(request, dataset))

    @routes.get("/tokens/{folder}")
    def get_tokens(request: Request, key: str, dialogue_id: str, folder: str) -> Response:
        """Sends a dialogue's token row from a folder."""
        _, index = site.open_dataset(key)
        place = _find_row(index, dialogue_id)
        found = {each.key: each for each in _find_token_folders(site, place) or ()}
        if site.token_rows is None or folder not in found:
            raise MissingError(
                f"There are no token rows {folder!r} of dialogue {dialogue_id}.",
                f"Choose one of: {', '.join(found) or 'none'}.",
            )
        frames = site.token_rows.read(found[folder], place["file"], dialogue_id)
        if frames is None:
            raise MissingError(
                f"Dialogue {dialogue_id} is not in the token rows {folder!r}.",
                "`kame encode` skips dialogues that are flagged when it runs; run it again.",
            )
        is_known = request.query_params.get("of") == found[folder].fingerprint
        return JSONResponse(asdict(frames), headers=_KEPT if is_known else {})

    @routes.post("/flag")
    def flag_dialogue(key: str, dialogue_id: str, wanted: FlagRequest) -> dict[str, Any]:
        """Sets or removes a dialogue's flag, and returns the flag that it has now."""
        dataset, index = site.open_dataset(key)
        _find_row(index, dialogue_id)
        if wanted.is_flagged:
            set_flag(dataset.store, dialogue_id, wanted.reason or "no reason given")
        else:
            clear_flag(dataset.store, dialogue_id)
        return {"dialogue_id": dialogue_id, "flag": read_flagged(dataset.store).get(dialogue_id)}

    return routes


def _find_row(index: Index, dialogue_id: str) -> dict[str, Any]:
    """Returns a dialogue's row in the index, with its file and position.

    Raises:
        MissingError: there is no such dialogue.
    """
    found = index.fetch_records("SELECT * FROM dialogues WHERE dialogue_id = ?", [dialogue_id])
    if not found:
        raise MissingError(
            f"There is no dialogue {dialogue_id!r} in this dataset.", "Search for it in the table of rows."
        )
    return found[0]


def _find_token_folders(site: Site, place: dict[str, Any]) -> list[TokenFolder] | None:
    """Returns the folders with token rows of a dialogue's file; None if the dashboard has no reader of token rows."""
    return None if site.token_rows is None else site.token_rows.find(site.catalog.roots, place["file"])


def _choose_cache_headers(request: Request, dataset: Dataset) -> dict[str, str]:
    """Returns headers for caching without expiry if the URL has the content's fingerprint; otherwise none."""
    return _KEPT if request.query_params.get("of") == dataset.manifest.fingerprint else {}


def make_sound_response(sound: bytes, wanted: str, kept: dict[str, str]) -> Response:
    """Makes the response with an audio file, or with the byte range that a player requests (status 206 or 416).

    Args:
        wanted: the `Range` header; if it is empty, invalid or has several ranges, the whole file is sent.
        kept: headers for caching.
    """
    media_type = "audio/flac" if sound[:4] == b"fLaC" else "audio/ogg"
    headers = {"Accept-Ranges": "bytes", **kept}
    byte_range = _RANGE.fullmatch(wanted)
    if byte_range is None or not any(byte_range.groups()):
        return Response(sound, media_type=media_type, headers=headers)
    first, last = byte_range.groups()
    start = int(first) if first else max(0, len(sound) - int(last))
    end = min(len(sound), int(last) + 1) if first and last else len(sound)
    if start >= end:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{len(sound)}"})
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(sound)}"
    return Response(sound[start:end], 206, headers, media_type)
