# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     name: python3
#     display_name: Python 3
# ---

# %% [markdown]
# # Memory as a matrix
#
# Softmax attention keeps every key and value. Linear attention keeps a matrix of fixed size instead, the state: each
# position writes $k\,v$ to it, the product of a column and a row, and a query reads $q S$. How much fits in?

# %%
import numpy as np

from regard import attention, linear

keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
values = np.array([[5.0], [6.0], [7.0]])
_, state = linear.attention(keys, keys, values)
print(state.ravel())

# %% [markdown]
# Each row of the state belongs to one of the two keys. The third key is the first again: its value was added, 5 + 7.
# The *delta rule* reads first, and writes only what is missing, so the new value replaces the old one:

# %%
_, state = linear.attention(keys, keys, values, rule="delta", beta=1.0)
print(state.ravel())

# %% [markdown]
# ## How much fits in
#
# Keys that are orthogonal do not disturb each other, and d numbers have room for d of them. Random directions are
# only almost orthogonal: the mean of $(k_i \cdot k_j)^2$ is 1/d, so each of n - 1 other values of length 1 adds 1/d to
# the squared error of a lookup. For d = 64, the prediction (n - 1) / 64 beside what is measured:


# %%
def unit(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


rng, d = np.random.default_rng(0), 64
print("pairs  predicted  linear   delta softmax")
for n in [4, 16, 64, 256]:
    keys, values = unit(rng, 50, n, d), unit(rng, 50, n, d)
    _, added = linear.attention(keys, keys, values)
    _, replaced = linear.attention(keys, keys, values, rule="delta", beta=1.0)
    read = keys @ added, keys @ replaced, attention(keys, keys, values, scale=40.0)
    errors = [np.sum((values - x) ** 2, -1).mean() for x in read]
    print(f"{n:5}  {(n - 1) / d:9.2f}", *(f"{error:7.2f}" for error in errors))

# %% [markdown]
# The sum fails as predicted. The delta rule makes better use of the same matrix, but later keys overwrite earlier ones.
# Softmax finds each of 256 values; its memory has grown to 256 keys and values.

# %% [markdown]
# ## Exercise
#
# Write 64 pairs three times by the delta rule. What happens to the error? What would happen by the sum?

# %%
keys, values = unit(rng, 64, d), unit(rng, 64, d)
state = None
for _ in range(3):
    _, state = linear.attention(keys, keys, values, rule="delta", beta=1.0, state=state)
    print(np.sum((values - keys @ state) ** 2, -1).mean().round(3))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Each pass corrects what the later keys have overwritten, and the error falls; the sum only gets larger.
#
# </details>
