"""Abbreviations that are read in full, and letters that are spelt."""

import re
from typing import Final

from spoken.spoken_text import make_word_set

MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTHS: Final = "|".join(MONTH_NAMES)
MONTH_FORMS: Final = {name[:3]: name for name in MONTH_NAMES if name != "May"} | {"Sept": "September"}
"""Abbreviated months; "Mar", "Jun" and the like are names too, so they count as months only before a day or with a
dot."""

FULL: Final = {
    "e.g": "for example", "i.e": "that is", "E.g": "For example", "I.e": "That is",
    "etc": "et cetera", "vs": "versus", "Mr": "Mister", "Mrs": "Missus",
    "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Gov": "Governor", "Gen": "General", "Sen": "Senator",
    "Capt": "Captain", "Sgt": "Sergeant", "Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Corp": "Corporation",
    "Ltd": "Limited", "approx": "approximately", "et al": "and others", "viz": "namely", "dept": "department",
    "Ave": "Avenue", "avg": "average", "cf": "compare", "ca": "circa", "Rev": "Reverend",
    "Hon": "Honorable", "Lt": "Lieutenant", "Col": "Colonel", "Sec": "Section", "Co": "Company", "Bros": "Brothers",
    "Dept": "Department", "Esq": "Esquire", "esq": "Esquire", "Univ": "University",
    "Atty": "Attorney", "Asst": "Assistant",
    "Mt": "Mount", "mol. wt": "molecular weight", "Mol. wt": "Molecular weight", "at. wt": "atomic weight",
    "sp. gr": "specific gravity", "Sp. gr": "Specific gravity", "Ph.D": "P H D", **MONTH_FORMS,
}  # fmt: skip
"""Abbreviations without their last dot, which they need to match (so "Gen" and "Dec" alone are unchanged)."""

MAY_END: Final = frozenset({"etc", "et al", "al", "Inc", "Corp", "Ltd", "Jr", "Sr", "Co", "Ave", "Ph.D"})
"""Abbreviations with which a sentence may end, so that their dot is also a full stop."""

FULL_WITHOUT_DOT: Final = {"vs": "versus", "etc": "et cetera", "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz",
                           "Dr": "Doctor", "Jr": "Junior", "Sr": "Senior", "ie": "that is", "eg": "for example",
                           "AM": "A M", "US": "U S", "USA": "U S A", "UK": "U K", "WHO": "W H O", "LED": "L E D",
                           "LEDs": "L E Ds", "AD": "A D", "PhD": "P H D", "pH": "P H", "pOH": "P O H",
                           "wt": "weight", "approx": "approximately",
                           "Inc": "Incorporated", "Corp": "Corporation", "Bros": "Brothers",
                           "sq": "square", "avg": "average",
                           "PM": "P M", "pm": "P M"}  # fmt: skip
"""Abbreviations also without a dot, and capitals that the phonemiser or the aligner would take for a word."""

EMPHASISED: Final = make_word_set(
    "ALL ALSO ALWAYS AN AND ANY ARE AT BEST BOTH BUT BY CANNOT CORRECT DO DOES EACH EVERY EXACTLY EXCEPT FALSE FEWER "
    "FIRST FOR FROM HAS HAVE HE HOW IF IN INCORRECT IS LAST LEAST LESS MORE MOST MUST NEVER NO NONE NOR NOT OF OFF ON "
    "ONE ONLY OR OTHER OUT SHE SHOULD SOME THAN THAT THE THEIR THEY THIS THREE TO TOTAL TRUE TWO WAS WERE WHAT WHEN "
    "WHERE WHICH WHY WILL WITH WITHOUT WOULD YES YOU YOUR"
)
"""Words that are capitalised for emphasis; they are read as words, in lower case."""

PLACES: Final = {
    "p": "page", "pp": "pages", "pg": "page", "fig": "figure", "figs": "figures", "vol": "volume", "vols": "volumes",
    "ch": "chapter", "sec": "section", "sect": "section", "eq": "equation", "eqs": "equations", "no": "number",
    "nos": "numbers", "ex": "example", "op": "opus", "pop": "population",
}  # fmt: skip
"""Abbreviations of places in a book, before a number; "2 sec. 5" are seconds."""

RATES: Final = {"min": "minute", "sec": "second", "hr": "hour", "wk": "week", "mo": "month", "yr": "year"}
"""Units that are read in full after a slash."""

TITLED: Final = (
    "World War|Part|Chapter|Title|Article|Phase|Stage|Class|Act|Section|Volume|Book|Schedule|Factor|Algorithm|Method"
    "|Program|Sample|Experiment|Design|meiosis|prophase|metaphase|anaphase|telophase|photosystem|angiotensin|bipolar"
)
"""Words after which a Roman numeral is a number."""


RULERS: Final = (
    "Henry|Louis|Charles|George|James|William|Richard|Edward|Elizabeth|Philip|Napoleon|Nicholas|Alexander|Frederick"
    "|Pius|Gregory|Leo|Urban|Innocent|John|Paul|Catherine|Ramses|Darius|Ptolemy|Benedict|Francis|Ferdinand|Peter|Ivan"
    "|Wilhelm|Gustav|Leopold"
)
"""Names of several kings, queens or popes, after which a numeral of several letters is an ordinal."""


def _write_roman(number: int) -> str:
    """Returns a number below 50 as a Roman numeral."""
    tens, ones = divmod(number, 10)
    return ("X" * tens if tens < 4 else "XL") + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[ones]


ROMAN_VALUES: Final = {_write_roman(number): number for number in range(1, 50)}
ROMAN: Final = "|".join(sorted(ROMAN_VALUES, key=len, reverse=True))
"""Pattern of a Roman numeral below 50; larger ones are mostly abbreviations ("CD", "MC")."""

CAPITALISED: Final = re.compile(r"[A-Z][a-z]{2,}[A-Z][a-z]+")
"""A name with a capital inside whose letters are also chemical symbols."""
