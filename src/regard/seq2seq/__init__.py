"""Sequence to sequence with attention: networks, texts, training, search, alignments, measures and files."""

from regard.seq2seq.data.parallel_text import read_pairs
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.translator import Translation

__all__ = ["Ensemble", "Seq2Seq", "Translation", "read_pairs"]
