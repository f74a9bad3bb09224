import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.quality.word_errors import compare_transcript, make_hearing
from spoken.number_words import count_number_words, parse_number_words, split_numbers
from spoken.rules.numerals import spell_cardinal, spell_ordinal, spell_year


@given(number=st.integers(0, 10**13 - 1))
def test_every_number_read_out_has_its_value_again(number: int) -> None:
    words = spell_cardinal(number).split()
    assert count_number_words(words, 0) == len(words)
    assert parse_number_words(words) == str(number)
    assert parse_number_words(spell_ordinal(number).split()) == f"{number}#"


@given(number=st.integers(1100, 2099))
def test_a_year_has_the_value_of_its_number(number: int) -> None:
    assert parse_number_words(spell_year(number).split()) == str(number)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("three point one four", "3.14"), ("point five", "0.5"), ("a hundred and twenty", "120"),
        ("nineteen hundred", "1900"), ("twenty oh eight", "2008"), ("twenty five", "25"), ("five twenty", "520"),
        ("two hundred thousand and six", "200006"), ("two thirds", "23#"), ("minus thirty two", "-32"),
        ("negative five", "-5"), ("minus zero point five", "-0.5"), ("minus point five", "-0.5"),
    ],
)  # fmt: skip
def test_readings_have_values(said: str, value: str) -> None:
    assert count_number_words(said.split(), 0) == len(said.split())
    assert parse_number_words(said.split()) == value


@pytest.mark.parametrize(
    "said", ["and then", "point taken", "a hen", "seconds later", "oh dear", "north", "minus", "minus x"]
)
def test_other_words_are_no_numbers(said: str) -> None:
    assert count_number_words(said.split(), 0) == 0


@pytest.mark.parametrize("said", ["dogs", "a dog", "two dogs", "minus x", "two point x"])
def test_other_words_than_numbers_are_told(said: str) -> None:
    with pytest.raises(ValueError, match=f"'{said.split()[-1]}' is not a number word"):
        parse_number_words(said.split())
    with pytest.raises(ValueError, match=f"'{said.split()[-1]}' is not a number word"):
        split_numbers(said.split())


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("In nineteen fourteen, three men met.", "In 1914 3 men met"),
        ("It costs five dollars and fifty cents.", "it costs $5.50."),
        ("Twenty three point five percent of the colour.", "23.5 per cent of the color"),
        ("I bought four apples for two.", "I bought for apples four to"),
        ("The D N A of U S farms, okay.", "The DNA of US farms, OK"),
        ("Mister Brown's book shelf.", "Mr. Brown's bookshelf"),
        ("Nineteen fourteen was the year.", "One thousand nine hundred and fourteen was the year."),
        ("Their mail is there.", "there male is their"),
        ("What is the second one?", "What is the 2nd one?"),
        ("It is minus five.", "It is negative five."),
        ("It is negative thirty two.", "It is -32."),
        ("Seven minus four is three.", "7 minus 4 is 3"),
    ],
)
def test_another_way_of_writing_is_no_error(said: str, heard: str) -> None:
    found = compare_transcript(said, heard)
    assert found.n_word_errors == 0
    assert found.n_numbers_heard == found.n_numbers


@pytest.mark.parametrize(
    ("said", "heard", "n_errors", "numbers"),
    [
        ("He has one hundred twenty pigs.", "He has 125 pigs.", 1, (1, 0)),
        ("Add thirteen to six.", "Add thirty to six.", 1, (2, 1)),
        ("Four plus three.", "plus three", 1, (2, 1)),
        ("Blue whales eat krill.", "", 4, (0, 0)),
        ("It is minus thirty two.", "It is thirty two.", 1, (1, 0)),
        ("It is five.", "It is minus five.", 1, (1, 0)),
        ("Ten minus four.", "Ten four.", 3, (2, 0)),
        ("Yes.", "Yes, sir, of course.", 3, (0, 0)),
    ],
)
def test_what_is_heard_otherwise_is_counted(said: str, heard: str, n_errors: int, numbers: tuple[int, int]) -> None:
    found = compare_transcript(said, heard)
    assert found.n_word_errors == n_errors
    assert (found.n_numbers, found.n_numbers_heard) == numbers


