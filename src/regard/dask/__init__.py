"""Attention over Dask arrays, lazily: larger than memory, larger than a machine.

Every pair of chunks of queries and keys that is visible is one task, `regard.partial`, and a tree of `regard.merge`
combines them. Nothing here schedules: the graph runs on Dask's threads or processes, or on a `distributed` cluster.
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:  # pragma: no cover, since the tests have it
    raise ImportError("regard.dask needs Dask: pip install 'regard[dask]'") from error

from regard.dask.backward import attention_vjp
from regard.dask.forward import attention

__all__ = ["attention", "attention_vjp"]
