"""Metrics of translations and alignments."""

from regard.seq2seq.evaluation import metrics

__all__ = ["metrics"]
