"""Pronunciations in ARPAbet for words that the CMU dictionary lacks.

eSpeak NG writes the word in IPA; `to_arpabet` converts that to the 39 phones of pocketsphinx's English model. Sounds
that English lacks are mapped to the nearest ones: a name pronounced approximately is still found in the audio.
"""

import re
from functools import cache
from typing import Any

from backends.aligner.protocol import AlignmentRefused
from backends.engine import INSTALL_SPEECH
from data_schemas.errors import BackendError

_TABLE = """
aɪ=AY aʊ=AW eɪ=EY oʊ=OW əʊ=OW ɔɪ=OY ɜː=ER iː=IY uː=UW ɑː=AA ɔː=AO oː=AO ɛɹ=EH+R ɑ̃=AA+N ɔ̃=AO+N ɛ̃=EH+N æ̃=AE+N
æ=AE ɑ=AA ɒ=AA a=AA ɔ=AO o=OW ʌ=AH ə=AH ɐ=AH ɘ=AH ɤ=AH ɛ=EH e=EY ɜ=ER ɚ=ER ɝ=ER ø=ER œ=ER ɵ=ER
ɪ=IH ᵻ=IH ɨ=IH i=IY ʊ=UH ʉ=UW u=UW y=UW
tʃ=CH dʒ=JH n̩=AH+N l̩=AH+L m̩=AH+M
b=B d=D f=F ɡ=G g=G h=HH k=K l=L m=M n=N p=P ɹ=R r=R s=S t=T v=V w=W z=Z j=Y ŋ=NG ʃ=SH ʒ=ZH θ=TH ð=DH
ɾ=T ʔ=T ɽ=T ʈ=T ɖ=D ɳ=N ɲ=N+Y ɫ=L ɬ=L ɭ=L ʎ=L+Y x=K χ=K q=K c=K ɣ=G ɟ=G ç=HH ɦ=HH ʁ=R ʀ=R
β=V ɸ=F ɥ=Y ʍ=W ʂ=SH ɕ=SH ʐ=ZH ʑ=ZH
"""
"""IPA=ARPAbet, several phones joined by +: vowels of two signs, vowels of one, then consonants, foreign ones last."""

_PHONES_OF_IPA = {ipa: phones.replace("+", " ") for ipa, phones in (pair.split("=") for pair in _TABLE.split())}
_SYMBOL = re.compile("|".join(sorted(map(re.escape, _PHONES_OF_IPA), key=len, reverse=True)))  # `aɪ` before `a`
_SILENT = re.compile(r"\([a-z-]+\)|[\sˈˌːˑ͡‿ʲʰʷˠ̩̯̪̃̆˞.\-_|]")  # language switches, stress, length, ties and other marks


def to_arpabet(ipa: str) -> str:
    """Converts IPA to space-separated phones for pocketsphinx's `add_word`; empty if `ipa` has no sounds.

    Raises:
        AlignmentRefused: a symbol has no phone; the message names it.
    """
    phones: list[str] = []
    position = 0
    while position < len(ipa):
        if found := _SYMBOL.match(ipa, position):
            phones.append(_PHONES_OF_IPA[found.group()])
        elif not (found := _SILENT.match(ipa, position)):
            raise AlignmentRefused(f"no ARPAbet phone for {ipa[position]!r} of the IPA {ipa!r}")
        position = found.end()
    return " ".join(phones)


def pronounce(word: str) -> str:
    """Returns the ARPAbet phones of one word, separated by spaces, as eSpeak NG's American English pronounces it.

    Raises:
        AlignmentRefused: eSpeak returns nothing for it, or a sound without a phone.
        BackendError: eSpeak does not load.
    """
    ipa = "".join(_load_espeak().phonemize([word], strip=True))
    phones = to_arpabet(ipa)
    if not phones:
        raise AlignmentRefused(f"eSpeak says nothing for the word {word!r}")
    return phones


@cache
def _load_espeak() -> Any:
    """Returns phonemizer's eSpeak NG for American English, loaded once; raises BackendError if it does not load."""
    import espeakng_loader
    from phonemizer.backend import EspeakBackend
    from phonemizer.backend.espeak.wrapper import EspeakWrapper

    try:
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        return EspeakBackend("en-us", with_stress=False)
    except (RuntimeError, OSError) as error:
        raise BackendError(f"eSpeak NG does not load: {error}.", INSTALL_SPEECH) from error