@pytest.mark.parametrize(
    ("said", "heard", "n_names", "n_heard", "n_errors"),
    [
        ("Then Natalia met Siobhan in Kyoto. I saw DNA.", "Then Natalya met Shivon in Boston. I saw DNA.", 3, 2, 3),
        ("Weng earns two dollars. Natalia sold clips.", "She earns two dollars. Natalya sold clips.", 2, 1, 2),
        ("She asked Peter to leave.", "She asked to leave.", 1, 0, 1),
    ],
)
def test_names_are_heard_by_sound_though_written_otherwise_they_are_errors_of_words(
    said: str, heard: str, n_names: int, n_heard: int, n_errors: int
) -> None:
    found = compare_transcript(said, heard)
    assert (found.n_names, found.n_names_heard, found.n_word_errors) == (n_names, n_heard, n_errors)


WORDS = st.lists(st.sampled_from(["two", "hundred", "and", "Paul", "the", "seventh", "point", "a", "car"]), min_size=1)


@given(words=WORDS)
def test_what_is_heard_as_said_has_no_errors_and_there_is_a_verdict_for_each_word(words: list[str]) -> None:
    text = " ".join(words)
    found = compare_transcript(text, text + ".")
    assert found.n_word_errors == 0
    assert (found.n_numbers_heard, found.n_names_heard) == (found.n_numbers, found.n_names)
    assert len(compare_transcript(text, "the hundred cars").is_heard) == len(words)


def test_a_row_keeps_the_transcript_as_it_was_written() -> None:
    hearing = make_hearing(compare_transcript("Twenty cars.", "20 cars!"), "20 cars!", n_takes=2)
    assert (hearing.text, hearing.n_words, hearing.n_word_errors, hearing.n_takes) == ("20 cars!", 2, 0, 2)


@pytest.mark.parametrize(
    ("said", "heard", "n_misheard"),
    [
        ("It's Siobhan.", "It's Shivon.", 0), ("It's Al Khwarizmi.", "Its alkwarizmi", 0),
        ("The organelle is a mitochondrion.", "The organelle is a mito chondrian.", 0),
        ("Then Natalia came.", "Then Natalya came.", 0), ("It decreases.", "At decreases.", 0),
        ("It's Paris.", "It's Berlin.", 1), ("They increase.", "They decrease.", 1),
        ("It's substitutes.", "It substitutes.", 0), ("Right. That's sixty litres.", "Write that sixty liters.", 0),
        ("It's cats.", "It dogs.", 1), ("He met Iran.", "He met Iraq.", 1), ("It can't.", "It cannot.", 0),
        ("They don't.", "They do not.", 0), ("It is gold.", "It's gold.", 0), ("Glycolysis.", "Glycolisis.", 0),
        ("It was hyperthyroidism.", "It was hypothyroidism.", 1), ("Potassium chlorate.", "Potassium chlorite.", 1),
        ("Yes.", "No.", 1), ("Yes.", "", 1), ("She saw a ship.", "She saw a sheep.", 1),
    ],
)  # fmt: skip
def test_a_spelling_of_a_rare_word_is_forgiven_and_another_word_is_not(said: str, heard: str, n_misheard: int) -> None:
    found = compare_transcript(said, heard)
    assert found.n_misheard == n_misheard
    assert all(found.is_heard) == (n_misheard == 0)


@pytest.mark.parametrize(
    ("said", "heard", "has_negations"),
    [
        ("They do not float on water.", "They don't float on water.", True),
        ("They cannot float on water.", "They can not float on water.", True),
        ("I know that it floats.", "I no that it floats.", True),
        ("They do not float on water.", "They do float on water.", False),
        ("They float on water.", "They never float on water.", False),
        ("It can't float on water.", "It can float on water.", False),
        ("Not x minus y.", "Not x y.", False),
        ("No.", "", False),
    ],
)
def test_negations_are_heard_or_not(said: str, heard: str, has_negations: bool) -> None:
    assert compare_transcript(said, heard).has_negations == has_negations
