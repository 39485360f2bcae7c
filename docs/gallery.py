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
# # Gallery
#
# Pictures that regard draws, each with the lines that draw it. They are ordinary Matplotlib figures; the functions
# whose names begin with `save_` write them to files, and `regard.show.terminal` prints most of them as text.

# %%
import numpy as np

import regard
from regard.show import figures, terminal

rng = np.random.default_rng(0)

# %% [markdown]
# ## Weights
#
# A row for each query, a column for each key. Masked pairs are grey.

# %% mystnb={"image": {"alt": "Heat map of five words, grey above the diagonal."}}
words = ["the", "red", "house", "is", "old"]
vectors = rng.standard_normal((5, 8))
attention = regard.attend(vectors, vectors, vectors, mask=regard.mask.causal())
hidden = np.isneginf(attention.logits)
figures.heatmap(np.ma.masked_array(attention.weights, hidden), words, words)

# %% [markdown]
# ## Scores
#
# Any real numbers, in two colours around 0.

# %% mystnb={"image": {"alt": "Heat map of scores in red and blue."}}
figures.heatmap(attention.scores, words, words, signed=True)

# %% [markdown]
# ## All heads of several layers
#
# With one scale for all of them.

# %% mystnb={"image": {"alt": "Eight heat maps, two layers of four heads."}}
x = rng.standard_normal((4, 12, 16))
with regard.record(keep="weights") as layers:
    for _ in range(2):
        x = x + regard.attention(x, x, x, mask=regard.mask.causal())
figures.heatmaps([layer.weights for layer in layers])

# %% [markdown]
# ## A long one
#
# A pixel shows the largest weight of its block, so that a single peak among a million weights is not lost.

# %% mystnb={"image": {"alt": "Heat map of 1,500 positions, largest along the diagonal."}}
positions = regard.position.sinusoidal(1500, 32)
long = regard.attend(positions, positions, positions, scale=0.8)
figures.heatmap(long.weights)

# %% [markdown]
# ## Text
#
# The same on a terminal.

# %%
print(terminal.heatmap(attention.weights, words, words, color=False))

# %% [markdown]
# ## Learning curves
#
# `regard train` leaves this picture in the folder of the model.

# %% mystnb={"image": {"alt": "Two curves that fall from about 5 to about 1.5."}}
steps = np.arange(1, 301)
loss = 1.2 + 4 * np.exp(-steps / 60)
noisy = loss + rng.normal(0, 0.25, 300)
validation = steps[19::20], loss[19::20] + 0.3
lines = {"training": (steps, noisy), "validation": validation}
figures.curves([figures.Panel("loss", lines)])

# %% [markdown]
# ## Quality by length
#
# BLEU of two translators, measured by `benchmarks/length.py` (35,849 pairs to learn from, five minutes each).

# %% mystnb={"image": {"alt": "BLEU by length: level with attention, falling without."}}
lengths = ["1-5", "6-10", "11-15", "16-20", "21-25", "26-30", "31-35", "36-48"]
lines = {
    "with attention": [44.9, 52.7, 49.8, 49.6, 45.7, 46.6, 48.0, 51.2],
    "without": [22.0, 32.2, 25.6, 17.5, 14.7, 13.7, 11.6, 11.5],
}
sentences = [538, 705, 782, 553, 282, 146, 60, 42]
figures.by_length(lengths, lines, sentences, along="tokens in the source")

# %% [markdown]
# ## Models that have learned
#
# An alignment that a translator has found by itself (`make demo`):
#
# ![A heat map of attention weights between an English sentence and its French translation.](images/alignment.png)
#
# All heads of the cross-attention of a transformer:
#
# ![Twelve heat maps, three layers of four heads.](images/heads.png)
#
# Where a captioner attends at each word (`make caption`):
#
# ![A scene of three digits, again for each word of its caption, coloured where the model attended.](images/caption.png)
