"""Which words there are, and which unknown ones are several that ran together or have a wrong letter."""

import pytest

from pipelines.vocabulary import find_singular, is_misprint, is_word, split_run_together, stands_alone

GLUED = [
    ("colorof", "color of"), ("ofthe", "of the"), ("isit", "is it"), ("wasangry", "was angry"),
    ("transportbetween", "transport between"), ("electricalinsulation", "electrical insulation"),
    ("theairbetween", "the air between"), ("ironsheet", "iron sheet"), ("volumeflowrateof", "volume flow rate of"),
    ("ableto", "able to"),
]  # fmt: skip
WHOLE = ["albumin", "chitin", "vaginalis", "asymptomatic", "anisotropic", "operand", "seisin", "offence",
         "mitochondrion", "effector", "tuberosity", "androgen", "within", "authorised",
         "histone", "sidereal", "windowsill", "carotene", "thermocouple", "metaphase"]  # fmt: skip


@pytest.mark.parametrize(("glued", "words"), GLUED)
def test_words_that_ran_together_are_found(glued: str, words: str) -> None:
    assert " ".join(split_run_together(glued)) == words


@pytest.mark.parametrize("word", WHOLE)
def test_a_term_is_neither_several_words_nor_a_misprint(word: str) -> None:
    assert not split_run_together(word)
    assert not is_misprint(word)


@pytest.mark.parametrize("word", ["theorm", "recieved", "learnitg"])
def test_a_wrong_letter_shows(word: str) -> None:
    assert is_misprint(word)


def test_endings_belong_to_a_word_and_some_parts_stand_before_a_hyphen() -> None:
    assert is_word("kettle")
    assert is_word("reclassifies") or is_word("reclassified")
    assert not is_word("qwrtzing")
    assert [part for part in ("red", "co", "tem") if stands_alone(part)] == ["red", "co"]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("laws", "law"), ("isomers", "isomer"), ("Cities", "City"), ("movies", "movie"), ("ties", "tie"),
        ("gases", "gas"), ("viruses", "virus"), ("classes", "class"), ("horses", "horse"), ("uses", "use"),
        ("co-processes", "co-process"), ("churches", "church"), ("caches", "cache"), ("shoes", "shoe"),
        ("heroes", "hero"), ("hypotheses", "hypothesis"), ("crises", "crisis"),
        ("species", None), ("series", None), ("vertices", None), ("bases", None), ("axes", None),
    ],
)  # fmt: skip
def test_the_singular_of_a_plural_is_a_word_or_unknown(plural: str, singular: str | None) -> None:
    assert find_singular(plural) == singular


def test_a_long_run_of_letters_takes_no_time() -> None:
    assert split_run_together("the" * 20_000) == ()
