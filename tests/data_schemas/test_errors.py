"""Errors say what happened and what to do, cross process borders, and end the command with a code of their own."""

import pickle
import re
from pathlib import Path

import pytest

from data_schemas import errors
from data_schemas.errors import KameError

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, KameError)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_crosses_processes_whole(kind: type[KameError]) -> None:
    back = pickle.loads(pickle.dumps(kind("The disk is full.", "Make room.")))
    assert type(back) is kind
    assert (back.what, back.remedy, str(back)) == ("The disk is full.", "Make room.", "The disk is full. Make room.")
    assert str(kind("It broke.")) == "It broke."


def test_each_class_that_ends_a_run_has_an_exit_code_of_its_own_which_the_readme_tells() -> None:
    ending = [each for each in CLASSES if each is not KameError and not issubclass(each, errors.RequestError)]
    codes = {each.exit_code for each in ending}
    assert len(codes) == len(ending)
    told = re.search(r"^Exit codes: (.*?)\.$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert told is not None
    assert {int(number) for number in re.findall(r"\b\d+\b", told[1])} == codes | {0, 1, 130}
