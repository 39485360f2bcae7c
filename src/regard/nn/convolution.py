"""Two-dimensional convolution as products of matrices.

Letters: B pictures of H rows and W columns of pixels with C channels; windows of k rows and columns; D channels of the
output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from regard import _check
from regard._layout import slices
from regard.kernels.matrix import multiply, multiply_and_sum

__all__ = ["convolution"]

Array = NDArray[Any]
Block = tuple[slice, slice]  # pictures, and rows of the output

_BLOCK = 1 << 17  # numbers of windows that are gathered at a time, so that they stay in the cache


def convolution(
    images: Array, weight: Array, bias: Array, *, stride: int = 1
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Convolve pictures with learned filters, with zeros around each picture. ::

        y[b, i, j] = sum over u, v of images[b, stride i + u - k // 2, stride j + v - k // 2] @ weight[u, v] + bias

    Parameters
    ----------
    images : array (B, H, W, C)
        Pictures, channels last.
    weight : array (k, k, C, D)
        Filters; k is odd. The weight (D, C, k, k) of PyTorch's Conv2d is transposed by ``transpose(2, 3, 1, 0)``.
    bias : array (D,)
        Added to each pixel of the output.
    stride : int
        Distance between the centres of neighbouring windows.

    Returns
    -------
    y : array (B, ceil(H / stride), ceil(W / stride), D)
        The output pictures.
    pullback : function
        ``pullback(dy) -> (dimages (B, H, W, C), dweight (k, k, C, D), dbias (D,))``.

    Raises
    ------
    ValueError, TypeError
        If the shapes don't match, k is even, or `stride` is not a positive whole number.

    References
    ----------
    LeCun et al. 1989, "Backpropagation Applied to Handwritten Zip Code Recognition"; Chellapilla, Puri and Simard 2006,
    "High Performance Convolutional Neural Networks for Document Processing", section 3 (windows as rows of a matrix).

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.array([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 2, 2, 1)
    >>> y, pullback = convolution(picture, np.ones((3, 3, 1, 1)), np.zeros(1), stride=2)
    >>> y.item(), pullback(np.ones((1, 1, 1, 1)))[1].reshape(3, 3)
    (10.0, array([[0., 0., 0.],
           [0., 1., 2.],
           [0., 3., 4.]]))
    """
    stride = _check.whole("stride", stride, 1)
    _check_shapes(images, weight, bias)
    size, channels, filters = weight.shape[1:]
    matrix = weight.reshape(size * size * channels, filters)
    kept = _windows(_pad(images, size), images.shape, size, stride)
    y = np.empty((*kept.shape[:3], filters), np.result_type(images, weight, bias))
    for block, rows in _gathered(kept):
        multiply(rows, matrix, bias, out=y[block].reshape(len(rows), filters))

    def pullback(dy: Array) -> tuple[Array, Array, Array]:
        _check.same_shape("dy", dy, y.shape)
        dpadded = np.zeros(_padded_shape(images.shape, size), np.result_type(dy, weight))
        dwindows = _windows(dpadded, images.shape, size, stride)
        dmatrix, dbias = np.zeros(matrix.shape, np.result_type(images, dy)), np.zeros(filters, dy.dtype)
        for block, rows in _gathered(_windows(_pad(images, size), images.shape, size, stride)):
            drows = dy[block].reshape(len(rows), filters)
            dpart, dsums = multiply_and_sum(rows.T, drows)
            dmatrix += dpart
            dbias += dsums
            _scatter(multiply(drows, matrix.T), dwindows[block])
        return _crop(dpadded, size), dmatrix.reshape(weight.shape), dbias

    return y, pullback


def _check_shapes(images: Array, weight: Array, bias: Array) -> None:
    """Check the arguments of `convolution`."""
    _check.floats(images=images, weight=weight, bias=bias)
    if images.ndim != 4 or weight.ndim != 4:
        _check.fail(
            "images must be (B, H, W, C) and weight (k, k, C, D). "
            f"Got shapes {images.shape} and {weight.shape} instead."
        )
    size, filters = weight.shape[0], weight.shape[3]
    if weight.shape != (wanted := (size, size, images.shape[3], filters)):
        swapped = weight.shape[1] == images.shape[3] and weight.shape[2] == weight.shape[3]
        hint = "weight.transpose(2, 3, 1, 0), if it is PyTorch's, which is (D, C, k, k)" if swapped else ""
        _check.fail(f"weight must have shape (k, k, C, D) = {wanted}. Got {weight.shape} instead.", hint=hint)
    if size % 2 == 0:
        _check.fail(f"weight must be (k, k, C, D) with an odd k. Got k = {size} instead.")
    _check.same_shape("bias", bias, (filters,))


# ---- pictures and their windows ------------------------------------------------------------------------------


def _padded_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return shape[0], shape[1] + size - 1, shape[2] + size - 1, shape[3]


def _pad(images: Array, size: int) -> Array:
    """Return pictures with zeros around them."""
    if size == 1:
        return np.ascontiguousarray(images)
    padded = np.zeros(_padded_shape(images.shape, size), images.dtype)
    _crop(padded, size)[...] = images
    return padded


def _crop(padded: Array, size: int) -> Array:
    """Return a view of pictures without their padding."""
    edge, (rows, columns) = size // 2, padded.shape[1:3]
    return padded[:, edge : rows - edge, edge : columns - edge]


def _windows(padded: Array, shape: tuple[int, ...], size: int, stride: int) -> Array:
    """Return a view (B, H', W', k, k, C) of the windows of padded pictures; `shape` is that without padding."""
    picture, row, column, channel = padded.strides
    count, height, width, channels = shape
    sizes = (count, -(-height // stride), -(-width // stride), size, size, channels)
    return as_strided(padded, sizes, (picture, row * stride, column * stride, row, column, channel))


def _gathered(windows: Array) -> Iterator[tuple[Block, Array]]:
    """Gather windows block by block, as rows of a matrix (rows, k * k * C) that the next block overwrites."""
    count, height, width, size, _, channels = windows.shape
    depth = size * size * channels
    room = np.empty(0, windows.dtype)
    for block in _blocks(count, height, width * depth):
        part = windows[block]
        if part.size > room.size:
            room = np.empty(part.size, windows.dtype)
        gathered = room[: part.size].reshape(part.shape)
        gathered[...] = part
        yield block, gathered.reshape(part.shape[0] * part.shape[1] * width, depth)


def _blocks(count: int, height: int, row: int) -> list[Block]:
    """Split pictures of `height` rows of `row` numbers each: several pictures together, or one in parts."""
    lines = max(_BLOCK // max(row, 1), 1)
    if not height:
        return []
    pictures = slices(count, max(lines // height, 1))
    return [(some, rows) for some in pictures for rows in slices(height, min(lines, height))]


def _scatter(rows: Array, windows: Array) -> None:
    """Add rows (rows, k * k * C) to the pixels of their windows, which overlap."""
    parts, size = rows.reshape(windows.shape), windows.shape[3]
    for u in range(size):
        for v in range(size):  # no pixel is twice in here
            windows[:, :, :, u, v] += parts[:, :, :, u, v]
