"""Each rule of reading by its own example."""

import pytest

from spoken.reader import Unspeakable, speak
from spoken.rules.rule import Rule, record_fired_rules
from spoken.rules.table import RULES
from spoken.written.normalise import REWRITINGS
from spoken.written.traced import TracedText


@pytest.mark.parametrize("rule", REWRITINGS, ids=lambda rule: rule.name)
def test_it_makes_of_its_example_what_it_says(rule: Rule) -> None:
    made = rule.rewrite(TracedText.from_written(rule.example))
    assert made.text == rule.expected != rule.example
    assert all(0 <= start <= end <= len(rule.example) for start, end in made.origins)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_it_reads_its_example_as_it_says(rule: Rule) -> None:
    with record_fired_rules() as fired:
        try:
            said = speak(rule.example)
        except Unspeakable as refused:
            assert rule.kind == "refused"
            said = refused.reason
    assert said == rule.expected
    assert rule.name in fired


def test_no_two_have_one_name() -> None:
    names = [rule.name for rule in (*REWRITINGS, *RULES)]
    assert len(set(names)) == len(names)
