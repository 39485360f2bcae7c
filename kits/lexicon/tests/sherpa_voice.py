"""A program that gives texts to a dummy voice of sherpa-onnx and writes the ids of the symbols that it would speak.

    python sherpa_voice.py KIND TOKENS LEXICON FOLDER < texts.json

KIND is vits, kokoro, kitten, matcha or piper, which has no lexicon: its texts are lists of lists of code points. The
models that it writes to FOLDER return their input ids as samples, and the ids of each text are written to spoken.json
there. sherpa-onnx ends the process where it meets an error, so each case is a process of its own.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import sherpa_onnx
from onnx import TensorProto, helper

LONGEST = 400  # symbols of a text
IDS, LENGTH, ONE = (TensorProto.INT64, ["N", "L"]), (TensorProto.INT64, ["N"]), (TensorProto.FLOAT, [1])
STYLE, SCALES = (TensorProto.FLOAT, [1, 4]), (TensorProto.FLOAT, [3])
COMMON = {
    "language": "English",
    "voice": "en-us",
    "n_speakers": 1,
    "punctuation": "! ? .",
    "speaker_names": "a",
}
FLAGS = {"add_blank": 0, "has_espeak": 0, "use_eos_bos": 0, "jieba": 0, "version": 1, "sample_rate": 16000}


class Kind(NamedTuple):
    """A kind of voice: the inputs of its model, the ids first, the shape of its output, and its metadata."""

    inputs: dict[str, Any]
    output: list[int]
    metadata: dict[str, Any]


SPEED = {"style": STYLE, "speed": ONE}
SCALED = {"x": IDS, "x_length": LENGTH, "noise_scale": ONE, "length_scale": ONE}
TEXT = {"input": IDS, "input_lengths": LENGTH, "scales": SCALES}
STYLED = {"version": 2, "style_dim": f"{LONGEST},1,4", "max_token_len": LONGEST}
KINDS = {
    "vits": Kind(SCALED | {"noise_scale_w": ONE}, [1, 1, -1], {"model_type": "vits", "comment": "ljs"}),
    "piper": Kind(TEXT, [1, 1, -1], {"model_type": "vits", "comment": "piper", "has_espeak": 1}),
    "matcha": Kind(SCALED, [1, 1, -1], {"model_type": "matcha-tts", "pad_id": 0, "num_ode_steps": 3}),
    "kokoro": Kind({"tokens": IDS} | SPEED, [-1], {"model_type": "kokoro"} | STYLED),
    "kitten": Kind(
        {"input_ids": IDS} | SPEED, [-1], {"model_type": "kitten-tts"} | STYLED | {"style_dim": "1,4"}
    ),
}


def save(path: Path, inputs: dict[str, Any], shape: list[int], metadata: dict[str, Any]) -> str:
    """Write a model that returns its first input, divided by 1,000, in a shape."""
    nodes = [
        helper.make_node("Cast", [next(iter(inputs))], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["number", "thousand"], ["quotient"]),
        helper.make_node("Reshape", ["quotient", "shape"], ["y"]),
    ]
    constants = [
        helper.make_tensor("thousand", TensorProto.FLOAT, [], [metadata.get("divisor", 1000.0)]),
        helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape),
    ]
    given = [helper.make_tensor_value_info(name, *typed) for name, typed in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    made = helper.make_model(
        helper.make_graph(nodes, "voice", given, [output], constants),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    made.ir_version = 8
    for key, value in metadata.items():
        made.metadata_props.add(key=key, value=str(value))
    onnx.save(made, path)
    return str(path)


def config(kind: str, tokens: str, lexicon: str, folder: Path) -> sherpa_onnx.OfflineTtsModelConfig:
    """The configuration of a voice."""
    inputs, shape, metadata = KINDS[kind]
    files = {"lexicon": lexicon, "tokens": tokens}
    rate = {"sample_rate": 22050} if kind == "matcha" else {}
    path = save(folder / f"{kind}.onnx", inputs, shape, COMMON | FLAGS | metadata | rate)
    if kind == "piper":
        return sherpa_onnx.OfflineTtsModelConfig(
            vits=sherpa_onnx.OfflineTtsVitsModelConfig(path, tokens=tokens)
        )
    if kind == "vits":
        return sherpa_onnx.OfflineTtsModelConfig(vits=sherpa_onnx.OfflineTtsVitsModelConfig(path, **files))
    if kind == "matcha":
        mel = {"mel": (TensorProto.FLOAT, ["N", "M", "L"])}
        vocoder = save(
            folder / "vocoder.onnx", mel, [1, -1], {"model_type": "hifigan", "divisor": 1.0, **rate}
        )
        voice = sherpa_onnx.OfflineTtsMatchaModelConfig(acoustic_model=path, vocoder=vocoder, **files)
        return sherpa_onnx.OfflineTtsModelConfig(matcha=voice)
    voices = folder / "voices.bin"
    voices.write_bytes(bytes(4 * 4 * (LONGEST if kind == "kokoro" else 1)))
    if kind == "kokoro":
        voice = sherpa_onnx.OfflineTtsKokoroModelConfig(model=path, voices=str(voices), **files)
        return sherpa_onnx.OfflineTtsModelConfig(kokoro=voice)
    voice = sherpa_onnx.OfflineTtsKittenModelConfig(model=path, voices=str(voices), **files)
    return sherpa_onnx.OfflineTtsModelConfig(kitten=voice)


def main() -> None:
    """Write the ids for each text of a JSON list."""
    kind, tokens, lexicon, folder = sys.argv[1:]
    model = config(kind, tokens, lexicon, Path(folder))
    voice = sherpa_onnx.OfflineTts(sherpa_onnx.OfflineTtsConfig(model=model))

    def samples(text: Any) -> Any:
        if kind != "piper":
            return voice.generate(text).samples
        spoken = sherpa_onnx.GenerationConfig()
        spoken.phoneme_codepoints = text
        return voice.generate("-", spoken).samples

    spoken = [[round(1000 * x) for x in samples(text)] for text in json.load(sys.stdin)]
    Path(folder, "spoken.json").write_text(json.dumps(spoken))


main()
