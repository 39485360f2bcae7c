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
from regard._layout import as_rows, slices
from regard._once import computed_once
from regard.kernels import training
from regard.kernels.matrix import multiply

__all__ = ["convolution"]

Array = NDArray[Any]
Block = tuple[slice, slice]  # pictures, and rows of the output

_WINDOW_NUMBERS = 1 << 17  # numbers of windows that are gathered at a time, so that they stay in the cache
_FEW_CHANNELS = (
    8  # channels; with fewer, adding complete pixels is slower than adding one channel of many pixels
)


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
        If the shapes don't match, k is even, or `stride` is not a positive integer.

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
    stride = _check.integer("stride", stride, 1)
    _check_shapes(images, weight, bias)
    windows = _Windows(images.shape, len(weight), stride)
    matrix = weight.reshape(windows.depth, len(bias))
    y = np.empty((*windows.shape, len(bias)), np.result_type(images, weight, bias))
    for block, rows in windows.gather(images):
        multiply(rows, matrix, bias, out=y[block].reshape(len(rows), len(bias)))

    def pullback(dy: Array) -> tuple[Array, Array, Array]:
        _check.same_shape("dy", dy, y.shape)
        dpadded = np.zeros(windows.padded_shape, np.result_type(dy, weight))
        dmatrix, dbias = np.zeros(matrix.shape, np.result_type(images, dy)), np.zeros(len(bias), dy.dtype)
        buffer = windows.buffer(dpadded.dtype)
        for block, rows in windows.gather(images):  # again, which costs less than to keep them
            drows = dy[block].reshape(len(rows), len(bias))
            multiply(rows.T, drows, out=dmatrix, add=True)
            dbias += np.ones(len(rows), dy.dtype) @ drows
            windows.scatter(multiply(drows, matrix.T, out=buffer[: len(rows)]), dpadded, block)
        return windows.crop(dpadded), dmatrix.reshape(weight.shape), dbias

    return y, pullback


def _check_shapes(images: Array, weight: Array, bias: Array) -> None:
    """Check the arguments of `convolution`."""
    _check.floats(images=images, weight=weight, bias=bias)
    _check.dimensions(images=(images, "(B, H, W, C)"), weight=(weight, "(k, k, C, D)"))
    size, filters = weight.shape[0], weight.shape[3]
    turned = weight.shape[1] == images.shape[3] and weight.shape[2] == weight.shape[3]
    hint = "weight.transpose(2, 3, 1, 0), if it is PyTorch's, which is (D, C, k, k)" if turned else ""
    wanted = (size, size, images.shape[3], filters)
    _check.shape("weight", weight.shape, wanted, "(k, k, C, D)", hint)
    if size % 2 == 0:
        _check.fail(f"weight must be (k, k, C, D) with an odd k. Got k = {size} instead.")
    _check.same_shape("bias", bias, (filters,))


class _Windows:
    """The windows of pictures, as rows of matrices: a block of them at a time.

    shape: (B, H', W'), one window each; depth: k * k * C numbers in a window. A block is some pictures with all rows of
    the output, or some rows of one picture.
    """

    def __init__(self, shape: tuple[int, ...], size: int, stride: int) -> None:
        count, height, width, channels = shape
        stride = min(stride, max(height, width, 1))  # a larger one would give the same single window
        self.size, self.stride, self.channels = size, stride, channels
        self.shape = count, -(-height // stride), -(-width // stride)
        self.padded_shape = count, height + size - 1, width + size - 1, channels
        self.depth = size * size * channels
        # the index of a pixel takes as much memory as two numbers
        rows = max(_WINDOW_NUMBERS // max(self.shape[2] * size * size * (channels + 2), 1), 1)
        self.step = max(rows // max(self.shape[1], 1), 1), min(rows, max(self.shape[1], 1))

    def crop(self, padded: Array) -> Array:
        """Return a view of pictures without their padding."""
        edge, (rows, columns) = self.size // 2, padded.shape[1:3]
        return padded[:, edge : rows - edge, edge : columns - edge]

    def buffer(self, dtype: np.dtype[Any]) -> Array:
        """Return an array (rows, k * k * C) for the windows of the largest block."""
        return np.empty((self._pixels.size // self.size**2, self.depth), dtype)

    def gather(self, images: Array) -> Iterator[tuple[Block, Array]]:
        """Yield each block and its windows (rows, k * k * C), which the next ones overwrite."""
        padded = np.zeros(self.padded_shape, images.dtype)
        self.crop(padded)[...] = images
        buffer = self.buffer(images.dtype)
        for pictures in slices(self.shape[0], self.step[0]):
            for rows in slices(self.shape[1], self.step[1]):
                pixels, table = self._indexed(padded, (pictures, rows))
                gathered = buffer[: len(pixels) // self.size**2]
                np.take(table, pixels, axis=0, out=gathered.reshape(len(pixels), self.channels), mode="clip")
                yield (pictures, rows), gathered

    def scatter(self, rows: Array, padded: Array, block: Block) -> None:
        """Add the numbers of windows (rows, k * k * C) to their pixels."""
        pixels, table = self._indexed(padded, block)
        narrow = self.channels < _FEW_CHANNELS
        if not narrow and training.add_rows(table, pixels, rows.reshape(len(pixels), self.channels)):
            return
        windows = self._view(padded)[
            block
        ]  # windows overlap, but pixels at the same index within each do not
        parts = rows.reshape(windows.shape)
        for inner in np.ndindex(*windows.shape[3 : 6 if narrow else 5]):
            windows[:, :, :, *inner] += parts[:, :, :, *inner]

    def _indexed(self, padded: Array, block: Block) -> tuple[NDArray[np.int64], Array]:
        """Return the indices of the pixels in a block's windows, and the pixels (N, C) that they count."""
        pictures, rows = block
        # a view: a block of several pictures has all their rows
        part = padded[pictures, rows.start * self.stride :]
        pixels = self._pixels[: len(part), : rows.stop - rows.start]
        return pixels.reshape(-1), as_rows(part)

    @computed_once
    def _pixels(self) -> NDArray[np.int64]:
        """The indices (n, rows, W', k, k) of the pixels in the windows of the largest block."""
        count, height, width, _ = self.padded_shape
        count = min(count, self.step[0])
        pixels = np.arange(count * height * width).reshape(count, height, width, 1)
        return np.ascontiguousarray(self._view(pixels)[:, : self.step[1], ..., 0])

    def _view(self, padded: Array) -> Array:
        """Return a view (B, H', W', k, k, C) of the windows of padded pictures."""
        picture, row, column, channel = padded.strides
        shape = len(padded), *self.shape[1:], self.size, self.size, padded.shape[3]
        return as_strided(
            padded, shape, (picture, row * self.stride, column * self.stride, row, column, channel)
        )
