"""Law 6: extra memory is O(n (d + e) + m) + 8 MiB per thread, for every option, dtype and layout.

Gradients, which are as large as what they belong to, take O((n + m)(d + e)). Law 11: the memory for a file.

Measured as the growth of the peak resident size of a fresh process during one call: the kernel's mark of the peak is
set back just before it, after a small call has loaded what is loaded once. A full matrix of float32 would be 64 MiB
for 8,192 queries and 2,048 keys, and 1 GiB for 16,384 of both; one of bool 16 MiB, more than is allowed.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.kernels import library

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="peak resident size is read from /proc"
)

# options as code, because everything is created in the fresh process
OPTIONS = {
    "none": "{}",
    "score-dot": "{'score': 'dot'}",
    "score-cosine": "{'score': 'cosine'}",
    "score-general": "{'score': scores.general(normal(d, d))}",
    "score-additive": "{'score': scores.additive(normal(d, 8), normal(d, 8), normal(8), normal(8))}",
    "score-concat": "{'score': scores.concat(normal(2 * d, 8), normal(8))}",
    "score-location": "{'score': scores.location(normal(d, m))}",
    "score-gaussian": "{'score': scores.gaussian(2.0)}",
    "score-user": "{'score': User()}",
    "scale-and-softcap": "{'scale': 0.2, 'softcap': 3.0}",
    "bias-row": "{'bias': normal(m)}",
    "bias-column": "{'bias': normal(n, 1)}",
    "bias-number": "{'bias': 0}",
    "bias-integers": "{'bias': np.arange(m)}",
    "bias-foreign": "{'bias': normal(n, 1).astype('>f4')}",
    "bias-alibi": "{'bias': position.alibi([0.01], align='end')}",
    "bias-t5": "{'bias': position.t5_buckets(normal(32, 1), align='end')}",
    "mask-row": "{'mask': np.arange(m) % 3 > 0}",
    "mask-causal": "{'mask': mask.causal(align='end')}",
    "mask-window": "{'mask': mask.window(100, 50, align='end')}",
    "mask-lengths": "{'mask': mask.lengths(m - 5, n - 3)}",
    "mask-documents": "{'mask': mask.documents(np.arange(n) // 777, np.arange(m) // 777)}",
    "mask-prefix": "{'mask': mask.prefix(50, align='end')}",
    "mask-composed": "{'mask': (mask.causal(align='end') | mask.lengths(9)) & ~mask.window(5, 5, align='end')}",
    "local_m": "{'normalize': weights.local_m(30)}",
    "local_p": "{'normalize': weights.local_p(np.arange(float(n)) * (m / n), 30.0)}",
    "sparsemax": "{'normalize': 'sparsemax'}",
    "entmax15": "{'normalize': 'entmax15'}",
    "hard": "{'normalize': 'hard'}",
    "entmax": "{'normalize': weights.entmax(1.25)}",
    "sigmoid": "{'normalize': weights.sigmoid()}",
    "float64": "{}",
    "float16": "{}",
    "strided": "{}",
    "integers": "{}",
}
DENSE = {  # n x m numbers are an argument here; no further array of this size is allowed
    "bias-matrix": "{'bias': full(np.float32)}",
    "bias-matrix-integers": "{'bias': full(np.int8)}",
    "mask-matrix": "{'mask': full(bool)}",
}
ALL = OPTIONS | DENSE

PROCESS = """
    import numpy as np, regard
    from regard import mask, position, scores, weights
    name, function, n, m, d, e = {name!r}, {function!r}, {n}, {m}, {d}, {e}
    rng = np.random.default_rng(0)
    dtype = dict(float64=np.float64, float16=np.float16, integers=np.int32).get(name, np.float32)

    def normal(*shape):
        return (rng.standard_normal(shape) * 2).astype(np.float32)

    def full(kind):
        array = np.empty((n, m), kind)  # row by row, so that making it has no peak above its own size
        for row in array:
            row[...] = rng.random(m) < 0.5
        return array

    class User:
        def __call__(self, queries, keys):
            return queries[..., :, None, 0] - keys[..., None, :, 0]
        def vjp(self, queries, keys):
            def pullback(dscores):
                dq, dk = np.zeros(queries.shape, dscores.dtype), np.zeros(keys.shape, dscores.dtype)
                dq[..., 0], dk[..., 0] = dscores.sum(-1), -dscores.sum(-2)
                return dq, dk
            return self(queries, keys), pullback

    def peak():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

    def call(n, m):
        global_sizes = globals()
        old = global_sizes["n"], global_sizes["m"]
        global_sizes["n"], global_sizes["m"] = n, m
        options = {options}
        q, k, v = (normal(*shape).astype(dtype) for shape in ((1, n, d), (1, m, d), (1, m, e)))
        if name == "strided":
            q, k, v = (np.repeat(x, 2, axis=-1)[..., ::2][:, ::-1] for x in (q, k, v))
        {layout}
        g = np.ones((1, n, e), np.float32)
        global_sizes["n"], global_sizes["m"] = old
        with open("/proc/self/clear_refs", "w") as marks:
            marks.write("5")  # resets the peak
        before = peak()
        if function == "attention":
            regard.attention(q, k, v, kernel={kernel!r}, threads={threads}, **options)
        elif function == "partial":
            part = regard.partial(q, k, v, kernel={kernel!r}, **options)
            regard.merge(part, part)
        else:
            context, pullback = regard.attention_vjp(q, k, v, kernel={kernel!r}, threads={threads}, **options)
            pullback(g)
        return peak() - before

    call(64, 64)
    print(max(call(n, m), 0))  # Linux adds up the pages of a process in batches, so a peak may seem lower
