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
# # From one word to the matrix form
#
# [The first notebook](1-queries-keys-values.py) computed attention for four words at once. Here we go slowly: one
# word, with a line of code for each number. Then the same for all words, without a loop. At the end is the general
# formula, for vectors of any origin.
#
# Words and matrices are those of Stefania Cristina's article [The Attention Mechanism from
# Scratch](https://machinelearningmastery.com/the-attention-mechanism-from-scratch/).

# %%
import numpy as np
from scipy.special import softmax

import regard
from regard.show import figures, page

np.set_printoptions(precision=5)

# %% [markdown]
# ## Four words
#
# Each word is a vector, as an encoder would deliver it.

# %%
word_1 = np.array([1, 0, 0])
word_2 = np.array([0, 1, 0])
word_3 = np.array([1, 1, 0])
word_4 = np.array([0, 0, 1])

# %% [markdown]
# ## The matrices
#
# Queries, keys and values are made by three matrices. Ours are random, and here is a trap: a random generator
# continues where it stopped. Run a cell with draws twice, and you get other numbers the second time. The tutorial
# that this notebook follows was written that way. It prints three matrices, and computes with three others, which it
# drew later. One stream of draws leads to both:

# %%
np.random.seed(42)
for highest in (9, 3, 9, 3):  # earlier runs of the cell
    np.random.randint(highest, size=(3, 3))
printed = [np.random.randint(highest, size=(3, 3)) for highest in (9, 3, 3)]
for matrix in printed:
    print(matrix)

# %% [markdown]
# Those were only printed. The next three are used from here on:

# %%
W_Q = np.random.randint(3, size=(3, 3))
W_K = np.random.randint(3, size=(3, 3))
W_V = np.random.randint(3, size=(3, 3))
for matrix in (W_Q, W_K, W_V):
    print(matrix)

# %% [markdown]
# ## One query, four keys, four values
#
# Only the first word has a query. All words have keys and values.

# %%
query_1 = word_1 @ W_Q
key_1, value_1 = word_1 @ W_K, word_1 @ W_V
key_2, value_2 = word_2 @ W_K, word_2 @ W_V
key_3, value_3 = word_3 @ W_K, word_3 @ W_V
key_4, value_4 = word_4 @ W_K, word_4 @ W_V
print(f"query {query_1}, keys {key_1}, {key_2}, {key_3}, {key_4}")

# %% [markdown]
# **Step 1.** A score for each key, its dot product with the query. Three of the keys have nothing in common with it.

# %%
scores = np.array([query_1 @ key_1, query_1 @ key_2, query_1 @ key_3, query_1 @ key_4])
print(scores)

# %% [markdown]
# **Step 2.** Divided by √3 and through the softmax, the scores become weights. A score of 0 is not a weight of 0: the
# first three keys fit equally badly, and share what the fourth leaves.

# %%
weights = softmax(scores / np.sqrt(len(key_1)))
print(weights)

# %% [markdown]
# **Step 3.** Each value times its weight, and all of it added.

# %%
attention = weights[0] * value_1 + weights[1] * value_2
attention += weights[2] * value_3 + weights[3] * value_4
print(attention)

# %% [markdown]
# ## All words at once
#
# Put the words on top of each other, one a row. Then `words @ W_Q` has the four queries as its rows, and so on.

# %%
words = np.array([word_1, word_2, word_3, word_4])
Q = words @ W_Q
K = words @ W_K
V = words @ W_V

# %% [markdown]
# Row i, column j of `Q @ K.T` is the dot product of query i and key j: all sixteen scores in one product. The softmax
# works along each row, since each query distributes its own attention. The last product makes four weighted sums.

# %%
scores = Q @ K.T
weights = softmax(scores / np.sqrt(K.shape[1]), axis=1)
attention = weights @ V

# %% [markdown]
# The first row is the result for the first word:

# %%
print(attention[0])

# %% [markdown]
# And here are all of them. Three rows are equal, because words 1, 2 and 4 have queries that score the keys alike.

# %%
print(attention)

# %% [markdown]
# ## The general form
#
# For queries Q, keys K and values V of any number and origin:
#
# $$
# \mathrm{attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d}}\right) V
# $$
#
# This is `regard.attention`. It returns the context only, and never has the complete matrix of scores in memory, so it
# also works for a hundred thousand words.

# %%
print(regard.attention(Q, K, V))

# %% [markdown]
# Three ways to one result: a loop over queries and keys, two matrix products, and the kernel. How long do they take
# for 200 words of 64 numbers?

# %%
from timeit import repeat

q, k, v = np.random.default_rng(0).standard_normal((3, 200, 64))


def loop():
    rows = [softmax([query @ key / np.sqrt(64) for key in k]) for query in q]
    return np.array(
        [sum(w * value for w, value in zip(row, v, strict=True)) for row in rows]
    )


ways = {
    "the loop": loop,
    "matrix form": lambda: softmax(q @ k.T / np.sqrt(64), axis=1) @ v,
    "the kernel": lambda: regard.attention(q, k, v),
}
expected = loop()
for name, way in ways.items():
    seconds = min(repeat(way, number=1, repeat=3))
    same = np.allclose(way(), expected)
    print(f"{name}: {1000 * seconds:.1f} ms, the same numbers: {same}")

# %% [markdown]
# `regard.attend` keeps everything in between. This is what each of the words attends to:

# %% mystnb={"image": {"alt": "Heat map of the weights of all four words."}}
result = regard.attend(Q, K, V)
names = ["word 1", "word 2", "word 3", "word 4"]
figures.heatmap(result.weights, names, names)

# %% [markdown]
# To see each of the sixteen products and sums, choose a query and a key:

# %%
page(Q, K, V, query_labels=names, key_labels=names, title="Four words, in matrix form")

# %% [markdown]
# ## Exercise
#
# A text is often generated from left to right; then a word must not attend to words that come after it. Which numbers
# of the matrix of weights have to be 0, and what must the rest of each row do? Set these *scores* to minus infinity
# in your own computation and compare with the mask of regard.

# %%
causal = regard.attend(Q, K, V, mask=regard.mask.causal())
print(causal.weights)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Everything above the diagonal is 0, and the rest of each row still has the sum 1, so the first word attends to
# itself alone:
#
# ```
# hidden = np.triu(np.ones((4, 4), bool), 1)
# softmax(np.where(hidden, -np.inf, scores / np.sqrt(3)), axis=1)
# ```
#
# Setting *weights* to 0 after the softmax would not do: the rows would no longer have the sum 1.
#
# </details>
