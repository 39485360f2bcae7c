# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {name: python3, display_name: Python 3}
# ---

# %% [markdown]
# # The attention of your own model
# A model in PyTorch computes attention in one call, which returns no weights. `regard.torch.record` keeps the queries
# and keys of each call, without a change to the model. Ours has two layers of two heads, and weights that nobody has
# trained. Without PyTorch, as where this site is built, the same calls are read from a file.

# %%
from importlib.util import find_spec

import numpy as np
from scipy.special import softmax

from regard.show import figures, page
from regard.torch import RecordedCall, RecordedCalls, record

words = ["the", "cat", "sat", "on", "the", "mat"]
if find_spec("torch"):
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.Embedding(5, 16), nn.TransformerEncoder(layer, 2)).eval()
    with torch.no_grad(), record(model) as calls:
        model(torch.tensor([[0, 1, 2, 3, 0, 4]]))
else:
    file = np.load("6-your-own-model.npz")
    calls = RecordedCalls(RecordedCall(**{k: file[k][i] for k in file}) for i in (0, 1))
print(calls)

# %% [markdown]
# A line for each call: its module, its queries (batch, heads, words, d), and the largest distance of what the model
# computed from what regard computes of the same queries and keys. The weights follow from them:

# %%
scores = calls[0].queries @ np.swapaxes(calls[0].keys, -1, -2) / np.sqrt(8)
print(np.allclose(calls[0].weights, softmax(scores, axis=-1)))

# %% [markdown]
# "The" stands twice with the same row, since this model has no positions. A page has all layers and heads.

# %% mystnb={"image": {"alt": "Heat maps of the weights of the six words, one for each head of the first layer."}}
figures.heatmaps(calls[0].weights[0], words, words)

# %%
page(calls, tokens=words)

# %% [markdown]
# ## Exercise
# For 20,000 tokens, 12 heads of 64 and float32: how many bytes are queries and keys of a layer, how many its weights?

# %% [markdown]
# <details><summary>Answer</summary>2 x 4 x 20,000 x 768: 123 MB; 4 x 12 x 20,000²: 19 GB, which nobody keeps.</details>
