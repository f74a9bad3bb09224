"""The chemical elements that texts name by their symbols."""

from typing import Final

NAMES: Final = {
    "H": "hydrogen", "He": "helium", "Li": "lithium", "Be": "beryllium", "B": "boron", "C": "carbon", "N": "nitrogen",
    "O": "oxygen", "F": "fluorine", "Ne": "neon", "Na": "sodium", "Mg": "magnesium", "Al": "aluminum",
    "Si": "silicon", "P": "phosphorus", "S": "sulfur", "Cl": "chlorine", "Ar": "argon", "K": "potassium",
    "Ca": "calcium", "Ti": "titanium", "Cr": "chromium", "Mn": "manganese", "Fe": "iron", "Co": "cobalt",
    "Ni": "nickel", "Cu": "copper", "Zn": "zinc", "As": "arsenic", "Se": "selenium", "Br": "bromine", "Kr": "krypton",
    "Rb": "rubidium", "Sr": "strontium", "Zr": "zirconium", "Mo": "molybdenum", "Tc": "technetium", "Ag": "silver",
    "Cd": "cadmium", "In": "indium", "Sn": "tin", "Sb": "antimony", "Te": "tellurium", "I": "iodine", "Xe": "xenon",
    "Cs": "cesium", "Ba": "barium", "Ce": "cerium", "Dy": "dysprosium", "W": "tungsten", "Pt": "platinum",
    "Au": "gold", "Hg": "mercury", "Tl": "thallium", "Pb": "lead", "Bi": "bismuth", "Po": "polonium",
    "At": "astatine", "Rn": "radon", "Ra": "radium", "Th": "thorium", "U": "uranium", "Pu": "plutonium",
    "Rh": "rhodium", "Pd": "palladium", "V": "vanadium", "Ga": "gallium", "Ge": "germanium", "D": "deuterium",
    "Sc": "scandium", "Y": "yttrium", "La": "lanthanum", "Eu": "europium", "Gd": "gadolinium",
}  # fmt: skip
_WEIGHTS: Final = {
    "H": 1, "He": 4, "Li": 7, "Be": 9, "B": 11, "C": 12, "N": 14, "O": 16, "F": 19, "Ne": 20, "Na": 23, "Mg": 24,
    "Al": 27, "Si": 28, "P": 31, "S": 32, "Cl": 35, "Ar": 40, "K": 39, "Ca": 40, "Ti": 48, "Cr": 52, "Mn": 55,
    "Fe": 56, "Co": 59, "Ni": 59, "Cu": 64, "Zn": 65, "As": 75, "Se": 79, "Br": 80, "Kr": 84, "Rb": 85, "Sr": 88,
    "Zr": 91, "Mo": 96, "Tc": 98, "Ag": 108, "Cd": 112, "In": 115, "Sn": 119, "Sb": 122, "Te": 128, "I": 127,
    "Xe": 131, "Cs": 133, "Ba": 137, "Ce": 140, "Dy": 163, "W": 184, "Pt": 195, "Au": 197, "Hg": 201, "Tl": 204,
    "Pb": 207, "Bi": 209, "Po": 209, "At": 210, "Rn": 222, "Ra": 226, "Th": 232, "U": 238, "Pu": 244, "Rh": 103,
    "Pd": 106, "V": 51, "Ga": 70, "Ge": 73, "D": 2, "Sc": 45, "Y": 89, "La": 139, "Eu": 152, "Gd": 157,
}  # fmt: skip
"""Standard atomic weights of IUPAC, rounded; of an element without a stable isotope that of the longest-lived."""

_SPREAD: Final = 10
_LEAST_SPREAD: Final = 2
"""Isotopes that people speak of have a mass within a tenth of the weight of their element, or within 2 of it."""


def masses_of(symbol: str) -> range:
    """The masses that make "C-14" an isotope; "K-12", "I-95" and "C-130" are none."""
    weight = _WEIGHTS[symbol]
    spread = max(_LEAST_SPREAD, weight // _SPREAD)
    return range(weight - spread, weight + spread + 1)
