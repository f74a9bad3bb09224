r"""Reads question sets in their published formats, as questions to be spoken with their accepted answers.

| set | file | a row | questions |
|---|---|---|---|
| llama_questions | llama_questions_300.tsv | Questions, Answer, Wav Filename | in wav files beside it |
| web_questions | webquestions.examples.test.json | utterance, targetValue: (list (description "…") …) | text |
| trivia_qa | wikipedia-dev.json, unfiltered-web-dev.json | QuestionId, Question, Answer: {Value, Aliases} | text |
| halueval | qa_data.json, a row a line | knowledge, question, right_answer, hallucinated_answer | text |
| svamp | SVAMP.json | ID, Body, Question, Equation, Answer, Type | text |
| multi_arith | MultiArith.json | iIndex, sQuestion, lEquations, lSolutions | text |
| gsm8k | test.jsonl | question, answer, whose last line is "#### 18" | text |
| mmlu_pro | Parquet or JSONL | question_id, question, options, answer (a letter), category | text, options said |
| mine | any of these | question, answer; aliases, id, category, sound | as its sound says, or text |

The sets' versions on the Hugging Face Hub, with other column names, are supported too.
"""

import csv
import gzip
import io
import json
import random
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from data_schemas import ids
from data_schemas.config.questions import QuestionSetName
from data_schemas.errors import ConfigError, SourceError
from kame_model.evaluate.answers.scoring import Rule, list_accepted_forms

Row = Mapping[str, Any]

_DESCRIPTION: Final = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()\s]+))\)')
_ENDS_CLAUSE: Final = (".", "?", "!", ",", ";", ":")
_LETTERS: Final = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        id: unique in its set.
        text: the written text to be spoken, including its options.
        answers: accepted answers as written; the first is the reference for judges.
        category: category for tables; empty: none.
        sound: its audio file; None: it is synthesised.
        options: all options, letter A first; empty: none.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    category: str = ""
    sound: Path | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of a file; `rule` is how responses are scored, `digest` is a hash of the contents of the file, of
    the audio files that it names, and of the mapping of columns."""

    name: str
    rule: Rule
    digest: str
    questions: tuple[Question, ...]
    n_bad_rows: int

    def draw_questions(self, seed: int) -> list[Question]:
        """Returns all questions, shuffled by the seed."""
        drawn = list(self.questions)
        random.Random(seed).shuffle(drawn)
        return drawn


class _BadRowError(Exception):
    """A row without question or answer."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How a set is read: its columns in the published format and on the Hub; file names in a folder; the dataset on the
    Hub with its configuration and split. `read` raises a _BadRowError, LookupError, TypeError or ValueError for a
    malformed row."""

    read: Callable[[Row, Path], Question]
    rule: Rule
    columns: tuple[str, ...]
    files: tuple[str, ...]
    hub: tuple[str, str | None, str] | None = None


def _convert_llama_question(row: Row, folder: Path) -> Question:
    """Makes a question from a row, with its audio file in the folder."""
    name = _get_text(row, "Wav Filename")
    return Question(
        Path(name).stem, _get_text(row, "Questions"), list_accepted_forms(_get_text(row, "Answer")), "", folder / name
    )


def _convert_web_question(row: Row, folder: Path) -> Question:
    """Makes a question from a row of the published file, or of the Hub, which has the column `answers`."""
    if "answers" in row:
        return _make_question("", _get_text(row, "question"), list(row["answers"]))
    found = _DESCRIPTION.findall(_get_text(row, "targetValue"))
    return _make_question(
        "", _get_text(row, "utterance"), [quoted.replace('\\"', '"') or bare for quoted, bare in found]
    )


def _convert_trivia_qa(row: Row, folder: Path) -> Question:
    """Makes a question from a row of the published file, or of the Hub, whose columns are in lower case.

    The answer's value and all its aliases are accepted.
    """
    if "Answer" in row:
        answer = row["Answer"]
        return _make_question(
            _get_text(row, "QuestionId"), _get_text(row, "Question"), [answer["Value"], *answer["Aliases"]]
        )
    answer = row["answer"]
    return _make_question(
        _get_text(row, "question_id"), _get_text(row, "question"), [answer["value"], *answer["aliases"]]
    )


def _convert_halueval(row: Row, folder: Path) -> Question:
    """Makes a question from a row, with its right answer only."""
    return _make_question("", _get_text(row, "question"), [_get_text(row, "right_answer")])


def _convert_svamp(row: Row, folder: Path) -> Question:
    """Makes a question from a row: its body, followed by its question."""
    body = _get_text(row, "Body")
    joined = f"{body}{'' if body.endswith(_ENDS_CLAUSE) else ','} {_get_text(row, 'Question')}"
    return _make_question(_get_text(row, "ID"), joined, [_format_number(row["Answer"])])


def _convert_multi_arith(row: Row, folder: Path) -> Question:
    """Makes a question from a row of the published file, or of the Hub, which has other columns."""
    if "sQuestion" in row:
        return _make_question(str(row["iIndex"]), _get_text(row, "sQuestion"), [_format_number(row["lSolutions"][0])])
    return _make_question("", _get_text(row, "question"), [_format_number(row["final_ans"])])


def _convert_gsm8k(row: Row, folder: Path) -> Question:
    """Makes a question from a row, with the number after "####" as its answer."""
    _, mark, final = _get_text(row, "answer").rpartition("####")
    if not mark:
        raise _BadRowError
    return _make_question("", _get_text(row, "question"), [final])


def _convert_mmlu_pro(row: Row, folder: Path) -> Question:
    """Makes a question with all options in its text; right are the option's text and "option" with its letter."""
    options, letter = [str(each).strip() for each in row["options"]], _get_text(row, "answer")
    said = " ".join(f"{_LETTERS[at]}: {each.rstrip('.')}." for at, each in enumerate(options))
    right = options[_LETTERS.index(letter)]
    return Question(
        str(row["question_id"]),
        f"{_get_text(row, 'question')} {said}",
        (*list_accepted_forms(right), f"option {letter}"),
        str(row.get("category") or ""),
        options=tuple(options),
    )


