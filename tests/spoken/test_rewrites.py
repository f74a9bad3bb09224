"""Each rewriting by its own example."""

import pytest

from spoken.written.layout import FIGURES, LABELS, LINES, SIGNS
from spoken.written.markup import FORMULA, MARKUP
from spoken.written.notation import NOTATION
from spoken.written.rewrite import Rewrite
from spoken.written.sentences import SENTENCES
from spoken.written.traced import Traced

ALL = [*MARKUP, FORMULA, *LABELS, *SIGNS, *SENTENCES, *NOTATION, *FIGURES, *LINES]


@pytest.mark.parametrize("rewrite", ALL, ids=lambda rewrite: rewrite.name)
def test_it_makes_of_its_example_what_it_says(rewrite: Rewrite) -> None:
    made = rewrite(Traced.of(rewrite.example))
    assert made.text == rewrite.becomes != rewrite.example
    assert all(0 <= start <= end <= len(rewrite.example) for start, end in made.origins)


def test_no_two_have_one_name() -> None:
    assert len({rewrite.name for rewrite in ALL}) == len(ALL)
