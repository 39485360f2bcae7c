"""Augmentation: pictures of a training batch are shifted, and pictures and vectors get noise, anew in each step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.data.batching import Batch
from regard.seq2seq.networks.encoders.images import ImageInput
from regard.seq2seq.networks.encoders.inputs import Input

__all__ = ["augmented", "check_augmentation", "shifted"]

Array = NDArray[Any]


def check_augmentation(inputs: Input | None, *, shift: int, noise: float) -> None:
    """Check that a network's source can be augmented by these settings.

    Parameters
    ----------
    inputs : Input or None
        The network's source; None for tokens.
    shift : int
        The most pixels by which a picture is shifted.
    noise : float
        The standard deviation of the noise.
    """
    if inputs is None and noise:
        _check.fail(
            f"noise must be 0 for a source of tokens, to which numbers can't be added. Got {noise!r} instead."
        )
    if not isinstance(inputs, ImageInput):
        if shift:
            _check.fail(f"shift must be 0 for a source that is no picture. Got {shift} instead.")
        return
    side = min(inputs.height, inputs.width)
    if shift >= side:
        size = f"{inputs.height} x {inputs.width}"
        _check.fail(f"shift must be less than {side} for pictures of {size} pixels. Got {shift} instead.")


def augmented(batch: Batch, inputs: Input, *, shift: int, noise: float, rng: np.random.Generator) -> Batch:
    """Return a batch with shifted pictures, or with noise in its pictures or vectors.

    Parameters
    ----------
    batch : Batch
        Its sources are arrays (T, B, F); it is not changed.
    inputs : Input
        What they are.
    shift : int
        Each picture is shifted by -`shift` to `shift` pixels down and to the right, all equally probable.
    noise : float
        The standard deviation of the Gaussian noise that each number gets: where 1 is the range of a picture, from
        which no pixel leaves; and of vectors, where a model has standardised them, the deviation of their numbers.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    Batch
        Of the same shapes. Padding stays 0.
    """
    source = batch.source
    if shift and isinstance(inputs, ImageInput):
        by = rng.integers(-shift, shift + 1, (source.shape[1], 2))
        source = inputs.cells(shifted(inputs.images(source), by))
    if noise:
        source = source + np.float32(noise) * rng.standard_normal(source.shape, np.float32)
        if isinstance(inputs, ImageInput):
            source = source.clip(0, 1)
        else:
            source[np.arange(len(source))[:, None] >= batch.lengths] = 0
    return batch._replace(source=source)


def shifted(images: Array, by: Array) -> Array:
    """Shift images; new rows and columns repeat the pixels at the edge.

    So a light background stays light and a dark one dark, and no edge appears that is in no picture.

    Parameters
    ----------
    images : array (B, H, W, C)
        The images.
    by : integer array (B, 2)
        Pixels down and to the right, for each image.

    Returns
    -------
    array (B, H, W, C)
        Pixel (i, j) is pixel (i - down, j - right) of the image, or the nearest one that it has.
    """
    count, height, width, _ = images.shape
    rows = (np.arange(height) - by[:, :1]).clip(0, height - 1)
    columns = (np.arange(width) - by[:, 1:]).clip(0, width - 1)
    result: Array = images[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]]
    return result
