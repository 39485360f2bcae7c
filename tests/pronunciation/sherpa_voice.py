"""A program that gives words to a dummy voice of sherpa-onnx and writes the ids of the symbols it would speak.

    python sherpa_voice.py KIND TOKENS LEXICON FOLDER < texts.json

KIND is vits, kokoro, kitten or matcha. The models that it writes to FOLDER return their input ids as samples, and the
ids of each text are written to spoken.json there. sherpa-onnx ends the process where it meets an error, so each case is
a process of its own.
"""

import json
import sys
from pathlib import Path

import onnx
import sherpa_onnx
from onnx import TensorProto, helper

LONGEST = 400  # symbols of a text


def model(path: Path, kind: str) -> str:
    """Write a model whose samples are its ids, divided by 1,000."""
    names = {
        "vits": ("x", "x_length", "noise_scale", "length_scale", "noise_scale_w"),
        "kokoro": ("tokens", "style", "speed"),
        "kitten": ("input_ids", "style", "speed"),
        "matcha": ("x", "x_length", "noise_scale", "length_scale"),
    }[kind]
    shapes = {"x_length": ["N"], "style": [1, 4]}
    inputs = [
        helper.make_tensor_value_info(
            name,
            TensorProto.INT64 if name in ("x", "x_length", "tokens", "input_ids") else TensorProto.FLOAT,
            ["N", "L"] if name in ("x", "tokens", "input_ids") else shapes.get(name, [1]),
        )
        for name in names
    ]
    axes = [1] if kind in ("vits", "matcha") else [0]
    nodes = [
        helper.make_node("Cast", [names[0]], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["f", "k"], ["g"]),
        helper.make_node("Unsqueeze", ["g", "axis"], ["y"])
        if axes == [1]
        else helper.make_node("Reshape", ["g", "axis"], ["y"]),
    ]
    constants = [
        helper.make_tensor("k", TensorProto.FLOAT, [], [1000.0]),
        helper.make_tensor("axis", TensorProto.INT64, [1], axes if axes == [1] else [-1]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1, "L"] if axes == [1] else ["L"])
    metadata = {
        "vits": {"model_type": "vits", "comment": "ljs", "add_blank": 0},
        "kokoro": {
            "model_type": "kokoro",
            "version": 2,
            "style_dim": f"{LONGEST},1,4",
            "max_token_len": LONGEST,
        },
        "kitten": {"model_type": "kitten-tts", "version": 1, "style_dim": "1,4", "max_token_len": LONGEST},
        "matcha": {"model_type": "matcha-tts", "version": 1, "pad_id": 0, "num_ode_steps": 3},
    }[kind]
    metadata = {
        "language": "English",
        "voice": "en-us",
        "n_speakers": 1,
        "punctuation": "! ? .",
        "speaker_names": "a",
        "has_espeak": 0,
        "use_eos_bos": 0,
        "jieba": 0,
        "sample_rate": 22050 if kind == "matcha" else 16000,
    } | metadata
    save(path, nodes, inputs, output, constants, metadata)
    return str(path)


def save(path, nodes, inputs, output, constants, metadata) -> None:
    graph = helper.make_graph(nodes, "voice", inputs, [output], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    for key, value in metadata.items():
        made.metadata_props.add(key=key, value=str(value))
    onnx.save(made, path)


def vocoder(path: Path) -> str:
    """Write a vocoder that returns its input, whatever its shape."""
    mel = helper.make_tensor_value_info("mel", TensorProto.FLOAT, ["N", "M", "L"])
    audio = helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["N", "L"])
    nodes = [helper.make_node("Reshape", ["mel", "shape"], ["audio"])]
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [1, -1])
    save(path, nodes, [mel], audio, [shape], {"model_type": "hifigan", "sample_rate": 22050})
    return str(path)


def config(kind: str, tokens: str, lexicon: str, folder: Path) -> sherpa_onnx.OfflineTtsModelConfig:
    """The configuration of a voice."""
    path = model(folder / f"{kind}.onnx", kind)
    if kind == "vits":
        voice = sherpa_onnx.OfflineTtsVitsModelConfig(model=path, lexicon=lexicon, tokens=tokens)
        return sherpa_onnx.OfflineTtsModelConfig(vits=voice)
    if kind == "matcha":
        voice = sherpa_onnx.OfflineTtsMatchaModelConfig(
            acoustic_model=path, vocoder=vocoder(folder / "vocoder.onnx"), lexicon=lexicon, tokens=tokens
        )
        return sherpa_onnx.OfflineTtsModelConfig(matcha=voice)
    voices = folder / "voices.bin"
    voices.write_bytes(bytes(4 * 4 * (LONGEST if kind == "kokoro" else 1)))
    if kind == "kokoro":
        voice = sherpa_onnx.OfflineTtsKokoroModelConfig(
            model=path, voices=str(voices), lexicon=lexicon, tokens=tokens
        )
        return sherpa_onnx.OfflineTtsModelConfig(kokoro=voice)
    voice = sherpa_onnx.OfflineTtsKittenModelConfig(
        model=path, voices=str(voices), lexicon=lexicon, tokens=tokens
    )
    return sherpa_onnx.OfflineTtsModelConfig(kitten=voice)


def main() -> None:
    """Print the ids for each text of a JSON list."""
    kind, tokens, lexicon, folder = sys.argv[1:]
    voice = sherpa_onnx.OfflineTts(
        sherpa_onnx.OfflineTtsConfig(model=config(kind, tokens, lexicon, Path(folder)))
    )
    texts = json.load(sys.stdin)
    spoken = [[round(1000 * x) for x in voice.generate(text).samples] for text in texts]
    Path(folder, "spoken.json").write_text(json.dumps(spoken))


main()