"""


def program(
    name: str,
    function: str,
    n: int,
    m: int,
    d: int,
    e: int,
    threads: int = 1,
    kernel: str = "auto",
    layout: str = "",
) -> str:
    """The program of the fresh process."""
    letters = {"n": n, "m": m, "d": d, "e": e}
    return textwrap.dedent(PROCESS).format(
        name=name,
        function=function,
        threads=threads,
        kernel=kernel,
        options=ALL[name],
        layout=layout,
        **letters,
    )


FORKING = """
    import json, os, sys, traceback
    import numpy as np, regard
    from regard import mask, position, scores, weights
    for line in sys.stdin:
        if not os.fork():
            try:
                exec(json.loads(line), {})
            except BaseException:
                print(repr(traceback.format_exc()))
            sys.stdout.flush()
            os._exit(0)
        if status := os.wait()[1]:
            print("it ended with", status, flush=True)
"""


class Fresh:
    """Runs programs, each in a process of its own, forked from one that has imported NumPy and this package.

    Importing them takes as long as most of what is measured.
    """

    def __init__(self) -> None:
        quiet = "ignore:regard was installed without its native kernel:RuntimeWarning"
        command = [sys.executable, "-W", "error", "-W", quiet, "-c", textwrap.dedent(FORKING)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, code: str) -> int:
        """The number that a program prints."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(code) + "\n")
        self.server.stdin.flush()
        printed = self.server.stdout.readline().strip()
        assert printed.isdecimal(), printed.replace("\\n", "\n")
        return int(printed)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    """Fresh processes."""
    made = Fresh()
    with made.server:
        yield made
        assert made.server.stdin is not None
        made.server.stdin.close()


def growth(fresh: Fresh, *case: Any, **options: Any) -> int:
    """Bytes that the peak grew by in a `program`."""
    return fresh(program(*case, **options))


def allowed(function: str, n: int, m: int, d: int, e: int) -> int:
    """8 MiB for one thread, and a few float64 copies of inputs and results."""
    copies = (
        8 if function == "attention_vjp" else 4
    )  # inputs and results in the dtype of the computation, and gradients
    return (8 << 20) + copies * 8 * (n + m) * (d + e + 2)


def cases() -> list[tuple[str, str]]:
    """Every option in every function that supports it."""
    local = ("local_m", "local_p", "sparsemax", "entmax15", "hard", "entmax", "sigmoid")
    return [
        (name, function)
        for name in ALL
        for function in ("attention", "partial", "attention_vjp")
        if not (function == "partial" and name in local)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "function"), cases())
