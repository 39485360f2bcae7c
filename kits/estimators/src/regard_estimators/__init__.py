"""Attention as an estimator: training rows are the keys, their targets the values, and the score is learned."""

from regard_estimators.classifier import AttentionClassifier
from regard_estimators.regressor import AttentionRegressor

__all__ = ["AttentionClassifier", "AttentionRegressor"]
