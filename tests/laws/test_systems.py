"""What other systems lack or forbid, as far as it can be tested on this one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import outofcore
from regard.seq2seq import Seq2Seq

SRC = Path(__file__).parents[2] / "src" / "regard"
# What Windows or macOS lack, of the modules os and signal, and modules that Windows lacks.
LACKING = {
    "os": r"(sched|posix|get|set)_\w+|fork\w*|wait\w*|kill|killpg|mkfifo|mknod|nice|uname|[gs]ete?[ug]id|f?chown|fchmod"
    r"|p(read|write)v?|(read|write)v|getloadavg|openpty|pipe2|statvfs|sysconf|O_(NONBLOCK|NOFOLLOW|SYNC|CLOEXEC)|W[A-Z]\w+",
    "signal": r"SIG(?!INT|TERM|ABRT|FPE|ILL|SEGV|_DFL|_IGN)[A-Z]\w+|alarm|setitimer|pause|pthread_\w+|sigwait\w*",
}
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
GUARD = re.compile(r"sys\.platform|os\.name|hasattr\((os|signal), ")
ROOTED = re.compile(r"/(bin|dev|etc|home|proc|sys|tmp|usr|var)(/[\w/]*)?")


def names(node: ast.AST) -> list[str]:
    """What a node uses that another system lacks."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name in MODULES]
    if isinstance(node, ast.ImportFrom):
        lacking = ".*" if node.module in MODULES else LACKING.get(node.module or "", "(?!)")
        return [alias.name for alias in node.names if re.fullmatch(lacking, alias.name)]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        lacking = LACKING.get(node.value.id, "(?!)")
        return [f"{node.value.id}.{node.attr}"] if re.fullmatch(lacking, node.attr) else []
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and ROOTED.fullmatch(node.value):
        return [node.value]
    return []


def unguarded(node: ast.AST) -> Iterator[str]:
    """The uses of what other systems lack, outside of a condition that asks for the system or the name."""
    if isinstance(node, ast.If | ast.IfExp | ast.BoolOp) and GUARD.search(
        ast.unparse(node.values[0] if isinstance(node, ast.BoolOp) else node.test)
    ):
        return
    yield from names(node)
    for child in ast.iter_child_nodes(node):
        yield from unguarded(child)


def test_what_other_systems_lack_is_used_where_it_exists() -> None:
    found = {
        path.relative_to(SRC).as_posix(): uses
        for path in sorted(SRC.rglob("*.py"))
        if (uses := list(unguarded(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("os.fork()", "os.fork"),
        ("def f():\n    import fcntl", "fcntl"),
        ("from signal import SIGKILL", "SIGKILL"),
        ("open('/tmp/x')", "/tmp/x"),
        ("if sys.platform: pass\nsignal.pause()", "signal.pause"),
        ("x = os.sched_getaffinity(0) if y else 1", "os.sched_getaffinity"),
    ],
)
def test_the_reader_of_sources_finds_them(source: str, use: str) -> None:
    assert list(unguarded(ast.parse(source))) == [use]
    guarded = f"if sys.platform != 'win32':\n{textwrap.indent(source, '    ')}"
    assert list(unguarded(ast.parse(guarded))) == []


def in_use(path: Any) -> bool:
    """Whether this process has a file open or mapped."""
    name = os.path.realpath(path)
    links = [Path("/proc/self/fd", descriptor) for descriptor in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if link.is_symlink()]
    return name in opened or f"{name}\n" in Path("/proc/self/maps").read_text(encoding="utf-8")


@pytest.fixture
def files_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows neither removes nor replaces a file that is open or mapped. The code for locks knows that."""

    def refusing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*paths: Any, **options: Any) -> Any:
            for path in paths:
                if in_use(path) and not os.fspath(path).endswith(".lock"):
                    raise PermissionError(13, "in use", os.fspath(path))
            return original(*paths, **options)

        return call

    for name in ("replace", "rename", "remove", "unlink"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are read from /proc")
@pytest.mark.usefixtures("files_in_use_stay")
class TestFilesInUse:
    def test_one_that_is_open_is_not_replaced(self, tmp_path: Path) -> None:
        """The rule that the other tests rely on."""
        with (tmp_path / "file").open("wb"), pytest.raises(PermissionError):
            (tmp_path / "file").unlink()
        (tmp_path / "file").unlink()

    @pytest.mark.slow
    def test_a_model_is_saved_over_the_file_that_it_was_loaded_from(self, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        Seq2Seq(epochs=1, extras={"similar": 1}).fit(["a b", "b c"], ["x y", "y z"]).save(path)
        loaded = Seq2Seq.load(path)
        before = loaded.translate(["a b"])
        loaded.save(path)
        assert Seq2Seq.load(path).translate(["a b"]) == before

    @pytest.mark.slow
    def test_a_training_resumes_from_a_checkpoint_and_removes_it(self, tmp_path: Path) -> None:
        path = tmp_path / "checkpoint.safetensors"
        next(Seq2Seq(epochs=5).steps([("a b", "x y")], checkpoint=path))
        assert path.exists()
        Seq2Seq(epochs=5).fit(["a b"], ["x y"], checkpoint=path)
        assert not list(tmp_path.iterdir())

    def test_keys_on_a_disk_are_attended_to_with_a_checkpoint(self, tmp_path: Path) -> None:
        keys = np.memmap(tmp_path / "keys", np.float32, "w+", shape=(100, 4))
        keys[...] = np.arange(400).reshape(100, 4) / 400
        outofcore.attention(keys[:2], keys, keys, chunk=10, checkpoint=tmp_path / "state")
        assert [path.name for path in tmp_path.iterdir()] == ["keys"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["explain", "show", "translate"])
def test_no_verb_depends_on_the_code_page(verb: str, tmp_path: Path) -> None:
    """Files are UTF-8 without being told, and a terminal of Western Europe prints ? for what it lacks."""
    model = tmp_path / "model.safetensors"
    Seq2Seq(epochs=60).fit(["кот", "пёс"], ["猫", "犬"]).save(model)
    (tmp_path / "кот.txt").write_text("кот\n", encoding="utf-8")
    np.save(tmp_path / "x.npy", np.ones((30, 30)))
    arguments = {
        "explain": ["x.npy"],
        "show": ["x.npy", "--out", "page.html"],
        "translate": ["model.safetensors", "кот.txt"],
    }[verb]
    settings = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "PYTHONWARNDEFAULTENCODING": "1"}
    command = [sys.executable, "-W", "error::EncodingWarning:regard", "-m", "regard", verb, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    done.stdout.decode("cp1252")
    assert (b"?" in done.stdout) == (verb != "show")
