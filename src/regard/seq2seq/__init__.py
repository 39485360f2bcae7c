"""Sequence to sequence with attention: networks, texts, training, search, alignments, measures and files."""

from importlib import import_module
from types import ModuleType

from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.pairs import read_pairs
from regard.seq2seq.translator import Translation

__all__ = ["Ensemble", "Seq2Seq", "Translation", "read_pairs"]


def __getattr__(name: str) -> ModuleType:
    """Import the measures when they are first used."""
    if name == "measure":
        return import_module("regard.seq2seq.measure")
    raise AttributeError(f"module 'regard.seq2seq' has no attribute {name!r}")
