"""A tiny attention from an installed wheel, checked by hand; run where only NumPy and SciPy are installed.

`smoke.py native` expects the native kernel, `smoke.py numpy` that it was left out.
"""

import importlib.resources
import pkgutil
import sys
import warnings
from importlib.metadata import version

import numpy as np

import regard

queries = np.zeros((2, 3))
keys = np.ones((4, 3))
values = np.arange(8.0).reshape(4, 2)

# The native kernel does it, or one warning says that there is none.
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for _ in range(2):
        regard.attention(queries, keys, values)
if sys.argv[1] == "native":
    assert not warned, warned[0].message
    assert np.allclose(regard.attention(queries, keys, values, kernel="native"), [[3, 4], [3, 4]])
else:
    assert ["without its native kernel" in str(warning.message) for warning in warned] == [True], warned

# Equal scores weigh the seen values equally: all four, then only the first two.
everything = regard.attention(queries, keys, values)
assert np.allclose(everything, [[3, 4], [3, 4]]), everything
first_two = regard.attention(queries, keys, values, mask=np.arange(4) < 2)
assert np.allclose(first_two, [[1, 2], [1, 2]]), first_two
assert np.allclose(regard.attend(queries, keys, values).weights, 0.25)
for normalize in ("softmax", "sparsemax", "entmax15"):
    assert np.allclose(regard.attend(queries, keys, values, normalize=normalize).context, everything), (
        normalize
    )

context, pullback = regard.attention_vjp(queries, keys, values)
assert np.allclose(pullback(np.ones_like(context)).values, 0.5)  # two queries, a quarter each

# Each module is there and needs no extra to be imported, except those on Dask. The library is no module of Python's.
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    if not module.name.startswith(("regard.dask.", "regard.kernels.libregard")):
        importlib.import_module(module.name)
assert importlib.resources.files("regard").joinpath("py.typed").is_file()
print(f"regard {version('regard')} works with numpy {np.__version__} and scipy {version('scipy')}")
