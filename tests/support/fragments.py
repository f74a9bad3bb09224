"""Texts joined at random from the forms that the rules of reading know."""

import re

from hypothesis import strategies as st

from spoken.rules.abbreviations import ROMAN_VALUES

TEN = st.integers(13, 99).filter(lambda number: number % 10 != 0).map(str)
NUMBER = st.one_of(TEN, st.integers(101, 9999).filter(lambda number: number % 10 != 0).map(str))
ROMAN = st.sampled_from(sorted(ROMAN_VALUES))


def filled(*forms: str) -> st.SearchStrategy[str]:
    """Returns texts of these forms; # becomes a number, § a number of two digits, and ¤ a Roman numeral."""
    places = {"#": NUMBER, "§": TEN, "¤": ROMAN}
    pieces = [
        st.tuples(*[places.get(part, st.just(part)) for part in re.split("([#§¤])", form) if part]) for form in forms
    ]
    return st.one_of(pieces).map("".join)


FRAGMENTS = st.one_of(
    NUMBER,
    filled("#th", "§nd", "§%", "§.§", "#,#", "1/§", "§/§", "§-§", "§:§", "§!", "§s", "§'s", "-#", "+#", "§ §"),
    filled("§ kg", "§kW", "§°C", "§ m/s^2", "§ mol", "§ Ω resistor", "§ in.", "§ h § min", "§ K", "§ A"),
    filled('§"', "§'", "§' §\"", "§° §' §\"", "§″ x §″", '"', "'", "''", '"§"', "“§”", "``#''"),
    filled("$#", "$§.§", "€#", "£§ million", "§¢", "$§k", "§ cents"),
    filled("March §, 19§", "Sept. §", "§ BC", "in 19§", "(b. 19§)", ", c. 18§", "17:§", "00:§", "5:§ p.m.", "the 18§s"),
    filled("¤", "¤th", "¤ century", "¤th and ¤th centuries", "Louis ¤", "Pope John ¤", "World War ¤", "Type ¤"),
    filled("x = #", "§**§", "x**2", "a ** §", "x^§", "x_§", "10^{-§}", "§ × 10^§", "§e-15", "log_§", "|§|", "f(§)"),
    filled("(#)", "[§]", "{§}", "(§, §]", "(", ")", "[", "]", "|", "‖", "**§**", "*§*", "__§__", "**"),
    filled(r"\frac{§}{§}", "$§ + x$", r"\sqrt{§}", r"\text{ § m}", r"\alpha_§", r"§ \cdot 10^{§}", "$$§$$", r"\pm §"),
    filled("H2O", "C-§", "^{§}U", "Fe(¤)", "p. §", "Fig. §", "Eq. (§)", "No. §", "U.S.", "Dr. Who", "e.g.", "AT&T"),
    filled("§\n§", "a.com/x", "a.org", "½", "§x²", "§₂", "<b>§</b>", "&lt;§", "§...", "§ — §", "§ ≤ §", "§->§", "§±§"),
    st.sampled_from(sorted("+-=*/<>≤≠≈^_,.;:?!&%$°~√∑∫π→")),
    st.sampled_from(["the cat", "is", "of", "A", "b", "x", "and", "per", "How many", "What is"]),
)
TEXTS = st.lists(st.tuples(FRAGMENTS, st.sampled_from([" ", " ", "", "\n"])), min_size=1, max_size=6).map(
    lambda pieces: "".join(fragment + gap for fragment, gap in pieces)
)
