"""Sequence to sequence with attention: networks, texts, training, search, alignments, measures and files."""

from importlib import import_module
from types import ModuleType

from regard.seq2seq.alignment.links import links
from regard.seq2seq.alignment.symmetrize import symmetrize
from regard.seq2seq.corpus.pairs import read_pairs
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import Images, Source, Text, Vectors
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.loop import TrainingStep
from regard.seq2seq.translator import Translation, Translator

__all__ = [
    "Ensemble",
    "Images",
    "Scoring",
    "Seq2Seq",
    "Source",
    "Text",
    "TrainingConfig",
    "TrainingStep",
    "Translation",
    "Translator",
    "Vectors",
    "evaluation",
    "links",
    "read_pairs",
    "symmetrize",
]


def __getattr__(name: str) -> ModuleType:
    """Import the metrics when they are first used."""
    if name == "evaluation":
        return import_module("regard.seq2seq.evaluation")
    raise AttributeError(f"module 'regard.seq2seq' has no attribute {name!r}")
