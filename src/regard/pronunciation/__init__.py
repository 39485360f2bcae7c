"""Pronunciation dictionaries: words and their phones, in the formats of twelve programs and in the symbols of a voice.

A dictionary is read with `read`, which recognises the format from the content, and written with `write`, which lists
what the format or the voice cannot represent::

    lexicon = pronunciation.read("words.dict")
    symbols = pronunciation.read_symbols("tokens.txt")
    pronunciation.write(lexicon, "lexicon.txt", "sherpa-kokoro", symbols=symbols)

`FORMATS` lists the formats. A `Pronouncer` has the words of a dictionary, and others from a trained model.

Examples
--------
>>> from regard import pronunciation
>>> lexicon = pronunciation.Lexicon([("cat", ["k", "æ", "t"])])
>>> lexicon["cat"][0].phones
('k', 'æ', 't')
"""

from regard.pronunciation.formats import FORMATS, Format
from regard.pronunciation.lexicon import Lexicon, Variant
from regard.pronunciation.preparing import LeftOut, Prepared, prepare, write
from regard.pronunciation.pronouncer import Pronouncer, Pronunciation
from regard.pronunciation.reading import read
from regard.pronunciation.symbols import read_phone_map, read_symbols

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
