"""What a caller keeps of a conversation: sound as a player would have played it, and the text of both."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.errors import StoreError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.talk_record import PLAYER_S, Player, TalkRecord

FRAME = np.ones(FRAME_N_SAMPLES, np.float32)


def test_sound_in_time_is_played_without_gaps_after_a_frame() -> None:
    player = Player()
    for number, late_s in enumerate((0.0, 0.07, -0.02, 0.05)):
        player.add(1.0 + number * FRAME_S + late_s, FRAME)
    sound = player.get_sound()
    begins = round((1.0 + PLAYER_S) * SAMPLE_RATE_HZ)
    assert not sound[:begins].any()
    assert sound[begins:].all()
    assert len(sound) == begins + 4 * FRAME_N_SAMPLES
    assert player.n_gaps == 0


def test_sound_that_is_late_leaves_a_gap_where_it_was_missed() -> None:
    player = Player()
    for at_s in (0.0, 0.08, 0.60, 0.68):
        player.add(at_s, FRAME)
    sound = player.get_sound()
    assert player.n_gaps == 1
    missed = slice(round(0.24 * SAMPLE_RATE_HZ), round(0.68 * SAMPLE_RATE_HZ))
    assert not sound[missed].any()
    assert np.count_nonzero(sound) == 4 * FRAME_N_SAMPLES


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 4000)), max_size=20))
def test_nothing_is_lost_played_twice_or_before_it_came(pieces: list[tuple[float, int]]) -> None:
    player, at_s, marks = Player(), 0.0, []
    for number, (wait_s, n_samples) in enumerate(pieces, start=1):
        at_s += wait_s
        player.add(at_s, np.full(n_samples, number, np.float32))
        marks += [(at_s, number)] if n_samples else []
    sound = player.get_sound()
    assert np.count_nonzero(sound) == sum(n_samples for _, n_samples in pieces)
    for came_s, number in marks:
        assert np.argmax(sound == number) / SAMPLE_RATE_HZ >= came_s - 1e-4


def talked_with(*events: tuple[float, str, dict[str, object]], behind_s: float = 0.0) -> TalkRecord:
    """Makes a record of events by their time of arrival; the session's clock is behind the caller's."""
    talked = TalkRecord(start_s=100.0)
    for at_s, kind, data in events:
        talked.note(100.0 + at_s, {"kind": kind, "time_s": at_s - behind_s, "data": data})
    return talked


def test_lines_are_in_the_order_of_beginning_and_pauses_part_the_assistants() -> None:
    talked = talked_with(
        (0.5, "speech_started", {}),
        (1.0, "heard", {"text": "how", "is_final": False}),
        (2.5, "heard", {"text": "how many", "is_final": True}),
        (6.0, "heard", {"text": "", "is_final": True}),
        (9.0, "heard", {"text": "thanks", "is_final": True}),
    )
    for at_s, piece in ((2.0, " Si"), (2.1, "x"), (2.4, "teen."), (7.0, " Bye"), (7.5, " now.")):
        talked.read(100.0 + at_s, piece)
    assert talked.get_lines() == [
        (0.5, "user", "how many"),
        (pytest.approx(2.0), "assistant", "Sixteen."),
        (pytest.approx(7.0), "assistant", "Bye now."),
        (9.0, "user", "thanks"),
    ]


def test_a_whole_oracle_one_cut_off_and_one_unanswered() -> None:
    talked = talked_with(
        (0.0, "oracle_asked", {"oracle": 1, "back_end": "a", "n_words": 2}),
        (0.3, "oracle", {"oracle": 1, "text": "Six", "age_s": 0.3}),
        (0.4, "oracle_asked", {"oracle": 2, "back_end": "b", "n_words": 3}),
        (0.5, "oracle", {"oracle": 2, "text": "Seven", "age_s": 0.1}),
        (0.6, "oracle_done", {"oracle": 2, "n_tokens": 3}),
        (0.7, "oracle_asked", {"oracle": 3, "back_end": "b", "n_words": 5}),
    )
    told = [(each.back_end, each.text, each.age_s, each.state) for each in talked.get_oracles()]
    assert told == [("a", "Six", 0.3, "cut off"), ("b", "Seven", 0.1, "whole"), ("b", "", None, "unanswered")]


@pytest.mark.parametrize("behind_s", [0.0, 3.0])
def test_each_line_of_the_assistant_is_beside_what_it_had_been_told_last(behind_s: float) -> None:
    talked = talked_with(
        (0.5, "heard", {"text": "how many", "is_final": True}),
        (0.6, "oracle_asked", {"oracle": 1, "back_end": "a"}),
        (0.9, "oracle", {"oracle": 1, "text": "Six", "age_s": 0.3}),
        (2.0, "oracle_asked", {"oracle": 2, "back_end": "a"}),
        (4.0, "oracle", {"oracle": 2, "text": "Seven", "age_s": 2.0}),
        behind_s=behind_s,
    )
    for at_s, piece in ((1.0, " six"), (5.0, " seven"), (5.3, " eggs")):
        talked.read(100.0 + at_s, piece)
    assert [text for _, _, text in talked.get_lines()] == ["how many", "six", "seven eggs"]
    assert talked.list_oracles_by_line() == ["", "Six", "Seven"]
    assert talked_with().list_oracles_by_line() == []


def test_events_are_kept_as_they_came_and_the_first_reason_of_an_end_counts(tmp_path: Path) -> None:
    talked = talked_with((1.0, "changed", {"others": ["\ud83d", "é"]}), (2.0, "ended", {"reason": "idle"}))
    talked.end("connection lost")
    assert talked.ended == "idle"
    talked.save(tmp_path)
    written = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()[0]
    assert json.loads(written)["data"] == {"others": ["\ud83d", "é"]}
    assert "é" in written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conversation.wav", "events.jsonl", "transcript.txt"]


def test_an_event_of_another_kind_changes_no_oracle_whatever_it_has() -> None:
    asked = (1.0, "oracle_asked", {"oracle": 1, "back_end": "a"})
    talked = talked_with(asked, (2.0, "sentence_left_out", {"reason": "a", "oracle": []}), (3.0, "new", {"oracle": {}}))
    assert [each.state for each in talked.get_oracles()] == ["unanswered"]


def test_frames_that_were_dropped_are_counted() -> None:
    dropped = [
        (0.1, "dropped", {"direction": each, "n_frames": n}) for each, n in (("heard", 2), ("said", 1), ("heard", 3))
    ]
    assert talked_with(*dropped).count_dropped_frames() == {"heard": 5, "said": 1}
    assert talked_with().count_dropped_frames() == {}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="--out"):
        TalkRecord(0.0).save(tmp_path / "file" / "talk")


def test_a_talk_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talked = talked_with((1.0, "heard", {"text": "how many", "is_final": True}))
    talked.save(tmp_path)  # though there is no sound
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    talked.note(102.0, {"kind": "heard", "time_s": 2.0, "data": {"text": "again", "is_final": True}})
    talked.say(FRAME)

    def interrupted(value: object, **options: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("kame_model.serve.client.talk_record.json.dumps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        talked.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
