"""Where sentences end in written answers, and that nothing comes later that would have it otherwise."""

import pytest

from spoken.sentences import find_sentence_end, split_sentences

PARTED = [
    ["It is nine.", "Or ten?", "Yes!"],
    ["He said “no.”", "Then he left."],
    ["Dr. Smith met J. Doe at 10 St. James St. in town.", "They talked."],
    ["She moved to the U.S. in May.", "The U.S. Senate voted.", "It is in Washington, D.C.", "It's big."],
    ["It is 5 p.m. in Rome.", "Come at 6 p.m.", "The shop is open."],
    ["Cats, dogs, etc. are pets.", "Cats, dogs, etc.", "They are pets."],
    ["Add 3 tbsp. butter and approx. 5 ft. of rope.", "It is 5 ft.", "The rest is long."],
    ["See Fig. 3 and No. 5.", "No.", "That is wrong."],
    ["The total is 5.", "The rest is 3.5."],
    ["1. Boil water.", "2) Wait."],
    ["Three: 1. Rome, 2. Bonn."],
    ["Well... no.", "Wait...", "What?"],
    ["So 5! = 120.", "The sum 1 + 2 + ... + 10 is 55."],
    ["Use e.g. this one, i.e. Mr. Lee's (cf. Smith et al. 2010)."],
]


@pytest.mark.parametrize("sentences", PARTED)
def test_a_text_is_parted_where_its_sentences_end(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize("sentences", PARTED)
def test_an_end_that_is_told_stays_whatever_is_written_on(sentences: list[str]) -> None:
    text = " ".join(sentences)
    whole = find_sentence_end(text)
    told = {find_sentence_end(text[:n_chars]) for n_chars in range(len(text))} - {None}
    assert told <= {whole}


def test_a_line_s_end_ends_a_sentence() -> None:
    assert split_sentences("It is so\nand so\n\n") == ["It is so", "and so"]
