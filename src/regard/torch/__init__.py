"""Attention in models of PyTorch: recorded without changing them, and computed by regard's kernel on a CPU.

PyTorch is imported when a function is first used.
"""

from regard._recorded import Call, Calls
from regard.torch.computing import attention
from regard.torch.recording import record
from regard.torch.replacing import register, replacing

__all__ = ["Call", "Calls", "attention", "record", "register", "replacing"]
