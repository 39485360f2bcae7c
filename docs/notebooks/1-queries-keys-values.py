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
# # Queries, keys and values by hand
#
# Attention answers a question with a mixture of what it finds. Think of a library: you come with a question, each
# book has a card in the catalogue, and what you take home is what is written in the books. The question is the
# *query*, the cards are the *keys*, the contents of the books are the *values*. A strict library gives you the one
# book whose card fits best. Attention gives you a bit of every book: much of those whose cards fit well, next to
# nothing of the others.
#
# Here four words attend to each other. All numbers are small enough to follow with a pencil.

# %%
import numpy as np
from scipy.special import softmax

import regard
from regard.show import figures, page

# %% [markdown]
# ## Words as vectors
#
# A network knows a word as a vector of numbers, which it learns. Ours have three numbers, and we choose them: the
# third word has something in common with the first and with the second, the fourth stands alone.

# %%
words = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
print(words)

# %% [markdown]
# ## Three roles for each word
#
# Each word is a query, a key and a value. For each of the three roles there is a matrix, which turns a word
# into its query, its key or its value. A trained network has learned these matrices. We draw them at random, always
# the same ones because of the seed.

# %%
np.random.seed(42)
W_Q = np.random.randint(3, size=(3, 3))
W_K = np.random.randint(3, size=(3, 3))
W_V = np.random.randint(3, size=(3, 3))

# %%
print(f"W_Q, which makes queries:\n{W_Q}")
print(f"W_K, which makes keys:\n{W_K}")
print(f"W_V, which makes values:\n{W_V}")

# %% [markdown]
# A row of `words` times a matrix gives a row of the result, so each product makes all four vectors of a role at once.
# The first word is (1, 0, 0): it picks out the first row of each matrix. The third is the sum of the first two, and
# so is everything made of it.

# %%
Q = words @ W_Q
K = words @ W_K
V = words @ W_V
print(f"Queries:\n{Q}")
print(f"Keys:\n{K}")
print(f"Values:\n{V}")

# %% [markdown]
# ## Step 1: scores
#
# How well does a key fit a query? The simplest measure is the dot product: multiply number by number, and add. For
# the query of word 1 and the key of word 3:

# %%
print(f"{Q[0]} · {K[2]} = {Q[0] @ K[2]}, because 2·2 + 0·4 + 2·3 = 10")

# %% [markdown]
# A table of all such products, one row for each query and one column for each key, is a matrix product:

# %%
scores = Q @ K.T
print(scores)

# %% [markdown]
# Read it row by row. The first word's query fits the third key best (10), then its own (8). Words 3 and 4 prefer word
# 3 as well; word 2 cannot decide between words 1 and 3.
#
# ## Step 2: weights
#
# Scores can be any numbers. To mix values we need shares: positive, with a sum of 1. Before that, the scores are
# divided by the square root of the length of a key, here √3. A dot product of long vectors is a sum of many terms and
# tends to be large; the division keeps scores in a range in which a small change of a score still changes something.

# %%
scaled = scores / np.sqrt(K.shape[1])
print(scaled.round(3))

# %% [markdown]
# The softmax then raises e to each number and divides by the sum of the row. Differences of scores become ratios of
# weights: a score that is higher by 1 has a weight that is 2.718 times as large.

# %%
weights = softmax(scaled, axis=1)
print(weights)

# %% [markdown]
# Look at the first row. The scores 10 and 8 differ by 2, that is 2/√3 = 1.155 after the division, so the weights
# should have the ratio e^1.155 = 3.17. And they have:

# %%
print(f"{weights[0, 2] / weights[0, 0]:.5f} = {np.exp(2 / np.sqrt(3)):.5f}")
print(f"sums of the rows: {weights.sum(axis=1)}")

# %% [markdown]
# ## Step 3: the weighted sum
#
# What the first word takes home: 0.236 times the first value, 0.007 times the second, 0.749 times the third, 0.007
# times the fourth. For all words it is a matrix product again. The result is called the *context*.

# %%
attention = weights @ V
print(attention)

# %% [markdown]
# The third value is (1, 2, 1). Three of the four words give it about three quarters of their attention or more, which
# is why their contexts are close to it. The second word divides its attention between words 1 and 3 equally: the
# scores 4 and 4.
#
# ## The same with regard
#
# One call takes the three steps and keeps all results. It equals ours:

# %%
result = regard.attend(Q, K, V)
same = [
    np.allclose(result.scores, scores),
    np.allclose(result.weights, weights),
    np.allclose(result.context, attention),
]
print(same)

# %% [markdown]
# As a picture: one row for each query, one column for each key.

# %% mystnb={"image": {"alt": "Heat map: words 1, 3 and 4 attend mostly to word 3, word 2 to words 1 and 3."}}
names = ["word 1", "word 2", "word 3", "word 4"]
figures.heatmap(result.weights, names, names)

# %% [markdown]
# ## Change a number
#
# The same four words once more, but alive: choose a query, follow its three steps, and change any number of
# a query, key or value. All that depends on it is computed again, here in the page.

# %%
page(Q, K, V, query_labels=names, key_labels=names, title="Four words")

# %% [markdown]
# ## Exercise
#
# What happens to scores, weights and context if all keys are twice as long? Write down your guess for the second row
# before you run the cell. Then try `0.01 * K`: to what do the weights tend?

# %%
longer = regard.attend(Q, 2 * K, V)
print(f"{longer.scores[1]}\n{longer.weights[1].round(4)}\n{longer.context[1].round(4)}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The scores double, so the ratios of the weights are squared: the second word gives 0.495 to words 1 and 3 instead of
# 0.455, and 0.005 to the others instead of 0.045. The values are as before, so the context only moves, to almost (1,
# 1.5, 0.5), the middle between the first and the third value. With very short keys all scores are close to 0 and all
# weights close to 1/4: the context is the plain mean of the values.
#
# </details>
