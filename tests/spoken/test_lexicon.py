"""A lexicon comes before all rules; a bad line is told with file and number."""

from pathlib import Path

import pytest

from data_schemas.errors import ConfigError
from spoken.lexicon import DEFAULT_LEXICON, Lexicon, load_lexicon, read_lexicon
from spoken.reader import Reader, read_aloud, speak, use_reader


def test_an_entry_comes_before_the_rules() -> None:
    reader = Reader(Lexicon({"5 kg": "a sack", "SQL": "sequel"}))
    assert reader.read("5 kg of SQL's, SQLs").text == "a sack of sequel's, SQLs"
    assert reader.read("15 kg").text == "fifteen kilograms"
    spoken = Reader(Lexicon({"☃": "snowman"})).read("a ☃ here")
    assert (spoken.text, spoken.spans[1]) == ("a snowman here", (2, 3)), "signs that no rule reads"


def test_a_file_is_read_over_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("# written\tsaid\nSQL\tS Q L\n\nXylo Inc.\tzylo\n", encoding="utf-8")
    lexicon = load_lexicon(str(path))
    assert lexicon.entries["SQL"] == "S Q L"
    assert lexicon.entries["pKa"] == "P K A"
    assert lexicon.digest != load_lexicon(None).digest
    with use_reader(Reader(lexicon)):
        assert speak("SQL at Xylo Inc. today") == "S Q L at zylo today"
    assert speak("SQL") == "SQL"
    path.write_text("# other\nXylo Inc.\tzylo\nSQL\tS Q L\n", encoding="utf-8")
    assert load_lexicon(str(path)).digest == lexicon.digest, "of the entries alone"
    path.write_text("SQL\tS Q L\nXylo Inc.\tzylo\n", encoding="utf-8-sig")
    assert load_lexicon(str(path)).digest == lexicon.digest, "also with a byte order mark"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_lexicon(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("SQL sequel", "no tab"), ("SQL\tse-quel", "letters"), ("SQL\tséquel", "letters"), ("SQL\t", "letters"),
        ("SQL\tSQL\tse-quel", "letters"), ("SQL\tS Q L\tsequel", "one word"), ("SQL\tSQL\tsequel\tmore", "more than 3"),
        ("SQL\tSQL\tsequel\nsql\tSQL\tsee quel", "otherwise"), ("\tsequel", "empty"), ("ok\tfine\nok\tfine", "before"),
        ("\ue000\tfine", "private"),
    ],
)  # fmt: skip
def test_a_bad_line_is_told_with_its_place(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(f"good\tfine\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=fault) as error:
        read_lexicon(path)
    assert f"bad.tsv, line {2 + line.count(chr(10))}" in str(error.value)


def test_saying_our_own_entries_again_changes_nothing() -> None:
    for written, said in read_lexicon(DEFAULT_LEXICON).entries.items():
        spoken = read_aloud(f"the {written} there").text
        assert said in spoken
        assert speak(spoken) == spoken
