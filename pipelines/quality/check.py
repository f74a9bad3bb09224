"""Every invariant of a dataset, looked at on the files themselves. What is wrong becomes a fault; nothing is mended."""

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import soundfile

from data_schemas.arrow import from_table, schema_of
from data_schemas.errors import StoreError
from data_schemas.manifest import MANIFEST, Manifest, ShardEntry, make_manifest
from data_schemas.records import AudioDialogue, OracleRow, Reject, Turn
from data_schemas.units import SAMPLE_RATE_HZ
from pipelines.oracle.schedule import TRUTH_LEVEL, level_of, words_of
from pipelines.publish import read_manifest
from pipelines.script.speakable import spoken_words
from pipelines.shards import DATA, ORACLE, REJECTS
from pipelines.store import Store

TIME_TOLERANCE_S = 1e-5
"""Times are stored in whole microseconds; sums of them may differ by a few."""

_RECORDS: dict[str, type] = {DATA: AudioDialogue, ORACLE: OracleRow, REJECTS: Reject}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where (file or dialogue), which rule, and what was found."""

    where: str
    rule: str
    found: str


@dataclass(slots=True)
class _Seen:
    """What later files are held against: turns and splits by dialogue, splits by question group; and what adds up."""

    turns: dict[str, tuple[Turn, ...]] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    group_splits: dict[str, str] = field(default_factory=dict)
    without_oracles: set[str] = field(default_factory=set)
    n_dialogues: int = 0
    audio_s: float = 0.0
    n_events: Counter[str | None] = field(default_factory=Counter)  # by oracle version
    n_rejects: int = 0


def check(root: str) -> list[Fault]:
    """All faults of a dataset; empty when it is sound.

    Raises:
        DatasetError: there is no manifest to check against.
    """
    store = Store(root)
    manifest = read_manifest(store)
    seen = _Seen()
    faults: list[Fault] = []
    for _, entries in groupby(sorted(manifest.shards, key=_source_then_kind), key=lambda entry: entry.source):
        seen.turns.clear()  # a source's turns are wanted for its own oracles alone
        for entry in entries:
            faults += _check_file(store, entry, seen)
    faults += [Fault(each, "every dialogue has oracles", "none") for each in sorted(seen.without_oracles)]
    faults += _unlisted(store, manifest)
    faults += _check_counts(manifest, seen)
    return faults


def _source_then_kind(entry: ShardEntry) -> tuple[str, int]:
    return entry.source, {DATA: 0, ORACLE: 1, REJECTS: 2}.get(entry.kind, 3)


def _check_file(store: Store, entry: ShardEntry, seen: _Seen) -> list[Fault]:
    """One file against its manifest entry, its schema, and each row's own rules."""
    if entry.kind not in _RECORDS:
        return [Fault(entry.path, "files are of a kind we know", entry.kind)]
    record_type = _RECORDS[entry.kind]
    try:
        if not store.exists(entry.path):
            return [Fault(entry.path, "file is there", "missing")]
        written = store.describe(entry.path)
        if (written.n_bytes, written.sha256) != (entry.n_bytes, entry.sha256):
            return [Fault(entry.path, "checksum is the manifest's", f"{written.n_bytes} bytes, {written.sha256[:12]}…")]
        table = store.read_table(entry.path)
        if not table.schema.equals(schema_of(record_type)):
            return [Fault(entry.path, "schema is the record's", "columns differ")]
        if table.num_rows != entry.n_rows:
            return [Fault(entry.path, "rows are the manifest's", f"{table.num_rows}, not {entry.n_rows}")]
        faults: list[Fault] = []
        for start in range(0, table.num_rows, 16):  # a few rows of sound in memory at a time
            records: list[object] = from_table(table.slice(start, 16), record_type)
            for record in records:
                faults += _check_record(record, entry, seen)
        return faults
    except StoreError as error:
        return [Fault(entry.path, "file can be read", str(error))]


def _check_record(record: object, entry: ShardEntry, seen: _Seen) -> list[Fault]:
    if isinstance(record, AudioDialogue):
        return [Fault(record.dialogue_id, *wrong) for wrong in _dialogue(record, entry, seen)]
    if isinstance(record, OracleRow):
        return [Fault(record.dialogue_id, *wrong) for wrong in _oracle(record, entry, seen)]
    assert isinstance(record, Reject)
    seen.n_rejects += 1
    return [] if record.reason and record.stage else [Fault(record.item_id, "reject says why", "no reason or stage")]


Wrong = Iterator[tuple[str, str]]


def _dialogue(row: AudioDialogue, entry: ShardEntry, seen: _Seen) -> Wrong:
    if row.dialogue_id in seen.splits:
        yield "dialogue ids are unique", "stands twice"
    seen.turns[row.dialogue_id], seen.splits[row.dialogue_id] = row.turns, row.split
    seen.without_oracles.add(row.dialogue_id)
    seen.n_dialogues, seen.audio_s = seen.n_dialogues + 1, seen.audio_s + row.duration_s
    if (row.split, row.source) != (entry.split, entry.source):
        yield "rows lie in the file of their source and split", f"{row.source}, {row.split}"
    if seen.group_splits.setdefault(row.group_id, row.split) != row.split:
        yield "splits are disjoint", f"{row.group_id} is also in {seen.group_splits[row.group_id]}"
    missing = [
        name
        for name in ("tts", "tts_digest", "voice_a", "voice_b", "aligner", "aligner_digest", "seed")
        if getattr(row.provenance, name) is None
    ]
    if missing or not row.provenance.script_method or row.licence is None:
        yield "provenance is complete", f"missing: {', '.join(missing) or 'licence or script method'}"
    yield from _audio(row)
    for turn in row.turns:
        yield from _turn(turn, row.duration_s)


