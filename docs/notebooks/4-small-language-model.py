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
# # A small language model
#
# A language model predicts the next token of a text from those before it. The large ones of today are *decoder-only
# transformers*: layers of causal self-attention and feed-forward networks, trained on nothing but that prediction
# (Radford et al. 2018). This notebook writes one from the layers of `regard.nn`, without a framework: about 80 lines
# with the gradients. It learns English from the sentences of a manual, letter by letter, in about two minutes. Then it
# writes, its heads are opened, and two of its parts are switched off to see what breaks.

# %%
import time
from pathlib import Path

import numpy as np

import regard
from regard import nn, position
from regard.seq2seq import read_pairs
from regard.show import page

# %% [markdown]
# ## The text
#
# A token is a character here. Rare ones are left out, so that the vocabulary is small.

# %%
here = Path.cwd()
folders = [folder / "data" / "help-en-fr" for folder in (here, *here.parents)]
DATA = next(filter(Path.exists, folders))  # in a clone of the project


def read(part):
    return "\n".join(english for english, french in read_pairs(DATA / f"{part}.tsv.gz"))


train_text, valid_text = read("train"), read("valid")
vocabulary = sorted(c for c in set(train_text) if train_text.count(c) >= 100)
ids = {c: i for i, c in enumerate(vocabulary)}
train, valid = (
    np.array([ids[c] for c in text if c in ids]) for text in (train_text, valid_text)
)
print(f"{len(train):,} characters to learn from, {len(valid):,} to test on,", end=" ")
print(f"{len(vocabulary)} different ones")

# %% [markdown]
# ## What counting can do
#
# The loss is the *cross-entropy*: the mean of $-\log p$, where $p$ is the probability that the model gave to the
# character that came. A model that knows nothing gives each the same probability. A *bigram* model counts which
# character follows which: that is the best one that sees only one character.

# %%
# Each pair once more than it is there, so that no probability is zero.
counts = np.ones((len(vocabulary), len(vocabulary)))
np.add.at(counts, (train[:-1], train[1:]), 1)
surprise = -np.log(counts / counts.sum(axis=1, keepdims=True))
bigram = surprise[valid[:-1], valid[1:]].mean()
print(f"uniform: {np.log(len(vocabulary)):.3f}, bigram: {bigram:.3f}")

# %% [markdown]
# ## The model
#
# Every layer adds to each position's vector, first what its heads read from the positions before, then what a
# feed-forward network makes of the vector itself. Before each, the vectors are divided by their root mean square. The
# parameters are views of one array, which the optimizer changes. The table of embeddings is also the output matrix.

# %%
LENGTH, WIDTH, LAYERS, HEADS, HEAD_SIZE = 96, 128, 2, 4, 32
ATTENTION = ("query", "key", "value", "output")
HIDDEN = ("up", "up bias", "down", "down bias")


def shapes():
    yield "table", (len(vocabulary), WIDTH)
    for i in range(LAYERS):
        for name in ATTENTION[:3]:
            yield f"{i} {name}", (WIDTH, HEADS * HEAD_SIZE)
        yield f"{i} output", (HEADS * HEAD_SIZE, WIDTH)
        sizes = (WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH), (WIDTH,)
        yield from zip((f"{i} {name}" for name in HIDDEN), sizes, strict=True)
        yield from ((f"{i} {name} gain", (WIDTH,)) for name in ("attention", "hidden"))
    yield "gain", (WIDTH,)


def initialize(seed=0, dtype=np.float32):
    rng, shape = np.random.default_rng(seed), dict(shapes())
    ends = np.cumsum([np.prod(s) for s in shape.values()])
    flat = np.zeros(ends[-1], dtype)
    p = {
        name: part.reshape(shape[name])
        for name, part in zip(shape, np.split(flat, ends[:-1]), strict=True)
    }
    for name, array in p.items():
        if name.endswith("gain"):
            array[...] = 1
        elif not name.endswith("bias"):
            array[...] = rng.normal(
                0, 0.02 if name == "table" else len(array) ** -0.5, array.shape
            )
    return flat, p


CAUSAL = regard.mask.causal()