def test_law_6_at_8192_and_2048(name: str, function: str, fresh: Fresh) -> None:
    n, m = 8192, 2048
    d = e = 4
    own = (
        4 * n * m if name.startswith("bias-matrix") and function == "attention_vjp" else 0
    )  # the gradient of the bias is a result
    assert growth(fresh, name, function, n, m, d, e) <= allowed(function, n, m, d, e) + own


BLOCKED = [
    "none",
    "score-general",
    "score-additive",
    "score-gaussian",
    "scale-and-softcap",
    "bias-row",
    "bias-alibi",
]
BLOCKED += [
    "mask-row",
    "mask-lengths",
    "mask-documents",
    "mask-composed",
    "local_m",
    "float64",
    "float16",
    "strided",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKED)
def test_law_6_by_blocks_at_2048(name: str, fresh: Fresh) -> None:
    """The options of the native kernel, by blocks instead, forward and backward: 16 MiB for all pairs in float32."""
    case = "attention_vjp", 2048, 2048, 4, 4
    assert growth(fresh, name, *case, kernel="blocked") <= allowed(*case) < 4 * 2048 * 2048


@pytest.mark.slow
@pytest.mark.skipif(not library.instruction_sets(), reason=library.missing() or "there is a library")
@pytest.mark.parametrize(
    ("name", "function"),
    [("mask-window", "attention_vjp"), ("mask-documents", "attention_vjp"), ("none", "attention")],
)
def test_law_6_at_65536(name: str, function: str, fresh: Fresh) -> None:
    n = m = 65536
    assert growth(fresh, name, function, n, m, 4, 4, kernel="native") <= allowed(function, n, m, 4, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "mask-composed", "bias-row", "score-cosine"])
@pytest.mark.parametrize("function", ["attention", "attention_vjp"])
def test_law_6_at_16384(name: str, function: str, fresh: Fresh) -> None:
    n = m = 16384
    d = e = 4
    assert growth(fresh, name, function, n, m, d, e) <= allowed(function, n, m, d, e)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["none", "score-additive", "sparsemax", "entmax15", "hard", "entmax", "sigmoid", "bias-t5", "local_p"],
)
@pytest.mark.parametrize(("n", "m"), [(64, 131072), (131072, 64)])
def test_law_6_few_against_many(name: str, n: int, m: int, fresh: Fresh) -> None:
    for function in ("attention", "attention_vjp"):
        assert growth(fresh, name, function, n, m, 8, 8) <= allowed(function, n, m, 8, 8), function


LAYOUTS = {  # of keys and values that have to be converted: block by block
    "as-they-are": "",
    "float64-queries": "q = q.astype(float)",
    "fortran": "k, v = (np.asfortranarray(x[0])[None] for x in (k, v))",
    "reversed": "k, v = (x[:, ::-1, ::-1] for x in (k, v))",
    "big-endian": "q, k, v = (x.astype('>f4') for x in (q, k, v))",
    "half-fortran": "q, k, v = (np.asfortranarray(x[0].astype(np.float16))[None] for x in (q, k, v))",
    "half-keys": "k = k.astype(np.float16)",
    "bytes": "q, k, v = (x.astype(np.int8) for x in (q, k, v))",
    "int64": "q, k, v = (x.astype(np.int64) for x in (q, k, v))",
    "nan": "v[0, 5, 3] = np.nan",
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_law_6_few_queries_copy_no_keys(layout: str, kernel: str, fresh: Fresh) -> None:
    """64 queries, and 32 MiB of keys and values as float32."""
    for function in ("attention", "partial"):
        growth_bytes = growth(
            fresh, "none", function, 64, 131072, 32, 32, kernel=kernel, layout=LAYOUTS[layout]
        )
        assert growth_bytes <= 8 << 20, function


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["as-they-are", "float64-queries", "fortran"])
@pytest.mark.parametrize(
    "name",
    ["score-cosine", "score-additive", "score-location", "score-gaussian", "sparsemax", "entmax15", "hard"],
)
def test_law_6_few_queries_with_options_copy_no_keys(name: str, layout: str, fresh: Fresh) -> None:
    assert growth(fresh, name, "attention", 64, 131072, 32, 32, layout=LAYOUTS[layout]) <= 8 << 20


