"""Question sets in their published forms, a row or two of each in its own words."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from data_schemas import ids
from data_schemas.config.questions import QuestionSetName
from data_schemas.errors import ConfigError, SourceError
from kame_model.evaluate.questions.sets import Question, load_questions

ROWS: dict[QuestionSetName, tuple[str, Any, tuple[str, tuple[str, ...]]]] = {
    "web_questions": (
        "webquestions.examples.test.json",
        [
            {
                "url": "http://example.org",
                "targetValue": '(list (description "Jo \\"Jay\\" Bell") (description Judaism))',
                "utterance": "what did jo believe?",
            }
        ],
        ("what did jo believe?", ('Jo "Jay" Bell', "Judaism")),
    ),
    "trivia_qa": (
        "unfiltered-web-dev.json",
        {
            "Data": [
                {
                    "Answer": {"Aliases": ["The Sun", "Sol"], "NormalizedAliases": ["sun"], "Value": "Sun"},
                    "Question": "Which star is nearest?",
                    "QuestionId": "tc_33",
                }
            ],
            "Domain": "Web",
        },
        ("Which star is nearest?", ("Sun", "The Sun", "Sol")),
    ),
    "svamp": (
        "SVAMP.json",
        [
            {
                "ID": "chal-1",
                "Body": "A pack costs 76 dollars. If there is a discount of 25",
                "Question": "How much is it?",
                "Equation": "( 76.0 - 25.0 )",
                "Answer": 51.0,
                "Type": "Subtraction",
            }
        ],
        ("A pack costs 76 dollars. If there is a discount of 25, How much is it?", ("51",)),
    ),
    "multi_arith": (
        "MultiArith.json",
        [{"iIndex": 0, "sQuestion": " He had 8 cats. How many? ", "lEquations": ["X=8"], "lSolutions": [8.5]}],
        ("He had 8 cats. How many?", ("8.5",)),
    ),
    "gsm8k": (
        "test.jsonl",
        [{"question": "How many pens?", "answer": "3*4 = <<3*4=12>>12 pens.\n#### 1,200"}],
        ("How many pens?", ("1,200",)),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_published_file_is_read_from_its_folder(name: QuestionSetName, tmp_path: Path) -> None:
    file, content, (text, answers) = ROWS[name]
    (tmp_path / file).write_text(json.dumps(content))
    found = load_questions(name, str(tmp_path), {})
    assert [(each.text, each.answers) for each in found.questions] == [(text, answers)]
    assert found.n_bad_rows == 0


@pytest.mark.parametrize(
    ("name", "row", "answers"),
    [
        ("web_questions", {"url": "u", "question": "what?", "answers": ["This", "That"]}, ("This", "That")),
        ("trivia_qa", {"question_id": "tc_1", "question": "which?", "answer": {"value": "Sun", "aliases": ["Sol"]}},
         ("Sun", "Sol")),
        ("multi_arith", {"question": "How many?", "final_ans": "8"}, ("8",)),
        ("halueval", {"knowledge": "k", "question": "Who?", "right_answer": "Ann", "hallucinated_answer": "Bo"},
         ("Ann",)),
    ],
)  # fmt: skip
def test_rows_as_the_hub_has_them_are_read(
    name: QuestionSetName, row: dict[str, Any], answers: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(row) + "\n" + json.dumps({"other": 1}) + "\n").encode()))
    found = load_questions(name, str(path), {})
    assert [each.answers for each in found.questions] == [answers]
    assert found.n_bad_rows == 1


def test_options_are_asked_with_their_letters(tmp_path: Path) -> None:
    row = {"question_id": 70, "question": "Which gas?", "options": ["Oxygen", "Helium."], "answer": "B",
           "answer_index": 1, "category": "biology"}  # fmt: skip
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    found = load_questions("mmlu_pro", str(tmp_path / "rows.jsonl"), {})
    text = "Which gas? A: Oxygen. B: Helium."
    wanted = Question("70", text, ("Helium.", "option B"), "biology", options=("Oxygen", "Helium."))
    assert (found.rule, found.questions) == ("option", (wanted,))


def test_llama_questions_have_their_sound_beside_the_table(tmp_path: Path) -> None:
    table = 'Questions\tAnswer\tWav Filename\n What is "it"?\tMany (gods)\t7.wav\nWho?\tBeyoncé \t8.wav\n'
    (tmp_path / "llama_questions_300.tsv").write_text(table, encoding="utf-8")
    with pytest.raises(SourceError, match=r"2 of 2 questions have no sound file.*7\.wav"):
        load_questions("llama_questions", str(tmp_path), {})
    for name in ("7.wav", "8.wav"):
        (tmp_path / name).touch()
    first, second = load_questions("llama_questions", str(tmp_path), {}).questions
    assert first == Question("7", 'What is "it"?', ("Many (gods)", "Many"), "", tmp_path / "7.wav")
    assert second.answers == ("Beyoncé",)


def test_the_digest_of_a_set_is_that_of_its_table_and_of_the_sounds_that_it_names(tmp_path: Path) -> None:
    table = tmp_path / "own.jsonl"
    table.write_text('{"question": "Who?", "answer": "Ann", "sound": "1.wav"}\n{"question": "What?", "answer": "Pi"}\n')

    def digest(sound: bytes) -> str:
        (tmp_path / "1.wav").write_bytes(sound)
        return load_questions("mine", str(table), {}).digest

    assert digest(b"one") == digest(b"one") != digest(b"another")
    found = digest(b"one")
    (tmp_path / "2.wav").write_bytes(b"named nowhere")
    assert digest(b"one") == found
    table.write_text('{"question": "Who?", "answer": "Ann"}\n')
    assert digest(b"one") == ids.compute_sha256(table)[:16], "a set without audio is its table"


def test_a_table_of_ones_own_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("frage,antwort,auch\nWho?,Ann,Anna\nWho?,Bo,\nWhat?,,\n")
    found = load_questions("mine", str(path), {"question": "frage", "answer": "antwort", "aliases": "auch"})
    assert [each.answers for each in found.questions] == [("Ann", "Anna"), ("Bo",)]
    assert len({each.id for each in found.questions}) == 2
    assert found.n_bad_rows == 1


def test_the_digest_of_a_set_is_also_that_of_its_mapped_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "Who?", "right": "Ann", "wrong": "Bo", "name": "1"}\n')

    def digest(**columns: str) -> str:
        return load_questions("mine", str(path), columns).digest

    assert digest(answer="right", id="name") == digest(id="name", answer="right")
    assert digest(answer="right") != digest(answer="wrong")


def test_columns_that_the_set_or_the_file_does_not_have_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"frage": "Who?", "answer": "Ann"}\n{"frage": "Who?", "answer": "Bo", "auch": "Bob"}\n')
    assert len(load_questions("mine", str(path), {"question": "frage", "aliases": "auch"}).questions) == 2
    with pytest.raises(ConfigError, match="the set has no column 'qestion'") as told:
        load_questions("mine", str(path), {"qestion": "frage"})
    assert told.value.remedy == "The set's columns: question, answer, aliases, id, category, sound."
    with pytest.raises(ConfigError, match="the file has no column 'fragen'") as told:
        load_questions("mine", str(path), {"question": "fragen"})
    assert told.value.remedy == "The file's columns: frage, answer, auch."


def test_the_order_of_questions_is_the_seeds(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"question": f"Q{at}?", "answer": "a"}) + "\n" for at in range(50)))
    found = load_questions("mine", str(path), {})
    assert found.draw_questions(1) == found.draw_questions(1) != found.draw_questions(2)
    assert sorted(each.id for each in found.draw_questions(1)) == sorted(each.id for each in found.questions)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"question": "half')
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "number.json").write_text("5")
    (tmp_path / "null.json").write_text('{"Data": null}')
    for path, told in (
        ("broken.jsonl", "cannot be read"),
        ("number.json", "no list of rows"),
        ("null.json", "no list of rows"),
        ("other.jsonl", "no question"),
        ("none", "no file"),
        ("", "is a folder; a file is required for mine"),
    ):
        with pytest.raises(SourceError, match=told):
            load_questions("mine", str(tmp_path / path), {})
    with pytest.raises(SourceError, match=r"does not hold SVAMP\.json"):
        load_questions("svamp", str(tmp_path), {})
    with pytest.raises(ConfigError, match="not on the Hub"):
        load_questions("llama_questions", "", {})


@pytest.mark.full
def test_without_a_path_a_set_is_fetched_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[tuple[str, str | None, str]] = []

    def load(hub_id: str, config: str | None, split: str) -> list[dict[str, Any]]:
        asked.append((hub_id, config, split))
        if hub_id != "openai/gsm8k":
            raise ConnectionError("no network here")
        return [{"question": "How many?", "answer": "#### 3"}]

    monkeypatch.setattr(datasets, "load_dataset", load)
    (question,) = load_questions("gsm8k", "", {}).questions
    assert question.answers == ("3",)
    with pytest.raises(SourceError, match="no network here"):
        load_questions("trivia_qa", "", {})
    assert asked == [("openai/gsm8k", "main", "test"), ("mandarjoshi/trivia_qa", "rc.nocontext", "validation")]
