"""What shows that a row is broken at its source; nothing is put right, and a live answer is said as it is."""

import pytest

from pipelines.script.broken import find_broken_span
from spoken.reader import read_aloud

BROKEN = [
    ("Find the force of thespring.", "thespring"),
    ("Which xyleneand oil mix?", "xyleneand"),
    ("The frequencyf of a wave", "frequencyf"),
    ("What isthe cause?", "isthe"),
    ("Aspaceship leaves, and it is long.", "Aspaceship"),
    ("Aplano convex lens is long.", "Aplano"),
    ("Find the mass Dfor this.", "Dfor"),
    ("What did Lewisand Clark see?", "Lewisand"),
    ("Prove that theorm.", "theorm"),
    ("The tempera- ture fell by a de-gree.", "tempera- ture"),
    ("The trial is long It is a sad one.", "g It is"),
    ("If a hen lays two eggs. How many do three lay?", "If a hen lays two eggs."),
    ("She bought the the hen.", "the the"),
    ("What the volume of oil that was used?", "What the volume of oil that was used?"),
    ("Ariella met Bo, and then Arialla left.", "Arialla"),
]
SOUND = [
    "Her red-eyed co-workers resign from a well-known two-part job.",
    "Isabela and Roland saw Legoland in Holland, and he had had enough of that.",
    "If a hen lays two eggs, how many do three lay?",
    "The mitochondrion of albumin is asymptomatic.",
    "A carbon-carbon bond, an avoidance-avoidance conflict and CO_2 + H_2 → H^+ + X.",
    "The non-custodial, co-habiting parent bought a bi-convex lens with a contralateral habitus.",
    "An embryogenesis needs an ATPase and papillomavirus. The 20-amp line is in a lytic state.",
    "If the demand for eggs rises.",
    "Weng paid 12 dollars for x + y.",
    "It rose by 0.003 percent, and he did 20 push-ups by the blue-eyed pike.",
    "If you buy one hen you pay two dollars. Ann's T-shirt has an A on it.",
]


@pytest.mark.parametrize(("written", "span"), BROKEN)
def test_what_is_broken_is_found(written: str, span: str) -> None:
    assert find_broken_span(written, read_aloud(written).text) == span


@pytest.mark.parametrize("written", SOUND)
def test_what_is_sound_is_not(written: str) -> None:
    assert find_broken_span(written, read_aloud(written).text) is None