def _audio(row: AudioDialogue) -> Wrong:
    try:
        info = soundfile.info(io.BytesIO(row.flac))
    except soundfile.LibsndfileError as error:
        yield "audio can be read", str(error)
        return
    if (info.samplerate, info.channels, row.sample_rate_hz) != (SAMPLE_RATE_HZ, 2, SAMPLE_RATE_HZ):
        yield "audio is stereo at 24 kHz", f"{info.channels} channel(s) at {info.samplerate} Hz"
    if info.frames != row.n_samples or abs(row.duration_s - info.frames / SAMPLE_RATE_HZ) > TIME_TOLERANCE_S:
        yield "audio is as long as the row says", f"{info.frames} samples, row: {row.n_samples}"


def _turn(turn: Turn, duration_s: float) -> Wrong:
    where = f"turn {turn.turn_index}"
    for utterance in turn.utterances:
        timed = [word.word for word in utterance.words]
        if timed != spoken_words(utterance.spoken_text):
            yield "every spoken word is timed", f"{where}: {len(timed)} timed"
        if utterance.start_s is None or utterance.end_s is None:
            yield "utterances have times", where
            continue
        edges = [
            utterance.start_s,
            *(t for word in utterance.words for t in (word.start_s, word.end_s)),
            utterance.end_s,
        ]
        if any(later < earlier - TIME_TOLERANCE_S for earlier, later in pairwise(edges)):
            yield "words are ordered and inside their utterance", where
        if not (0 <= utterance.start_s < utterance.end_s <= duration_s + TIME_TOLERANCE_S):
            yield "utterances lie inside the audio", f"{where}: {utterance.start_s} to {utterance.end_s} s"
        if any(word.end_s <= word.start_s for word in utterance.words):
            yield "words last", where


def _oracle(row: OracleRow, entry: ShardEntry, seen: _Seen) -> Wrong:
    turns = seen.turns.get(row.dialogue_id)
    seen.n_events[entry.oracle_version] += len(row.events)
    seen.without_oracles.discard(row.dialogue_id)
    if turns is None:
        yield "oracles belong to a dialogue of the dataset", "no such dialogue"
        return
    if row.split != seen.splits[row.dialogue_id] or row.split != entry.split:
        yield "splits are disjoint", f"oracle in {row.split}, dialogue in {seen.splits[row.dialogue_id]}"
    if (row.source, row.oracle_version) != (entry.source, entry.oracle_version):
        yield "rows lie in the file of their source and version", f"{row.source}, {row.oracle_version}"
    if not (row.model and row.prompt_digest and row.endpoint):
        yield "provenance is complete", "no model, endpoint or prompt digest"
    if [event.event_id for event in row.events] != [f"{row.dialogue_id}-e{n}" for n in range(len(row.events))]:
        yield "events are numbered in order", "ids differ"
    asked = {
        turn.turn_index: (turn, answer) for turn, answer in pairwise(turns) if turn.speaker + answer.speaker == "BA"
    }
    if strays := {event.turn_index for event in row.events} - asked.keys():
        yield "events belong to a turn that is answered", f"turns {', '.join(map(str, sorted(strays)))}"
    for turn, answer in asked.values():
        yield from _events_of_turn(row, turn, answer.body)


def _events_of_turn(row: OracleRow, turn: Turn, truth: str) -> Wrong:
    words, events = words_of(turn), [event for event in row.events if event.turn_index == turn.turn_index]
    if not words:
        return  # the dialogue's own rules have told
    if [event for event in events if event.level == TRUTH_LEVEL] != events[-1:] or not events:
        yield "the last event, and no other, has r = 1", f"turn {turn.turn_index}"
    elif events[-1].text != truth or abs(events[-1].t_s - words[-1].end_s) > TIME_TOLERANCE_S:
        yield "the last event is the true answer at the last word's end", f"turn {turn.turn_index}"
    if any(later.t_s <= earlier.t_s for earlier, later in pairwise(events)):
        yield "events are ordered", f"turn {turn.turn_index}"
    for event in events:
        heard = sum(word.end_s <= event.t_s for word in words)
        if (event.n_words_heard, event.n_words) != (heard, len(words)) or event.r != heard / len(words):
            yield "r is words heard of words", f"{event.event_id}: {event.n_words_heard}/{event.n_words}"
        if event.level != level_of(event.r, row.level_bounds):
            yield "events are of the level their ratio says", f"{event.event_id}: r {event.r:.3f}, level {event.level}"
        if (event.text is None) != (event.status == "failed"):
            yield "failed events, and no others, have no text", f"{event.event_id}: {event.status}"


def _unlisted(store: Store, manifest: Manifest) -> list[Fault]:
    listed = {entry.path for entry in manifest.shards}
    there = [path for folder in ("data", "oracles", "rejects") for path in store.files(folder)]
    return [Fault(path, "the manifest lists every file", "not listed") for path in there if path not in listed]


def _check_counts(manifest: Manifest, seen: _Seen) -> list[Fault]:
    said = manifest.counts
    found = (seen.n_dialogues, seen.n_events[manifest.oracle_version], seen.n_rejects)
    faults = []
    if (said.dialogues, said.events, said.rejects) != found or abs(said.audio_s - seen.audio_s) > 0.01:
        counted = f"{found[0]} dialogues, {found[1]} events, {found[2]} rejects, {seen.audio_s:.3f} s found"
        faults.append(Fault(MANIFEST, "counts add up", f"{counted}; said: {said}"))
    if make_manifest(manifest.shards, said, manifest.oracle_version).fingerprint != manifest.fingerprint:
        faults.append(Fault(MANIFEST, "the fingerprint is that of the files", manifest.fingerprint))
    return faults
