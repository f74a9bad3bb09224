"""What is said of chat models' answers: common forms rightly, and of what cannot be said nothing but its sentence."""

from collections.abc import Callable

import pytest

from spoken import reader
from spoken.chat_answers import MAX_CHARS, speak_answer, speak_sentence
from spoken.first_paragraph import strip_paragraph
from spoken.spoken_text import Unspeakable

SAID = [
    ("5! is 120. The answer is 42!", "five factorial is one hundred twenty. The answer is forty two!"),
    ("The date was 12/25/2020, not 5 Dec 2019.",
     "The date was December twenty fifth, twenty twenty, not the fifth of December, twenty nineteen."),
    ("On Mon., Jan. 5 we meet; it's open Mon-Fri, 9am-5pm.",
     "On Monday, January fifth we meet; it's open Monday to Friday, nine in the morning to five in the evening."),
    ("It came out on Sept. 26, 1969.", "It came out on September twenty sixth, nineteen sixty nine."),
    ("In 1066 the duke won. It took 1066 men.",
     "In ten sixty six the duke won. It took one thousand sixty six men."),
    ('It is 5" wide, on 8.5" x 11" paper.',
     "It is five inches wide, on eight point five inches by eleven inches paper."),
    ("He is 5'10\" tall. The room is 12' x 15'.",
     "He is five foot ten tall. The room is twelve feet by fifteen feet."),
    ("In the XIX century Henry VIII and Queen Elizabeth I were long dead.",
     "In the nineteenth century Henry the Eighth and Queen Elizabeth the First were long dead."),
    ("The flight takes 3h 30m. It leaves at 5 p.m. It is late.",
     "The flight takes three hours thirty minutes. It leaves at five in the evening. It is late."),
    ("St. Paul is 10 mi. away, on Main St. in town.", "Saint Paul is ten miles away, on Main Street in town."),
    ("The 9/11 attacks, a 50/50 chance, open 24/7, I rate it 8/10.",
     "The nine eleven attacks, a fifty fifty chance, open twenty four seven, I rate it eight out of ten."),
    ("Use C++, see README.md or www.example.com.", "Use C plus plus, see README dot m d or example dot com."),
    ("Write to help@example.com.", "Write to help at example dot com."),
    ("Call 911 or (555) 123-4567.", "Call nine one one or five five five, one two three, four five six seven."),
    ("**Paris** is the #1 [city](https://example.com/a?b=c) 😊.[1][2]", "Paris is the number one city."),
    ("1. Preheat the oven to 350°F.", "one, Preheat the oven to three hundred fifty degrees Fahrenheit."),
    ("Three cities: 1. Paris, 2. Rome, 3. Bonn.", "Three cities: one, Paris, two, Rome, three, Bonn."),
    ("• Paris • Rome", "Paris, Rome"),
    ("The Lakers won 112-98.", "The Lakers won one hundred twelve to ninety eight."),
    ("It costs $20-30, or $5-$10 million.", "It costs twenty to thirty dollars, or five to ten million dollars."),
    ("iOS 17.2.1 has 10k fans.", "i O S seventeen point two point one has ten thousand fans."),
    ("Pi is ≈ 3.14, with an error of <5% or 1e-5.",
     "Pi is approximately equal to three point one four, with an error of less than five percent or one times ten to "
     "the power of minus five."),
    ("A 5G phone at 4.30pm.", "A five G phone at four thirty in the afternoon."),
    ("O'Brien likes Hà Nội and Łódź.", "O'Brien likes Ha Noi and Lodz."),
    ("The answer is $\\boxed{42}$.", "The answer is forty two."),
    ("Plato (c. 428-348 BC) wrote it c. 380 BC.",
     "Plato, circa four hundred twenty eight to three hundred forty eight BC, wrote it circa three hundred eighty BC."),
]  # fmt: skip

LEFT_OUT = [
    "A probability lies in [0, 1].", "A value with 0<p<1 works.", "It is about 10−14 m.",
    "See https://example.com/page?id=3 for more.", "Go to Settings > Privacy.", "He ran it in 2:01:09.",
    "It rained on 5/6/2020.", "It rained on 25/00/2020.", "It rained on 2020-25-12.", "The Japanese word is 猫.",
    "It grew in 2019/20.", 'He called it 7/8".',
]  # fmt: skip


def said_of(answer: str) -> str:
    return " ".join(each for each in speak_answer(strip_paragraph(answer)) if isinstance(each, str))


@pytest.mark.parametrize(("written", "said"), SAID)
def test_common_forms_are_said(written: str, said: str) -> None:
    assert said_of(written) == said


@pytest.mark.parametrize("sentence", LEFT_OUT)
def test_what_cannot_be_said_costs_its_sentence_alone(sentence: str) -> None:
    assert said_of(f"It is so. {sentence} That is all.") == "It is so. That is all."


def test_a_sentence_is_read_by_what_was_written_before_it_and_each_reason_is_told() -> None:
    assert said_of("Heat the water. It boils at 100 C.") == "Heat the water. It boils at one hundred degrees Celsius."
    with pytest.raises(Unspeakable):
        speak_sentence("It is 100 C.")
    assert speak_sentence("Is it at 5 p.m.?") == "Is it at five in the evening?"
    assert speak_sentence('He said "at noon."') == "He said at noon."
    refusals = speak_answer("It is in [0, 1]. It is 猫.")
    assert [each.reason for each in refusals if isinstance(each, Unspeakable)] == ["formula", "non_latin"]


@pytest.mark.parametrize(("speak", "most"), [(speak_sentence, MAX_CHARS), (reader.speak, reader.MAX_CHARS)])
def test_a_text_without_end_is_refused_before_it_is_read(speak: Callable[[str], str], most: int) -> None:
    assert len(speak("word " * (most // 5))) == most - 1
    with pytest.raises(Unspeakable) as refused:
        speak("word " * (most // 5) + "s")
    assert refused.value.reason == "too_long"
