"""Attention in models of PyTorch: recorded without changing them, and computed by regard's kernel on a CPU.

PyTorch is imported when a function is first used.
"""

from regard._recorded import RecordedCall, RecordedCalls
from regard.torch.computing import attention
from regard.torch.implementation import register, replacing
from regard.torch.recording import record

__all__ = ["RecordedCall", "RecordedCalls", "attention", "record", "register", "replacing"]
