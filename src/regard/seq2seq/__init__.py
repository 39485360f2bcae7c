"""Sequence to sequence with attention: networks, texts, training, search, alignments, measures and files."""

from regard.seq2seq.model import Seq2Seq, Translation
from regard.seq2seq.pairs import read_pairs

__all__ = ["Seq2Seq", "Translation", "read_pairs"]