def forward(p, tokens, mask=CAUSAL, rotate=position.rotary_vjp):
    """Return the vectors that predict the next tokens (B, n, WIDTH), and pullbacks."""
    backs = {}
    x, backs["table"] = nn.embed(p["table"], tokens)
    for i in range(LAYERS):
        weights = (p[f"{i} {name}"] for name in ATTENTION)
        y, backs[f"{i} attention gain"] = nn.rms_norm(x, p[f"{i} attention gain"])
        y, backs[f"{i} attention"] = nn.multi_head_attention(
            y, None, *weights, heads=HEADS, mask=mask, rotate=rotate
        )
        x = x + y
        y, backs[f"{i} hidden gain"] = nn.rms_norm(x, p[f"{i} hidden gain"])
        y, backs[f"{i} hidden"] = nn.perceptron(
            y, *(p[f"{i} {name}"] for name in HIDDEN)
        )
        x = x + y
    y, backs["gain"] = nn.rms_norm(x, p["gain"])
    return y, backs


def backward(dy, backs):
    """Return the gradient of each parameter: the pullbacks, the last one first."""
    d = {}
    dx, d["gain"] = backs["gain"](dy)
    for i in reversed(range(LAYERS)):
        dbefore, *gradients = backs[f"{i} hidden"](dx)
        d |= zip((f"{i} {name}" for name in HIDDEN), gradients, strict=True)
        dbefore, d[f"{i} hidden gain"] = backs[f"{i} hidden gain"](dbefore)
        dx = dx + dbefore  # what the layer added, and what it left as it was
        gradients = backs[f"{i} attention"](dx)
        d |= {f"{i} {name}": getattr(gradients, f"{name}_weight") for name in ATTENTION}
        dbefore, d[f"{i} attention gain"] = backs[f"{i} attention gain"](gradients.x)
        dx = dx + dbefore
    (d["table"],) = backs["table"](dx)
    return d


def loss(p, tokens, **options):
    """Return the mean cross-entropy of the tokens (B, n + 1), and its gradient."""
    y, backs = forward(p, tokens[:, :-1], **options)
    value, back = nn.linear_cross_entropy(
        y.reshape(-1, WIDTH), p["table"], tokens[:, 1:].reshape(-1)
    )

    def gradient():
        dy, dtable = back(1.0)
        d = backward(dy.reshape(y.shape), backs)
        d["table"] += dtable  # used twice: as embeddings and as the output matrix
        return np.concatenate([d[name].reshape(-1) for name in p])

    return value, gradient


# %% [markdown]
# A gradient written by hand is checked before it is used: along a random direction the loss must grow at the rate
# that the gradient says. In float64 both agree to many digits.

# %%
flat, p = initialize(dtype=float)
some = train[:194].reshape(2, 97)
slopes = loss(p, some)[1]()
direction = np.random.default_rng(1).standard_normal(len(flat))
direction /= np.linalg.norm(direction)
losses = []
for step in (1e-5, -2e-5):  # to one side of where the parameters are, and to the other
    flat += step * direction
    losses.append(loss(p, some)[0])
print(
    "gradient is right:",
    np.isclose((losses[0] - losses[1]) / 2e-5, slopes @ direction, rtol=1e-4),
)


# %% [markdown]
# ## Training
#
# Adam, with a learning rate that rises for fifty steps and then falls to zero. A batch has 32 places of the text, drawn
# at random.


# %% tags=["training"]
def windows(text, rng, count=32):
    starts = rng.integers(0, len(text) - LENGTH, count)
    return text[starts[:, None] + np.arange(LENGTH + 1)]


def learn(steps, report=None, **options):
    flat, p = initialize()
    adam, rng = nn.Adam(flat), np.random.default_rng(1)
    start, losses = time.perf_counter(), []
    for number in range(1, steps + 1):
        value, gradient = loss(p, windows(train, rng), **options)
        adam.step(
            gradient(), rate=0.003 * min(1, number / 50) * (1 - (number - 1) / steps)
        )
        losses.append(value)
        if report and number % report == 0:
            seconds = time.perf_counter() - start
            mean = np.mean(losses[-report:])
            print(f"step {number:>5}   loss {mean:.3f}   {seconds:>4.0f} seconds")
    return p


held_out = valid[: len(valid) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)
model = learn(1000, report=200)
print(f"on held-out text: {loss(model, held_out)[0]:.3f}, bigram: {bigram:.3f}")

