"""Attention as an estimator: training rows are the keys, their targets the values, and the score is learned."""

from regard.estimators.classifier import AttentionClassifier
from regard.estimators.memory import AttentionMemory
from regard.estimators.regressor import AttentionRegressor

__all__ = ["AttentionClassifier", "AttentionMemory", "AttentionRegressor"]
