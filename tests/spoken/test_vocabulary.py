"""Words that lost a space or broke at a line's end, mended by the dictionary."""

import pytest

from spoken.reader import speak
from spoken.vocabulary import is_word, parted

GLUED = [
    ("themotor", "the motor"),
    ("colorof", "color of"),
    ("ofthe", "of the"),
    ("isit", "is it"),
    ("wasangry", "was angry"),
    ("transportbetween", "transport between"),
    ("electricalinsulation", "electrical insulation"),
    ("theairbetween", "the air between"),
    ("intheautumn", "in the autumn"),
    ("thetwo", "the two"),
    ("dielectricconstant", "dielectric constant"),
    ("ironsheet", "iron sheet"),
    ("themitochondria", "the mitochondria"),
    ("volumeflowrateof", "volume flow rate of"),
]
WHOLE = ["albumin", "chitin", "vaginalis", "asymptomatic", "anisotropic", "operand", "seisin", "offence",
         "mitochondrion", "effector", "therapist", "tuberosity", "androgen", "photosynthate", "within",
         "histone", "sidereal", "windowsill", "carotene", "autotransformer",
         "barstool", "thermocouple", "metaphase", "psychodrama"]  # fmt: skip
SENTENCES = [
    ("Show why thesail of a boat is longerthan its mast.", "Show why the sail of a boat is longer than its mast."),
    ("A garden-er is repay-able and her tempera- ture fell.", "A gardener is repayable and her temperature fell."),
    ("A mul-tiplier is a well-known two-part tool.", "A multiplier is a well known two part tool."),
    ("Mono- and disaccharides", "Mono and disaccharides"),
    ("A rope 20cmslong", "A rope twenty centimeters long"),
    ("Steam at 15psiaand 40°C", "Steam at fifteen pounds per square inch absolute and forty degrees Celsius"),
    ("f(x) = 6x^2where x is small", "f of x equals six x squared where x is small"),
    ("Then AnnaBakeris late.", "Then Anna Baker is late."),
    ("STAFFStaff may smoke.", "STAFF Staff may smoke."),
    ("Add 5 g ofNaCl to water.", "Add five grams of N A C L to water."),
    (
        "The gasare warm, payinga fee. Howmuchin all doeshe owe?",
        "The gas are warm, paying a fee. How much in all does he owe?",
    ),
    ("What washis loss ofthe day?", "What was his loss of the day?"),
    ("It moves inelectronvoltsof work for fiveyears.", "It moves in electron volts of work for five years."),
    ("the theory ofuniformitarianism", "the theory of uniformitarianism"),
    ("the Nusseltnumber and the diffusivityof it", "the Nusselt number and the diffusivity of it"),
    ("A con-cave glass was re-leased to re-sign.", "A concave glass was released to re sign."),
    ("We use JavaScript and PowerPoint.", "We use JavaScript and PowerPoint."),
    # what ran into a term, a unit, a pronoun or a name
    ("a counteremfof 5 volts, 3 voltsrms", "a counter E M F of five volts, three volts r m s"),
    ("the forms and termsof it", "the forms and terms of it"),
    ("How far did heswim? Shouldhe do heavy work?", "How far did he swim? Should he do heavy work?"),
    ("60 milesper hour, no whisper", "sixty miles per hour, no whisper"),
    ("a 100-Wlamp and a 4-Wheel cart", "a one hundred watt lamp and a four Wheel cart"),
    ("Aspaceship leaves. Aplano-convex lens", "A spaceship leaves. A plano convex lens"),
    ("Akira swims. Arsenic is grey.", "Akira swims. Arsenic is grey."),
    ("How did Ricardomodifythis rule?", "How did Ricardo modify this rule?"),
    ("the two of aJaminrefractometerare long", "the two of a Jamin refractometer are long"),
    ("Lewisand Clark saw Legoland in Holland.", "Lewis and Clark saw Legoland in Holland."),
    ("some calciumsulfate anddiscreetly", "some calcium sulfate and discreetly"),
    (
        "work done on asystem, sucha one aswell wellas onany abiotic one",
        "work done on a system, such a one as well well as on any abiotic one",
    ),
    ("theohmicheat of theearth's core", "the ohmic heat of the earth's core"),
    ("the angularmomenta of it", "the angular momenta of it"),
    ("a force at anemfK of 3 volts", "a force at an E M F K of three volts"),
    ("When will hejoinin? How can heparin help?", "When will he join in? How can heparin help?"),
    ("the cells have protoplasmsthatare thick", "the cells have protoplasms that are thick"),
    (
        "0.10 MHOAcsolution with 2 MNaOAc, a loss ofHOAcis seen",
        "zero point one zero molar H O A C solution with two molar N A O A C, a loss of H O A C is seen",
    ),
    # letters that a scanner misread
    ("the attomey worked at a jewefry stall", "the attorney worked at a jewelry stall"),
    ("the pili and sinh of it", "the pili and sinh of it"),
]


@pytest.mark.parametrize(("glued", "said"), GLUED)
def test_a_lost_space_is_put_back_where_one_reading_is_left(glued: str, said: str) -> None:
    assert " ".join(parted(glued)) == said


@pytest.mark.parametrize("word", WHOLE)
def test_a_term_is_left_whole(word: str) -> None:
    assert parted(word) == (word,)
    assert speak(f"What is {word}?") == f"What is {word}?"


def test_a_doubtful_space_is_put_back_only_in_a_text_that_lost_others() -> None:
    assert speak("What speedis that?") == "What speedis that?"
    assert speak("What speedis that of thewheel?") == "What speed is that of the wheel?"


@pytest.mark.parametrize(("written", "said"), SENTENCES)
def test_sentences(written: str, said: str) -> None:
    assert speak(written) == said


def test_an_article_and_a_person_are_parted_at_the_start_of_a_sentence() -> None:
    assert speak("Awoman swam. Ajury sat.") == "A woman swam. A jury sat."
    assert speak("Aman swam. Then Aman sat.") == "Aman swam. Then Aman sat."
    assert speak("Aman, a tribe, swam. Abank") == "Aman, a tribe, swam. Abank"


def test_a_name_is_parted_from_the_term_of_what_is_too_long_for_a_word() -> None:
    assert speak("the Keldonhoferdiffraction of it") == "the Keldonhofer diffraction of it"


def test_endings_belong_to_a_word() -> None:
    assert is_word("kettle")
    assert is_word("reclassifies") or is_word("reclassified")
    assert not is_word("qwrtzing")


def test_a_long_run_of_letters_takes_no_time() -> None:
    assert parted("the" * 20_000) == ("the" * 20_000,)
