"""Joint n-grams of source and target tokens (graphones), and the letter-sound aligner that cuts pairs into them."""

from regard.seq2seq.extras.graphones.em_aligner import align_pairs

__all__ = ["align_pairs"]
