"""Trainable layers, losses and Adam. A layer is a function ``forward(...) -> (output, pullback)``.

A pullback takes the gradient of the output and returns the gradients of the arguments, in their order.
"""

from regard.nn._convolution import convolution
from regard.nn._gru import gru, gru_sequence, gru_step
from regard.nn._lstm import lstm, lstm_step
from regard.nn._perceptron import perceptron
from regard.nn.activation import gelu, relu, silu
from regard.nn.adam import Adam
from regard.nn.gradients import check_gradients
from regard.nn.heads import MultiHeadGradients, merge_heads, multi_head_attention, split_heads
from regard.nn.layers import dropout, embed, linear, tanh
from regard.nn.loss import cross_entropy, divergence, linear_cross_entropy
from regard.nn.normal import layer_norm, rms_norm

__all__ = [
    "Adam",
    "MultiHeadGradients",
    "check_gradients",
    "convolution",
    "cross_entropy",
    "divergence",
    "dropout",
    "embed",
    "gelu",
    "gru",
    "gru_sequence",
    "gru_step",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "lstm",
    "lstm_step",
    "merge_heads",
    "multi_head_attention",
    "perceptron",
    "relu",
    "rms_norm",
    "silu",
    "split_heads",
    "tanh",
]
