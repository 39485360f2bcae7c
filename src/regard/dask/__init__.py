"""Attention over Dask arrays, lazily: larger than memory, larger than a machine.

Every visible pair of a chunk of queries and a chunk of keys is one task, `regard.partial`, and a tree of `regard.merge`
combines them. Nothing here schedules: the graph runs on Dask's threads or processes, or on a `distributed` cluster.
Dask is imported when a function is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.dask.backward import attention_vjp
    from regard.dask.forward import attention

__all__ = ["attention", "attention_vjp"]

_LAZY = {"attention": "forward", "attention_vjp": "backward"}


def __getattr__(name: str) -> Any:
    """Import a function, and with it Dask, when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"regard.dask.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "dask":
            raise
        raise ModuleNotFoundError("regard.dask needs Dask: pip install 'regard[dask]'", name="dask") from None


def __dir__() -> list[str]:
    """List what `__getattr__` finds, too."""
    return sorted({*globals(), *_LAZY})
