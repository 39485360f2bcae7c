"""Translation with attention: a bidirectional GRU encoder, a GRU decoder, and additive attention between them."""

from regard.seq2seq.model import Seq2Seq, Translation
from regard.seq2seq.pairs import read_pairs

__all__ = ["Seq2Seq", "Translation", "read_pairs"]