def _convert_own_question(row: Row, folder: Path) -> Question:
    """Makes a question from a row of a user's file; `aliases` may be one text or a list."""
    aliases = row.get("aliases") or []
    answers = [_get_text(row, "answer"), *([aliases] if isinstance(aliases, str) else aliases)]
    sound = folder / str(row["sound"]) if row.get("sound") else None
    return _make_question(
        str(row.get("id") or ""), _get_text(row, "question"), answers, str(row.get("category") or ""), sound
    )


_FORMS: Final[Mapping[QuestionSetName, _Form]] = {
    "llama_questions": _Form(
        _convert_llama_question, "said", ("Questions", "Answer", "Wav Filename"), ("llama_questions_300.tsv",)
    ),
    "web_questions": _Form(
        _convert_web_question,
        "said",
        ("utterance", "targetValue", "question", "answers"),
        ("webquestions.examples.test.json",),
        ("stanfordnlp/web_questions", None, "test"),
    ),
    "trivia_qa": _Form(
        _convert_trivia_qa,
        "said",
        ("QuestionId", "Question", "Answer", "question_id", "question", "answer"),
        ("wikipedia-dev.json", "unfiltered-web-dev.json"),
        ("mandarjoshi/trivia_qa", "rc.nocontext", "validation"),
    ),
    "halueval": _Form(
        _convert_halueval,
        "said",
        ("question", "right_answer"),
        ("qa_data.json",),
        ("pminervini/HaluEval", "qa", "data"),
    ),
    "svamp": _Form(
        _convert_svamp,
        "last_number",
        ("ID", "Body", "Question", "Answer"),
        ("SVAMP.json",),
        ("ChilleD/SVAMP", None, "test"),
    ),
    "multi_arith": _Form(
        _convert_multi_arith,
        "last_number",
        ("iIndex", "sQuestion", "lSolutions", "question", "final_ans"),
        ("MultiArith.json",),
        ("ChilleD/MultiArith", None, "test"),
    ),
    "gsm8k": _Form(
        _convert_gsm8k, "last_number", ("question", "answer"), ("test.jsonl",), ("openai/gsm8k", "main", "test")
    ),
    "mmlu_pro": _Form(
        _convert_mmlu_pro,
        "option",
        ("question_id", "question", "options", "answer", "category"),
        (),
        ("TIGER-Lab/MMLU-Pro", None, "test"),
    ),
    "mine": _Form(_convert_own_question, "said", ("question", "answer", "aliases", "id", "category", "sound"), ()),
}


