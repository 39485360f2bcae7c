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
# # Why a fixed-length vector is not enough
#
# An encoder-decoder reads a sentence and writes another one, such as its translation. The first ones had a
# bottleneck: the encoder handed over one vector, as long for "Close." as for a sentence of forty words, and the
# decoder had nothing else. What does not fit in is lost.
#
# Bahdanau, Cho and Bengio proposed in 2014 to keep *all* states of the encoder, and to let the decoder choose among
# them before each word that it writes. This notebook computes that choice by hand, with every number in sight. Then
# it trains a translator with it and one without, and compares them on short and on long sentences.
#
# ![Diagram: a state of the decoder and the states of the encoder enter the alignment model; a softmax makes weights
# of its scores; the weighted sum is the context.](../images/mechanism.svg)

# %% [markdown]
# The words of this field have changed since. What the first paper named one way, later ones name another:
#
# | Bahdanau, Cho and Bengio | today | here |
# |---|---|---|
# | annotation $h_i$: state of the encoder at word i | key, and value | `annotations[i]` |
# | previous state of the decoder, $s_{t-1}$ | query | `previous` |
# | alignment score $e_{t,i}$ | score | `scores[i]` |
# | weight $\alpha_{t,i}$ | attention weight | `weights[i]` |
# | context vector $c_t$ | context | `context` |

# %%
import time
from pathlib import Path

import numpy as np

import regard
from regard.show import figures, page

# %% [markdown]
# Why the state *before*? The decoder makes its next state $s_t$ of $s_{t-1}$, the word just written and the context
# $c_t$. So the context is needed first, and $s_{t-1}$ is the newest state there is to ask with.

# %% [markdown]
# ## States
#
# A source of three words has been read: three annotations. Let the first number of each say "this is a noun", and the
# second "this is an adjective". The decoder has a state of three numbers, and the first says "now I need a noun", the
# second "now I need an adjective"; the third is about something else. In a trained network no number has such a
# simple meaning, but the computation is the same.

# %%
words = ["the", "red", "house"]
annotations = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
previous = np.array([1.0, 0.0, 0.0])

# %% [markdown]
# ## Alignment scores by a feed-forward network
#
# State and annotation have different lengths, so there is no dot product of the two. A small network with one hidden
# layer compares them. `W` brings the state to the hidden layer, `U` the annotation, and `v` weighs what is there:
#
# $$
# e_{t,i} = v \cdot \tanh(W s_{t-1} + U h_i)
# $$
#
# The first hidden unit is to say "a noun", and to be silenced while the decoder needs an adjective. The second says
# "an adjective", and is silenced while it needs a noun.

# %%
# Of three numbers of the state, and of two numbers of an annotation, to two hidden units:
W = np.array([[0.0, -4.0], [-4.0, 0.0], [0.0, 0.0]])
U = np.array([[2.0, 0.0], [0.0, 2.0]])
v = np.array([3.0, 3.0])

# %% [markdown]
# The state contributes the same to every word, here (0, -4), and the annotation makes the difference. In the second
# column, that of adjectives, everything is close to -1: silenced. In the first the noun stands out.

# %%
hidden = np.tanh(previous @ W + annotations @ U)
print(hidden.round(3))

# %% [markdown]
# One score for each word. "house" wins.

# %%
scores = hidden @ v
print(scores.round(3))

# %% [markdown]
# ## Weights
#
# The softmax makes shares of the scores. "house" has most, and the others are not forgotten:

# %%
weights = np.exp(scores) / np.exp(scores).sum()
print(dict(zip(words, weights.round(3).tolist(), strict=True)))

# %% [markdown]
# ## Context vector
#
# The annotations times their weights, added up. It has the length of one annotation, however many words there are,
# but unlike the single vector of the old models it is made anew for each word of the translation.

# %%
context = weights @ annotations
print(context.round(3))

# %% [markdown]
# ## Two steps of a decoder
#
# Now let the decoder write a noun first and then an adjective, as French does in "maison rouge". Its states are two
# queries, and `regard.attend` takes all steps for both; `additive` is the little network from above.

# %% mystnb={"image": {"alt": "Heat map: maison attends to house, rouge to red."}}
states = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
additive = regard.scores.additive(W, U, v)
result = regard.attend(states, annotations, annotations, score=additive)
print([np.allclose(result.scores[0], scores), np.allclose(result.context[0], context)])
figures.heatmap(result.weights, ["maison", "rouge"], words)

# %% [markdown]
# The second row attends to "red" although it is not the second word of French but of English: attention does not need
# the same order on both sides.
#
# In the page below, the perceptron is in the scores: change a number of a state or an annotation and see what its
# hidden units do.

# %%
labels = {"query_labels": ["maison", "rouge"], "key_labels": words}
page(states, annotations, annotations, score=additive, **labels)

# %% [markdown]
# ## Learning it
#
# Nobody chooses W, U and v by hand. All three steps can be differentiated, so they learn from the errors of the
# translation, together with encoder and decoder. No example states which word belongs to which.
#
# The project comes with sentences of a manual in English and French, at most fifteen words long, and cut into parts
# to learn from and to test on.