@pytest.mark.slow
def test_law_6_two_threads_take_at_most_twice_8_mib(fresh: Fresh) -> None:
    more = growth(fresh, "none", "attention", 8192, 8192, 16, 16, threads=2)
    assert more <= allowed("attention", 8192, 8192, 16, 16) + (8 << 20)


@pytest.mark.slow
def test_law_6_the_measurement_detects_a_full_matrix(fresh: Fresh) -> None:
    """The definition builds n x m, and would fail by far."""
    code = program("none", "attention", 4096, 4096, 4, 4)
    call = "regard.attention(q, k, v, kernel='auto', threads=1, **options)"
    assert call in code
    code = code.replace(call, "regard.attend(q, k, v, **options)")
    assert fresh(code) > 4 * 4096 * 4096 > allowed("attention", 4096, 4096, 4, 4)
    for function in ("attention", "partial", "attention_vjp"):  # even one of bool
        assert allowed(function, 8192, 2048, 4, 4) < 8192 * 2048


# ------------------------------------------------------------------------------------------------------- law 11

READERS = """
    import sys
    from pathlib import Path
    from regard.seq2seq.alignment.links import read_gold
    from regard.commands.link_files import SkippedPairs
    from regard.seq2seq.corpus.pairs import read_pairs, read_two
    from regard.seq2seq.training.log import columns, entries
    from regard.commands.array_files import read_array

    def peak():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

    path, skipped = Path("untrusted"), SkippedPairs()
    with open("/proc/self/clear_refs", "w") as marks:
        marks.write("5")  # resets the peak
    before = peak()
    try:
        result = {call}
    except ValueError as error:
        print(error, file=sys.stderr)
    print(peak() - before)
"""


def tight(line: bytes, size: int) -> bytes:
    """Lines of about `size` bytes in all, nearly as well compressed as is allowed."""
    rng, part = np.random.default_rng(0), 256_000 // len(line)
    noise = (
        rng.integers(97, 123, 1300).astype(np.uint8).tobytes() for _ in range(size // (part * len(line)))
    )
    return gzip.compress(b"".join(b"x%s\ty\n" % some + line * part for some in noise), 9)


PAIRS_CALL = "read_pairs(path, skipped=skipped.add)"
UNTRUSTED = {  # content, reader, and the allowed MiB: a small multiple of the size of the file
    "pairs": (lambda: tight(b"a\tb\n", 8 << 20), PAIRS_CALL, 40),
    "pairs-unpacked": (lambda: b"a\tb\n" * (2 << 20), PAIRS_CALL, 40),
    "pairs-newlines": (lambda: b"a\tb\n" + b"\n" * (2 << 20), PAIRS_CALL, 40),
    "pairs-bomb": (lambda: gzip.compress(b"\n" * (15 << 20), 9), PAIRS_CALL, 16),
    "two": (lambda: tight(b"ab\n", 4 << 20), "read_two(path, path)", 40),
    "links": (lambda: gzip.compress(b"0-0\n" * (1 << 18), 9), "read_gold(path)", 16),
    "links-unpacked": (lambda: b"0-0\n" * (2 << 20), "read_gold(path)", 40),
    "log": (lambda: b'{"step":1234567}\n' * (1 << 19), "columns(entries(path), ['step', 'loss'])", 24),
    "log-newlines": (lambda: b"\n" * (16 << 20), "columns(entries(path), ['step'])", 8),
    "log-no-line": (lambda: b"1" * (16 << 20), "columns(entries(path), ['step'])", 8),
    "numbers": (lambda: b"1\n" * (2 << 20), "read_array(path)", 40),
    "numbers-in-a-row": (lambda: b"1" * (16 << 20), "read_array(path)", 8),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNTRUSTED)
def test_law_11_a_file_takes_no_more_than_its_size_justifies(name: str, tmp_path: Path) -> None:
    make, call, limit = UNTRUSTED[name]
    (tmp_path / "untrusted").write_bytes(make())
    code = textwrap.dedent(READERS).format(call=call)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= limit << 20, done.stderr
