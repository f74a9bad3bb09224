"""Units of measure: how each is written, and its name for one and for many."""

from typing import Final

REGULAR: Final = {
    "¢": "cent",
    "mm": "millimeter", "cm": "centimeter", "dm": "decimeter", "m": "meter", "km": "kilometer", "nm": "nanometer",
    "pm": "picometer", "fm": "femtometer", "um": "micrometer", "mg": "milligram", "g": "gram", "gm": "gram",
    "gms": "gram", "kg": "kilogram", "Kg": "kilogram", "ug": "microgram", "mcg": "microgram", "ng": "nanogram",
    "pg": "picogram", "ml": "milliliter", "mL": "milliliter", "dl": "deciliter", "dL": "deciliter", "cl": "centiliter",
    "l": "liter", "L": "liter", "kL": "kiloliter", "fL": "femtoliter", "μL": "microliter", "μl": "microliter",
    "cc": "cubic centimeter", "s": "second", "sec": "second", "secs": "second", "ms": "millisecond",
    "msec": "millisecond", "nsec": "nanosecond",
    "ns": "nanosecond", "ps": "picosecond", "fs": "femtosecond", "min": "minute", "mins": "minute", "h": "hour",
    "hr": "hour", "hrs": "hour", "wk": "week", "yr": "year", "yrs": "year", "yd": "yard", "yds": "yard", "mi": "mile",
    "lb": "pound", "lbs": "pound", "lbm": "pound mass", "lbf": "pound force", "lb_f": "pound force",
    "lb_m": "pound mass", "kgs": "kilogram", "slug": "slug", "slugs": "slug", "Ω": "ohm", "kΩ": "kilohm",
    "MΩ": "megohm", "μΩ": "microhm", "mΩ": "milliohm", "Å": "angstrom", "μm": "micrometer", "μg": "microgram",
    "μs": "microsecond", "μsec": "microsecond", "μC": "microcoulomb", "nC": "nanocoulomb", "mC": "millicoulomb",
    "mH": "millihenry", "μH": "microhenry", "μF": "microfarad", "μf": "microfarad", "pF": "picofarad",
    "nF": "nanofarad", "pC": "picocoulomb", "nA": "nanoamp", "pA": "picoamp",
    "μV": "microvolt", "μA": "microamp", "μM": "micromolar", "μW": "microwatt",
    "coul": "coulomb", "coulomb": "coulomb", "coulombs": "coulomb", "amu": "atomic mass unit", "oz": "ounce",
    "pt": "pint", "qt": "quart", "qts": "quart", "gal": "gallon", "tsp": "teaspoon", "tbsp": "tablespoon",
    "J": "joule", "kJ": "kilojoule", "MJ": "megajoule", "mJ": "millijoule", "GJ": "gigajoule", "cal": "calorie",
    "kcal": "kilocalorie", "Kcal": "kilocalorie", "Cal": "calorie", "erg": "erg", "ergs": "erg",
    "eV": "electron volt", "ev": "electron volt", "keV": "kilo electron volt", "MeV": "mega electron volt",
    "Mev": "mega electron volt", "GeV": "giga electron volt", "TeV": "tera electron volt",
    "BeV": "giga electron volt", "W": "watt",
    "mW": "milliwatt", "MN": "meganewton", "KJ": "kilojoule", "Mpa": "megapascal", "Kpa": "kilopascal",
    "lm": "lumen", "lx": "lux", "Deg": "degree", "microns": "micron",
    "kW": "kilowatt", "kw": "kilowatt", "KW": "kilowatt", "MW": "megawatt", "GW": "gigawatt",
    "kWh": "kilowatt hour", "V": "volt", "mV": "millivolt", "kV": "kilovolt", "mA": "milliamp", "A": "amp",
    "amps": "amp", "amp": "amp", "ma": "milliamp", "N": "newton", "kN": "kilonewton", "KN": "kilonewton",
    "mN": "millinewton",
    "nt": "newton", "Nt": "newton", "Pa": "pascal", "kPa": "kilopascal", "KPa": "kilopascal", "MPa": "megapascal",
    "GPa": "gigapascal", "atm": "atmosphere", "mol": "mole", "moles": "mole", "mole": "mole", "mmol": "millimole",
    "kmol": "kilomole", "μmol": "micromole", "lbmol": "pound mole", "gmol": "gram mole",
    "kgmol": "kilogram mole", "rad": "radian",
    "sr": "steradian", "diopter": "diopter", "dyn": "dyne", "dyne": "dyne",
    "dynes": "dyne", "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "mho": "mho", "mhos": "mho",
    "ohm": "ohm", "ohms": "ohm", "H": "henry", "Wb": "weber", "Ci": "curie", "mCi": "millicurie", "rem": "rem",
    "mT": "millitesla", "mEq": "milliequivalent", "meq": "milliequivalent", "kip": "kip",
    "kips": "kip", "ton": "ton", "tons": "ton", "deg": "degree", "liter": "liter", "liters": "liter",
    "meter": "meter", "meters": "meter", "watt": "watt", "watts": "watt", "volt": "volt", "volts": "volt",
    "joule": "joule", "joules": "joule", "newton": "newton", "newtons": "newton", "second": "second",
    "seconds": "second", "minute": "minute", "hour": "hour", "hours": "hour", "day": "day", "days": "day",
    "gram": "gram", "grams": "gram", "centimeter": "centimeter", "feet": "foot", "pound": "pound", "pounds": "pound",
    "kilometer": "kilometer", "kilogram": "kilogram", "year": "year", "years": "year", "yard": "yard",
    "molecules": "molecule", "electrons": "electron", "rev": "revolution", "revs": "revolution", "Gyr": "giga year",
    "kPaabs": "kilopascal absolute", "henry": "henry", "henries": "henry", "eu": "entropy unit", "Nm": "newton meter",
}  # fmt: skip
UNCHANGING: Final = {
    "Hz": "hertz", "kHz": "kilohertz", "KHz": "kilohertz", "MHz": "megahertz", "Mhz": "megahertz", "GHz": "gigahertz",
    "THz": "terahertz", "K": "kelvin", "kW-h": "kilowatt hours", "mph": "miles per hour", "MPH": "miles per hour",
    "hp": "horsepower", "HP": "horsepower", "fps": "feet per second", "T": "tesla", "μT": "microtesla",
    "cfs": "cubic feet per second", "gpm": "gallons per minute", "GPM": "gallons per minute",
    "cfm": "cubic feet per minute", "fpm": "feet per minute", "cps": "cycles per second",
    "vps": "vibrations per second", "psia": "pounds per square inch absolute",
    "Psia": "pounds per square inch absolute", "Psi": "pounds per square inch", "psig": "pounds per square inch gauge",
    "Mbps": "megabits per second", "kbps": "kilobits per second", "Gbps": "gigabits per second",
    "MBps": "megabytes per second", "sq ft": "square feet", "sq. ft.": "square feet", "sq. ft": "square feet",
    "sq. in.": "square inches", "sq. in": "square inches", "sq in": "square inches", "cu ft": "cubic feet",
    "cu cm": "cubic centimeters", "psf": "pounds per square foot", "kwhr": "kilowatt hours", "kWhr": "kilowatt hours",
    "cu. ft.": "cubic feet", "cu. ft": "cubic feet", "cu. in.": "cubic inches", "sq. km": "square kilometers",
    "sq m": "square meters", "sq km": "square kilometers", "sq mi": "square miles", "sq. m": "square meters",
    "mpg": "miles per gallon", "rpm": "revolutions per minute", "RPM": "revolutions per minute", "torr": "torr",
    "Torr": "torr", "bar": "bar", "mbar": "millibar", "kph": "kilometers per hour", "psi": "pounds per square inch",
    "mmHg": "millimeters of mercury", "mm Hg": "millimeters of mercury", "cm Hg": "centimeters of mercury",
    "in Hg": "inches of mercury", "in. Hg": "inches of mercury", "dB": "decibels", "db": "decibels",
    "dBm": "decibel milliwatts", "ppm": "parts per million", "ppb": "parts per billion", "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit", "°K": "kelvin", "°R": "degrees Rankine", "C°": "degrees Celsius",
    "F°": "degrees Fahrenheit", "°A": "angstroms", "A°": "angstroms", "bps": "bits per second",
    "°": "degrees", "Btu": "B T U",
    "BTU": "B T U", "B.T.U.": "B T U", "kVA": "kilovolt amperes", "kva": "kilovolt amperes", "KVA": "kilovolt amperes",
    "kVAR": "kilovars", "M": "molar", "mM": "millimolar", "nM": "nanomolar", "IU": "international units",
    "Da": "daltons", "kDa": "kilodaltons", "kbp": "kilobase pairs", "bp": "base pairs", "diopters": "diopters",
    "dptr": "diopters", "dptrs": "diopters", "cP": "centipoise", "cp": "centipoise",
    "nt-m": "newton meters", "lumens": "lumens", "Mbytes": "megabytes", "kmph": "kilometers per hour",
}  # fmt: skip
IRREGULAR: Final = {"″": ("inch", "inches"), "ft": ("foot", "feet"), "in": ("inch", "inches"),
                    "inch": ("inch", "inches"), "inches": ("inch", "inches"), "foot": ("foot", "feet"),
                    "G": ("gauss", "gauss"), "Gs": ("gauss", "gauss")}  # fmt: skip
WORDS_AS_UNITS: Final = tuple(
    name
    for name in sorted({*REGULAR, *IRREGULAR}, key=len, reverse=True)
    if name in REGULAR.values() or name.removesuffix("s") in REGULAR.values() or name in {"feet", "foot", "inches"}
)
"""Units written out, which are words like others unless something stands over or under them."""

LENGTHS: Final = frozenset({"mm", "cm", "dm", "m", "km", "nm", "μm", "pm", "ft", "in", "inch", "yd", "mi", "meter",
                            "centimeter", "feet", "foot", "kilometer", "mile", "inches", "meters"})  # fmt: skip
"""What "square" and "cubic" are said of; other units are squared."""