# %%
from regard.seq2seq import Seq2Seq, read_pairs
from regard.seq2seq.sources.text.tokenizers import tokenize, unmark

here = Path.cwd()
folders = [folder / "data" / "help-en-fr" for folder in (here, *here.parents)]
DATA = next(filter(Path.exists, folders))  # in a clone of the project
parts = ("train", "valid", "test")
train, valid, test = (list(read_pairs(DATA / f"{part}.tsv.gz")) for part in parts)
print(f"{len(train):,} pairs to learn from, {len(test):,} to test on: {test[7]}")

# %% [markdown]
# Two translators that differ in one thing: the second has no attention, and its decoder starts from the last states
# of the encoder and has no further access to the source. The first is Bahdanau's, which asks with $s_{t-1}$ as above.
# (By default regard's decoder first takes in the word before, and asks with that state between two steps.) Both are
# small, so that each is trained in about a minute or two.


# %% tags=["training"]
def learn(attention):
    start = time.perf_counter()
    sizes = {"style": "bahdanau", "embedding": 64, "encoder": 64, "decoder": 128}
    model = Seq2Seq(attention=attention, epochs=6, max_tokens=15, network=sizes, seed=1)
    model.fit(*zip(*train, strict=True), valid=tuple(zip(*valid[:200], strict=True)))
    print(f"{time.perf_counter() - start:.0f} seconds")
    return model


models = {"with attention": learn(True), "without": learn(False)}

# %% [markdown]
# ## Its attention weights
#
# Each row is a word of the translation, and shows to which words of the source the decoder attended. The model has
# learned that without examples of it.

# %% mystnb={"image": {"alt": "Heat map of the words of the translation and those of the source."}}
text = "Click the icon to open the selected file."
translated = models["with attention"].translate([text])[0]
figures.heatmap(
    translated.alignment,
    list(map(unmark, translated.tokens)),
    list(map(unmark, translated.source)),
)

# %% [markdown]
# The page below has more sentences, and of each the three best translations. Hover over a word of either side, or
# focus it with the keyboard.

# %%
from regard.show.page.alignment import alignment, sentence

asked = [text, *(source for source, _ in test[7:12])]
answers = models["with attention"].candidates(asked, n_best=3)
page(alignment(*map(sentence, answers)), title="A translator")

# %% [markdown]
# ## Short and long sentences
#
# BLEU compares word sequences of a translation with those of a human one; 100 is the same text. Both models translate
# sentences that they have not seen, and the figures are taken by the length of the source.

# %% mystnb={"image": {"alt": "BLEU by length of the source, with attention and without."}}
from regard.seq2seq.evaluation.metrics import bleu

sources, references = zip(*test, strict=True)
lengths = np.array([len(tokenize(source)) for source in sources])
groups = {"1-4": (1, 4), "5-8": (5, 8), "9-12": (9, 12), "13-15": (13, 15)}
members = {
    name: np.flatnonzero((lengths >= low) & (lengths <= high))
    for name, (low, high) in groups.items()
}
lines = {}
for name, model in models.items():
    texts = [translation.text for translation in model.translate(sources, beam=1)]
    lines[name] = [
        bleu([texts[i] for i in part], [references[i] for i in part]).score
        for part in members.values()
    ]
    print(f"{name}: {np.round(lines[name], 1)}")
figures.by_length(
    list(groups),
    lines,
    [len(part) for part in members.values()],
    along="tokens in the source",
)

# %% [markdown]
# After so little training both make many errors, but not of the same kind. With attention, sentences of fourteen
# words come out about as well as those of seven. Without it the figures are far lower at every length: what is left
# of a sentence in one vector is roughly its subject, and the decoder writes something on that. Here are the longest
# sentences of the test:

# %%
for i in np.argsort(lengths)[-3:]:
    print(f"\nsource: {sources[i]}\nright: {references[i]}")
    for name, model in models.items():
        print(f"{name}: {model.translate([sources[i]])[0].text}")

# %% [markdown]
# A rare word such as RADIANS is not in the vocabulary. Where a decoder would write an unknown word, the one with
# attention copies the source word with the largest weight. The other can only write `<unk>`.
#
# With more time and sentences of up to fifty words the two lines part for good: that is [the picture of quality by
# length](../gallery.py) in the gallery.

# %% [markdown]
# ## Exercise
#
# Attention has no notion of order: it compares the state with each annotation by itself. What happens to the weights
# and to the context if the words of the source come in another order, each with its annotation? Guess, and try. Why
# does a translator nevertheless know the difference between "dog bites man" and "man bites dog"?

# %%
order = [2, 0, 1]
shuffled = regard.attend(states, annotations[order], annotations[order], score=additive)
print(f"weights\n{shuffled.weights.round(3)}\ncontext\n{shuffled.context.round(3)}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The weights move along with their words, and the context is the same: a sum does not depend on the order of its
# terms. The order is in the annotations themselves. A recurrent encoder makes each from the words before and after
# it, so "dog" at the beginning has another annotation than "dog" at the end. A transformer, which has no recurrent
# encoder, adds positions to its words for the same reason.
#
# </details>
