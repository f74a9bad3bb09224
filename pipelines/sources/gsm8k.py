r"""GSM8K, grade-school mathematics (Cobbe et al., 2021; https://huggingface.co/datasets/openai/gsm8k).

A row: {"question": "Tom has 3 boxes of 4 pens. How many pens has he?",
        "answer": "He has 3*4 = <<3*4=12>>12 pens.\n#### 12"}
"""

import re

from pipelines.sources.spec import BadRowError, Draft, Row, SourceSpec, read_text

_CALCULATOR_MARK = re.compile(r"<<[^<>]*>>")


def make_draft(row: Row) -> Draft:
    """Makes a draft of a row: the answer is the final number, the explanation the text without calculator marks.

    Raises:
        BadRowError: a field is missing, empty or not text, or the answer has no final number.
    """
    reasoning, mark, final = read_text(row, "answer").rpartition("####")
    if not mark or not final.strip():
        raise BadRowError("no_final_answer", "the answer has no '#### number' at its end")
    explanation = _CALCULATOR_MARK.sub("", reasoning).strip()
    return Draft(question=read_text(row, "question"), answer=final.strip(), explanation=explanation or None)


SPEC = SourceSpec(
    name="gsm8k",
    hub_id="openai/gsm8k",
    hub_config="main",
    hub_split="train",
    licence="MIT",
    columns=("question", "answer"),
    draft=make_draft,
)
