"""Pronunciation dictionaries: words and their phones, in the formats of other programs and in the symbols of a voice.

A dictionary is read with `read`, which recognises the format from the content, and written with `write`, which lists
what the format or the voice cannot represent::

    lexicon = pronunciation.read("words.dict")
    symbols = pronunciation.read_symbols("tokens.txt")
    pronunciation.write(lexicon, "lexicon.txt", "sherpa-kokoro", symbols=symbols)

`FORMATS` lists the formats. A `Pronouncer` has the words of a dictionary, and others from a trained model.

Examples
--------
>>> import regard_lexicon as pronunciation
>>> lexicon = pronunciation.Lexicon([("cat", ["k", "æ", "t"])])
>>> lexicon["cat"][0].phones
('k', 'æ', 't')
"""

from regard_lexicon.formats import FORMATS, Format
from regard_lexicon.lexicon import Lexicon, Variant
from regard_lexicon.preparing import LeftOut, Prepared, prepare, write
from regard_lexicon.pronouncer import Pronouncer, Pronunciation
from regard_lexicon.reading import read
from regard_lexicon.symbols import read_phone_map, read_symbols

__all__ = [
    "FORMATS",
    "Format",
    "LeftOut",
    "Lexicon",
    "Prepared",
    "Pronouncer",
    "Pronunciation",
    "Variant",
    "prepare",
    "read",
    "read_phone_map",
    "read_symbols",
    "write",
]
