"""Each rewriting by its own example."""

import pytest

from pipelines.script.layout import FIGURES, LABELS, LINES, SIGNS
from pipelines.script.markup import FORMULA, MARKUP
from pipelines.script.misprints import MISPRINTS
from pipelines.script.rewrites import Rewrite
from pipelines.script.sentences import SENTENCES
from pipelines.script.traced import Traced

ALL = [*MARKUP, FORMULA, *LABELS, *SIGNS, *MISPRINTS, *SENTENCES, *FIGURES, *LINES]


@pytest.mark.parametrize("rewrite", ALL, ids=lambda rewrite: rewrite.name)
def test_it_makes_of_its_example_what_it_says(rewrite: Rewrite) -> None:
    made = rewrite(Traced.of(rewrite.example))
    assert made.text == rewrite.becomes != rewrite.example
    assert all(0 <= start <= end <= len(rewrite.example) for start, end in made.origins)


def test_no_two_have_one_name() -> None:
    assert len({rewrite.name for rewrite in ALL}) == len(ALL)