def load_questions(name: QuestionSetName, path: str, columns: Mapping[str, str]) -> QuestionSet:
    """Loads the questions of a set; malformed rows are skipped and counted (`n_bad_rows`).

    Args:
        path: its file, or a folder that has it under its published name; empty: it is downloaded from the Hugging Face
            Hub.
        columns: maps column names of the set to those of the file.

    Raises:
        ConfigError: a mapped column does not exist in the set or the file, or the set is not on the Hub.
        SourceError: the file does not exist, cannot be read, has no question, or an audio file is missing or cannot be
            read.
    """
    form = _FORMS[name]
    if path:
        file = _find_file(name, Path(path).expanduser(), form)
        rows, folder, digest = _read_rows(file), file.parent, ids.compute_sha256(file)[:16]
    else:
        hub_rows = _read_hub(name, form)
        rows, folder, digest = hub_rows, Path(), ids.digest(hub_rows)
    _check_columns(columns, form.columns, list(dict.fromkeys(str(name) for row in rows for name in row)))
    questions, n_bad, taken = list[Question](), 0, set[str]()
    for row in rows:
        try:
            question = form.read({**row, **{field: row.get(column) for field, column in columns.items()}}, folder)
        except (_BadRowError, LookupError, TypeError, ValueError):
            n_bad += 1
            continue
        if question.id in taken:
            question = _rename_duplicate(question, taken)
        taken.add(question.id)
        questions.append(question)
    if not questions:
        raise SourceError(
            f"{path or name} has no question of the form of {name} ({n_bad} rows are of another).",
            "Name the set that it is, or map its columns: --questions mine --map question=COLUMN,answer=COLUMN.",
        )
    _check_sounds(questions)
    sounds = _digest_sounds(questions)
    digest = ids.digest(digest, sounds) if sounds else digest
    digest = ids.digest(digest, "columns", sorted(columns.items())) if columns else digest
    return QuestionSet(name, form.rule, digest, tuple(questions), n_bad)


def _check_columns(columns: Mapping[str, str], set_columns: Sequence[str], file_columns: Sequence[str]) -> None:
    """Raises a ConfigError if a mapped column is missing from the set (`set_columns`) or the file (`file_columns`)."""
    for whose, mapped, known in (("set", columns.keys(), set_columns), ("file", columns.values(), file_columns)):
        if missing := [name for name in mapped if name not in known]:
            raise ConfigError(
                f"--map: the {whose} has no column {', '.join(map(repr, missing))}.",
                f"The {whose}'s columns: {', '.join(known)}.",
            )


def _make_question(
    id_: str, text: str, answers: Sequence[object], category: str = "", sound: Path | None = None
) -> Question:
    """Makes a question with all accepted forms of its answers; without an id, it gets one by its text."""
    forms = [form for answer in answers for form in list_accepted_forms(str(answer))]
    if not forms:
        raise _BadRowError
    return Question(id_ or f"q-{ids.digest(text)}", text, tuple(dict.fromkeys(forms)), category, sound)


def _rename_duplicate(question: Question, taken: set[str]) -> Question:
    """Returns the question with a number after its id, so that the id is not among those taken."""
    number = next(number for number in range(2, len(taken) + 3) if f"{question.id}-{number}" not in taken)
    return replace(question, id=f"{question.id}-{number}")