# %% [markdown]
# The loss is far below that of counting pairs: the model looks back farther than one character.
#
# ## Writing
#
# The next character is drawn from the probabilities, and becomes part of the text. Keys and values of the characters
# before stay the same, so a `KVCache` keeps them: a step computes one query. The cache forgets what is farther back
# than the model has seen in training.


# %%
def write(p, beginning, count, temperature=0.7, seed=0):
    rng, text, new = np.random.default_rng(seed), beginning, beginning
    caches = [
        regard.KVCache((HEADS,), HEAD_SIZE, capacity=2 * LENGTH, window=LENGTH - 1)
        for _ in range(LAYERS)
    ]
    for _ in range(count):
        at = np.arange(len(text) - len(new), len(text))  # positions of what is new
        x = p["table"][[ids[c] for c in new]]
        for i, cache in enumerate(caches):
            y = nn.rms_norm(x, p[f"{i} attention gain"])[0]
            q, k, v = (
                nn.split_heads(y @ p[f"{i} {name}"], HEADS)[0] for name in ATTENTION[:3]
            )
            q, k = (position.rotary(heads, at) for heads in (q, k))
            cache.append(k, v)
            context = regard.attention(q, cache.keys, cache.values, mask=cache.mask)
            x = x + nn.merge_heads(context)[0] @ p[f"{i} output"]
            y = nn.rms_norm(x, p[f"{i} hidden gain"])[0]
            x = x + nn.perceptron(y, *(p[f"{i} {name}"] for name in HIDDEN))[0]
        logits = nn.rms_norm(x[-1:], p["gain"])[0][0] @ p["table"].T / temperature
        probabilities = np.exp(logits - logits.max(), dtype=float)
        new = vocabulary[
            rng.choice(len(vocabulary), p=probabilities / probabilities.sum())
        ]
        text += new
    return text


print(write(model, "Click the ", 400))

# %% [markdown]
# Spelling, words of the manual and pieces of its sentences, but hardly any sense: a model of 400,000 parameters that
# has read 800,000 characters. The large ones have the same parts; they are a million times as large.
#
# ## Its heads
#
# `record` keeps the weights of every attention inside the block. The page shows them by layer and head. Look for a head
# that reads the character before, one that reads the beginning of the word, and one that spreads its weight.

# %%
sentence = "Choose the file that you want to open"
with regard.record(keep="weights") as recorded:
    forward(model, np.array([[ids[c] for c in sentence]]))
names = [c.replace(" ", "␣") for c in sentence]
page(
    np.stack([attention.weights[0] for attention in recorded]),
    query_labels=names,
    key_labels=names,
)

# %% [markdown]
# ## What breaks without mask or positions
#
# Three models, trained for a short time: a complete one, one without the causal mask, and one without positions.
# Each is measured twice on held-out text: as it was trained, and as it has to write, with the characters that follow
# out of sight.

# %%
parts = {
    "complete": {},
    "without mask": {"mask": None},
    "without positions": {"rotate": None},
}
for name, options in parts.items():
    p = learn(150, **options)
    trained, writing = (
        loss(p, held_out, **options | changed)[0] for changed in ({}, {"mask": CAUSAL})
    )
    print(f"{name:<18} as trained {trained:.3f}   when it writes {writing:.3f}")

# %% [markdown]
# Without the mask the loss is the lowest of all, and worthless: each position attends to the next one, which is the
# answer. When that has not been written yet, the model is hardly better than one that knows nothing. Without
# positions, attention sees which characters came before but not in what order. So the model is about as good as
# counting pairs, since the only character whose place it knows is the last one.

# %% [markdown]
# ## Exercise
#
# Add a head to each layer. How many parameters are added, and which arrays do they belong to? Does the loss after 150
# steps become lower? Then try 1, 2 and 8 heads with `HEAD_SIZE = 128 // HEADS`: what remains the same?

# %%
before = len(initialize()[0])
HEADS = 5
more = len(initialize()[0]) - before
print(f"{more:,} parameters more, loss {loss(learn(150), held_out)[0]:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A head of size 32 needs 128 x 32 numbers each for its queries, keys, values and output: 16,384 in a layer, 32,768 in
# both. Embeddings and feed-forward networks stay as they are. The loss hardly changes: after so few steps the number
# of heads is not the limit. With `HEAD_SIZE = 128 // HEADS` the number of parameters and of multiplications remains
# the same for 1, 2, 4 or 8 heads: more of them look at more places at once, each in fewer dimensions.
#
# </details>
