"""MMLU-Pro, exam questions with up to ten options (Wang et al., 2024; https://huggingface.co/datasets/TIGER-Lab/MMLU-Pro).

A row: {"question_id": 70, "question": "Which gas do plants take in?", "options": ["Oxygen", "Carbon dioxide"],
        "answer": "B", "answer_index": 1, "cot_content": "", "category": "biology", "src": "ori_mmlu-biology"}
"""

from pipelines.sources.spec import (
    BadRowError,
    Draft,
    Row,
    SourceSpec,
    find_chosen_option,
    read_optional_text,
    read_options,
    read_text,
)


def make_draft(row: Row) -> Draft:
    """Makes a draft of a row; the answer is the text of the right option.

    Raises:
        BadRowError: a field is missing or has a wrong type, or letter and index do not name the same option.
    """
    options = read_options(row.get("options"))
    index = find_chosen_option(options, read_text(row, "answer"))
    if row.get("answer_index", index) != index:
        raise BadRowError("answer_mismatch", f"answer {row['answer']!r} but answer_index {row['answer_index']!r}")
    return Draft(
        native_id=read_optional_text(row, "question_id"),
        question=read_text(row, "question"),
        answer=options[index],
        explanation=read_optional_text(row, "cot_content"),
        options=options,
        answer_index=index,
        category=read_optional_text(row, "category"),
    )


SPEC = SourceSpec(
    name="mmlu_pro",
    hub_id="TIGER-Lab/MMLU-Pro",
    hub_config=None,
    hub_split="test",
    licence="MIT",
    columns=("question_id", "question", "options", "answer"),
    more_columns=("answer_index", "cot_content", "category"),
    draft=make_draft,
)