def _get_text(row: Row, column: str) -> str:
    """Returns the text or number in a column as one line of text; raises a _BadRowError if it is empty or neither.

    It raises a KeyError if the column does not exist.
    """
    value = row[column]
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise _BadRowError
    return " ".join(str(value).split())


def _format_number(value: object) -> str:
    """Returns a number as text, without ".0" if it is whole: 51.0 gives "51"."""
    number = float(str(value).replace(",", ""))
    return str(int(number)) if number.is_integer() else str(number)


def _check_sounds(questions: Sequence[Question]) -> None:
    """Raises a SourceError if an audio file of a question does not exist."""
    absent = [question.sound for question in questions if question.sound is not None and not question.sound.is_file()]
    if absent:
        raise SourceError(
            f"{len(absent)} of {len(questions)} questions have no sound file, the first one {absent[0]}.",
            "Put the files beside the table; or have the questions spoken: --questions mine, with --map.",
        )


def _digest_sounds(questions: Sequence[Question]) -> list[str]:
    """Returns the digests of the questions' audio files, in order; questions without audio have none.

    Raises:
        SourceError: a file cannot be read.
    """
    try:
        return [ids.compute_sha256(question.sound) for question in questions if question.sound is not None]
    except OSError as error:
        raise SourceError(f"An audio file cannot be read: {error}.", "Check its permissions and the disk.") from error


def _find_file(name: str, path: Path, form: _Form) -> Path:
    """Returns the path itself, or the set's file in a folder by its published name; raises a SourceError if missing."""
    if path.is_dir():
        found = next((path / each for each in form.files if (path / each).is_file()), None)
        if found is None:
            known = " or ".join(form.files)
            problem = f"does not hold {known}" if known else "is a folder; a file is required"
            raise SourceError(f"{path} {problem} for {name}.", "Name the file itself with --path.")
        return found
    if not path.is_file():
        raise SourceError(f"There is no file {path}.", "Name a file or folder of the set with --path.")
    return path


def _read_rows(path: Path) -> list[Row]:
    """Reads all rows of a file; raises a SourceError if it cannot be read."""
    try:
        return list(_read_table(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read: {error}.", "Download it again, or check its format.") from error


def _read_table(path: Path) -> Iterator[Row]:
    """Reads rows of a table (tsv, csv), of Parquet, or of JSON: a list, a list under `Data`, or JSON Lines.

    The name's suffix decides; it may end in `.gz`. Rows of JSON that are no objects are skipped.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        yield from pq.read_table(path).to_pylist()
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        text = file.read().decode("utf-8-sig")
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix in {".tsv", ".csv"}:
        is_tsv = suffix == ".tsv"
        yield from csv.DictReader(
            io.StringIO(text, newline=""),
            delimiter="\t" if is_tsv else ",",
            quoting=csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL,
        )
        return
    try:
        whole = json.loads(text)
    except ValueError:
        whole = [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(whole, dict):
        whole = whole.get("Data", [whole])
    if not isinstance(whole, list):
        raise ValueError("it has no list of rows")
    yield from (row for row in whole if isinstance(row, dict))


def _read_hub(name: str, form: _Form) -> list[Row]:
    """Reads all rows of a set from the Hugging Face Hub.

    Raises:
        ConfigError: the set is not there.
        SourceError: it cannot be read.
    """
    if form.hub is None:
        raise ConfigError(f"The set {name} is not on the Hub in this form.", "Name its file with --path.")
    import datasets

    hub_id, config, split = form.hub
    try:
        return list(datasets.load_dataset(hub_id, config, split=split))
    except Exception as error:  # the Hub's clients raise errors of many libraries
        first = str(error).strip().split("\n")[0][:300]
        raise SourceError(
            f"Cannot read {hub_id} from the Hugging Face Hub: {type(error).__name__}: {first}.",
            "Check the network and HF_TOKEN, or download the file and name it with --path.",
        ) from error
