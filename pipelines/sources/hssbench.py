"""HSSBench, humanities and social sciences, each row with a picture (https://huggingface.co/datasets/dozo/HSSBench).

A row of the open English part: {"id": "40ea…", "pic_path": "eco_1.png", "question": "Which good is cheaper?",
    "options": {"A": "Bread", "B": "Wine"}, "correct_answer": "A", "category": "Economy"}
The six-language form holds `question` and `options` under en, zh, es, fr, ar and ru, next to the other columns.
No licence file was found: read it, never redistribute it or what is made from it.
"""

from pipelines.sources.spec import (
    ENGLISH,
    BadRowError,
    Draft,
    Row,
    SourceSpec,
    find_chosen_option,
    read_optional_text,
    read_options,
    read_text,
)

LANGUAGES = (ENGLISH, "zh", "es", "fr", "ar", "ru")


def list_languages(row: Row) -> tuple[str, ...]:
    """Returns English for a row of the open part, else the languages in which the row has texts."""
    return tuple(each for each in LANGUAGES if row.get(each) is not None) or (ENGLISH,)


def select_language(row: Row, language: str) -> Row:
    """Returns the row in the form of the open part, with its texts in one language; unchanged if it has none in that.

    Raises:
        BadRowError: the column of the language is not an object.
    """
    texts = row.get(language)
    if texts is None:
        return row
    if not isinstance(texts, dict):
        raise BadRowError("wrong_type", f"{language!r} is not an object")
    return {**row, "question": texts.get("question"), "options": texts.get("options")}


def make_draft(row: Row) -> Draft:
    """Makes a draft of a row, whose options are an object of letters and texts; the answer is the right option's text.

    Raises:
        BadRowError: a field is missing or has a wrong type, options are not lettered from A on without a gap, or the
            answer is not one of them.
    """
    lettered = row.get("options")
    if not isinstance(lettered, dict):
        raise BadRowError("wrong_type", "'options' is not an object of letters")
    given = {letter: text for letter, text in lettered.items() if text is not None}  # Parquet adds nulls
    if "".join(sorted(given)) != "ABCDEFGHIJ"[: len(given)]:
        raise BadRowError("wrong_options", f"options are lettered {', '.join(sorted(given))}")
    options = read_options([given[letter] for letter in sorted(given)])
    index = find_chosen_option(options, read_text(row, "correct_answer"))
    return Draft(
        native_id=read_optional_text(row, "id"),
        question=read_text(row, "question"),
        answer=options[index],
        options=options,
        answer_index=index,
        category=read_optional_text(row, "category"),
        picture=read_optional_text(row, "pic_path"),
    )


SPEC = SourceSpec(
    name="hssbench",
    hub_id="dozo/HSSBench",
    hub_config=None,
    hub_split="train",
    licence="none found: not for redistribution",
    columns=("id", "correct_answer"),
    more_columns=("question", "options", *LANGUAGES, "category", "pic_path"),
    draft=make_draft,
    languages_of=list_languages,
    in_language=select_language,
)
