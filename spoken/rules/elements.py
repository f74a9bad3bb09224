"""The chemical elements whose symbols occur in texts."""

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
