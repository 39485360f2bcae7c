"""A source of one's own, complete: recordings in WAV files. ``SOURCES["audio"] = Audio`` is all that registers it."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from dataclasses import dataclass
from os import fspath
from typing import Any, ClassVar

import numpy as np

from regard.seq2seq.sources.base import Option, Source, Spec, is_path


@dataclass(frozen=True)
class Audio(Source):
    """Frames of so many samples, of recordings with one channel and 16 bits."""

    kind: ClassVar[str] = "audio"
    unit: ClassVar[str] = "recordings"
    options: ClassVar[Mapping[str, Option]] = {"frame": Option("samples of a frame")}

    frame: int

    def __post_init__(self) -> None:
        if not 1 <= self.frame <= 4096:
            raise ValueError(f"frame must be from 1 to 4096. Got {self.frame} instead.")

    @property
    def spec(self) -> Spec:
        return Spec(width=self.frame)

    def read(self, given: Any) -> Any:
        if not is_path(given):
            raise TypeError(f"a recording must be the path of a file. Got {type(given).__name__} instead.")
        try:
            with wave.open(fspath(given), "rb") as file:
                if (file.getnchannels(), file.getsampwidth()) != (1, 2):
                    raise ValueError(f"{given}: a recording must have one channel and 16 bits.")
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        except (wave.Error, EOFError) as error:
            raise ValueError(f"{given}: {error or 'the file is cut off'}") from None
        frames = samples[: len(samples) // self.frame * self.frame].reshape(-1, self.frame)
        if not len(frames):
            raise ValueError(f"{given}: a recording must have at least {self.frame} samples.")
        return frames.astype(np.float32) / 32768
