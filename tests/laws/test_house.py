"""The structure of the package: allowed imports, public names, their docstrings, and the cost of importing."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
import types
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "regard"

DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
# In the order of their tables: a module imports only from those above it, a package of seq2seq from those before it.
LAYERS = re.findall(r"^\| `(\w+)` \|", DESIGN, flags=re.MULTILINE)
ROWS = re.findall(r"^\| `seq2seq\.([^|]*)\|", DESIGN, flags=re.MULTILINE)
SEQ2SEQ_PACKAGES = [name for row in ROWS for name in re.findall(r"\w+", row)]
# Stricter than the order: the kernels don't import the definition, and `show` doesn't import the models.
CLOSED = {"kernels": {"context"}, "show": {"seq2seq"}}


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_of(package: Path) -> list[Path]:
    """The modules of a package: files in a folder that is no package are copied by users, not imported."""
    return sorted(path for path in package.rglob("*.py") if path.with_name("__init__.py").exists())


FILES = files_of(SRC)
KITS = sorted(path for path in ROOT.glob("kits/*/src/*") if path.is_dir())  # packages of other distributions
SOURCES = [path for package in [SRC, *KITS] for path in files_of(package)]
TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("kits/*/tests/*.py")])
MODULES = [module_name(path) for path in FILES]
PUBLIC = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]
# What users import: a name in the `__all__` of a module of the reference has a complete docstring. What other modules
# share among themselves has a sentence.
REFERENCE = (ROOT / "docs" / "reference" / "index.rst").read_text(encoding="utf-8")
EXPORTING = re.findall(r"^   (regard(?:\.[\w.]+)?)$", REFERENCE, flags=re.MULTILINE)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def fresh(code: str, **environment: str) -> str:
    """The output of a program in a process of its own, which must not fail."""
    inherited = {
        k: v for k, v in os.environ.items() if k not in {"PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START"}
    }
    env = inherited | {"PYTHONPATH": str(Path(regard.__file__).parents[1])} | environment
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ----------------------------------------------------------------------------------------------------- layers


@functools.cache
def statements(path: Path) -> list[ast.AST]:
    """The statements of a file, those inside of others too. The expressions, which are most of it, are left out."""
    nodes: list[ast.AST] = []
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        nodes.append(node := left.pop())
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, name, [])
    return nodes


def imported(nodes: list[ast.AST], module: str, *, is_package: bool) -> set[str]:
    """The modules of this package that `module` imports, anywhere in its source, by full name."""
    modules: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                here = parts[: len(parts) - node.level + is_package]
                base = ".".join([*here, base] if base else here)
            from_root = base == "regard"
            modules.update(f"{base}.{alias.name}" if from_root else base for alias in node.names)
    return {name for name in modules if name.split(".")[0] == "regard"}


def layer_of(module: str) -> str:
    parts = module.split(".")
    if parts[1:] == ["__main__"]:
        return "cli"
    return parts[1] if len(parts) > 1 else ""


def breaches(module: str, imports: set[str]) -> list[str]:
    """The forbidden imports of `module`, by the order of the layers."""
    own = layer_of(module)
    if module == "regard":  # above all layers
        return []
    if own not in LAYERS:
        return [f"{module} is in no layer: add it to the table in docs/design.md"]
    allowed = set(LAYERS[: LAYERS.index(own) + 1]) - CLOSED.get(own, set())
    return [f"{module} imports {name}" for name in sorted(imports) if layer_of(name) not in allowed]


@functools.cache
def imports_of_the_package() -> dict[str, set[str]]:
    """The modules of this package that each of them imports, by name."""
    return {
        module: imported(statements(path), module, is_package=path.name == "__init__.py")
        for path, module in zip(FILES, MODULES, strict=True)
    }


def test_a_module_imports_only_from_those_above_it() -> None:
    assert [fault for item in imports_of_the_package().items() for fault in breaches(*item)] == []
    assert {layer_of(module) for module in MODULES} == {"", *LAYERS}


def subpackage_of(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["seq2seq"] and len(parts) > 2 else ""


def subpackage_breaches(module: str, imports: set[str]) -> list[str]:
    """The forbidden imports of a module of seq2seq, by the order of its packages."""
    own = subpackage_of(module)
    if not own:
        return []
    if own not in SEQ2SEQ_PACKAGES:
        return [f"{module} is in no package: add it to the table in docs/design.md"]
    allowed = {"", *SEQ2SEQ_PACKAGES[: SEQ2SEQ_PACKAGES.index(own) + 1]}
    return [f"{module} imports {name}" for name in sorted(imports) if subpackage_of(name) not in allowed]


def test_a_package_of_seq2seq_imports_only_from_those_before_it() -> None:
    assert [fault for item in imports_of_the_package().items() for fault in subpackage_breaches(*item)] == []


def test_no_two_classes_have_the_same_name() -> None:
    modules = [path for package in [SRC, *KITS] for path in package.rglob("*.py")]
    names = [node.name for path in modules for node in statements(path) if isinstance(node, ast.ClassDef)]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checking count, too."""
    packages = {module_name(path) for path in FILES if path.name == "__init__.py"}
    left = {
        name: imports & set(MODULES)
        for name, imports in imports_of_the_package().items()
        if name not in packages
    }
    while left:
        free = [name for name, needs in left.items() if not (needs - {name}) & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for name in free:
            del left[name]


def test_the_root_of_seq2seq_has_few_files() -> None:
    assert len(list((SRC / "seq2seq").glob("*.py"))) <= 6


def variables(code: types.CodeType) -> set[str]:
    """The variables and parameters of all functions in a piece of code."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {*code.co_varnames, *code.co_cellvars}.union(*map(variables, inner))


@pytest.mark.slow
def test_no_variable_is_a_pronoun() -> None:
    found = []
    for path in (path for package in [SRC, *KITS] for path in package.rglob("*.py")):
        names = variables(compile(path.read_text(encoding="utf-8"), path, "exec"))
        found += [f"{path}: {name}" for name in {"one", "own"} & names]
    assert found == []


def test_only_tables_of_lazy_imports_name_a_module_as_text() -> None:
    """Imports by text are invisible to the layers, so they are where a reader expects them."""
    named = re.compile(r"""["']regard(\.\w+)*:\w+["']|import_module\(""")
    modules = {
        name for name, path in zip(MODULES, FILES, strict=True) if named.search(path.read_text("utf-8"))
    }
    packages = {name for name, path in zip(MODULES, FILES, strict=True) if path.name == "__init__.py"}
    assert modules - packages == {"regard._display"}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("np.einsum(", "_einsum.py"),  # reads memory where an array has no elements
        ("cached_property", "_once.py"),  # has one lock for all objects until Python 3.12
    ],
)
def test_what_is_replaced_stands_in_the_module_that_replaces_it(name: str, module: str) -> None:
    assert [path.name for path in SOURCES if name in path.read_text("utf-8")] == [module]


def raised_by_hand(source: str) -> list[str]:
    """The ValueErrors and TypeErrors that a module raises without the helpers of `_check`."""
    raised = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise) and node.exc]
    kinds = [ast.unparse(error.func if isinstance(error, ast.Call) else error) for error in raised]
    return [kind for kind in kinds if kind in {"ValueError", "TypeError"}]


def test_what_kind_a_source_is_is_asked_by_sources_only() -> None:
    """Other modules ask a source for what they need, so that one that other people write takes part everywhere."""
    asked = re.compile(
        r"tokenizer is (not )?None|isinstance\([^()]*\b(Text|Images|Vectors)\b|source\.kind [!=]= "
    )
    outside = [path for path in SOURCES if SRC / "seq2seq" / "sources" not in path.parents]
    lines = [(path, line) for path in outside for line in path.read_text("utf-8").splitlines()]
    assert [(path.name, line) for path, line in lines if asked.search(line)] == []


def test_errors_of_rules_are_raised_by_one_module() -> None:
    """So every one has the same form: the rule with its numbers, and a hint."""
    own = [path for path in SOURCES if path.parent.name != "_check"]
    by_hand = {str(path.relative_to(ROOT)): raised_by_hand(path.read_text("utf-8")) for path in own}
    assert {name: kinds for name, kinds in by_hand.items() if kinds} == {}


# --------------------------------------------------------------------------------------------- what is public


def test_a_public_module_has_all() -> None:
    for module in map(importlib.import_module, PUBLIC):
        name, names = module.__name__, module.__all__
        assert inspect.getdoc(module), f"{name} has no docstring"
        assert len(names) == len(set(names)), name
        assert [n for n in names if not hasattr(module, n)] == [], name
        assert [n for n in names if n.startswith("_") and n != "__version__"] == [], name


# A user imports these by "from": the pages of the documentation and of users have the functions by these names.
HIDDEN = {"regard.show.page"}


def test_no_function_hides_the_module_of_its_name() -> None:
    """`import regard.nn.gru as m` would give the function: such a module has a name with an underscore."""
    modules = {name: importlib.import_module(name) for name in MODULES if name not in {"regard", *ON_DASK}}
    parents = {name: sys.modules[name.rpartition(".")[0]] for name in modules}
    hidden = {n for n, m in modules.items() if getattr(parents[n], n.rpartition(".")[2]) is not m}
    assert hidden == HIDDEN


def test_the_package_itself_only_imports() -> None:
    tree = ast.parse((SRC / "__init__.py").read_text(encoding="utf-8"))
    assigned = []
    for node in tree.body[1:]:  # after the docstring
        if isinstance(node, ast.Assign):
            assigned += [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.FunctionDef):
            assigned.append(node.name)
        elif isinstance(node, ast.If):  # what `__getattr__` imports later
            assert ast.unparse(node.test) == "TYPE_CHECKING"
            assert all(isinstance(inner, ast.ImportFrom) for inner in [*node.body, *node.orelse])
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom), ast.unparse(node)
    assert set(assigned) <= {"__all__", "__version__", "__getattr__", "__dir__"}


SUBPACKAGES = {  # and one name of each that must be available without another import
    "nn": "nn.linear",
    "seq2seq": "seq2seq.Seq2Seq, regard.seq2seq.evaluation.metrics.bleu",
    "show": "show.terminal.heatmap, regard.show.figures.curves",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBPACKAGES)
def test_the_subpackages_are_there_after_importing_regard(name: str) -> None:
    loaded = loaded_by(f"import regard; assert '{name}' in dir(regard); regard.{SUBPACKAGES[name]}")
    assert f"regard.{name}" in loaded
    assert {f"regard.{other}" for other in {"nn", "seq2seq", "show", "cli"} - {name}} & loaded <= (
        {"regard.nn"} if name == "seq2seq" else set()
    )


def test_the_package_exports_nothing_else() -> None:
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'attnd'"):
        importlib.import_module("regard").attnd  # noqa: B018


def test_one_version_in_all_places() -> None:
    regard = importlib.import_module("regard")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert regard.__version__ == project["version"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------- docstrings

SECTIONS = [  # in numpydoc's order
    *("Parameters", "Attributes", "Methods", "Returns", "Yields", "Raises", "Warns"),
    *("See Also", "Notes", "References", "Examples"),
]


def objects_of(modules: list[str]) -> dict[str, object]:
    """Every function and class of this package that the `__all__` of a module names, by where it is defined."""
    objects: dict[str, object] = {}
    for name in modules:
        module = importlib.import_module(name)
        for thing in (getattr(module, n) for n in getattr(module, "__all__", [])):
            described = inspect.isclass(thing) or inspect.isroutine(thing)
            if described and str(thing.__module__).startswith("regard"):
                objects[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return dict(sorted(objects.items()))


def sections_of(doc: str) -> dict[str, str]:
    """The sections of a numpydoc docstring by title: a title, underlined with as many dashes."""
    lines = doc.splitlines()
    starts = [i for i in range(1, len(lines)) if re.fullmatch(r"-{3,}", lines[i]) and lines[i - 1].strip()]
    sections = {}
    ends = [*(start - 1 for start in starts[1:]), len(lines)]
    for start, end in zip(starts, ends[: len(starts)], strict=True):
        title = lines[start - 1]
        assert len(title) == len(lines[start]), f"the line under {title!r} is not as long as it"
        assert start < 2 or not lines[start - 2].strip(), f"no empty line before {title!r}"
        sections[title] = "\n".join(lines[start + 1 : end])
    return sections


def summary_faults(doc: str) -> list[str]:
    summary = " ".join(doc.split("\n\n")[0].split()).removesuffix(" ::")  # a formula may follow
    if not summary:
        return ["no docstring"]
    if "---" in summary:
        return ["a section stands where the sentence should"]
    one_sentence = summary.endswith((".", "?")) and not re.search(r"[a-z)`]{2}[.?] [A-Z]", summary)
    return [] if one_sentence else [f"the first paragraph is not one sentence: {summary!r}"]


def parameter_faults(function: types.FunctionType, described: str) -> list[str]:
    listed = re.findall(r"^(\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: :.*)?$", described, flags=re.MULTILINE)
    documented = [name.lstrip("*") for group in listed for name in re.split(r", *", group)]
    taken = [name for name in inspect.signature(function).parameters if name not in {"self", "cls"}]
    return [] if documented == taken else [f"the Parameters section has {documented}, the signature {taken}"]


def doc_faults(thing: object) -> list[str]:
    """The faults of the docstring of an exported function or class, which has all sections that apply."""
    doc = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    faults = summary_faults(doc)
    sections = sections_of(doc)
    if unknown := [title for title in sections if title not in SECTIONS]:
        faults.append(f"sections that numpydoc doesn't know: {unknown}")
    elif list(sections) != sorted(sections, key=SECTIONS.index):
        faults.append(f"sections out of numpydoc's order: {list(sections)}")
    if inspect.isfunction(thing):
        expected = {"Examples", "Parameters" if inspect.signature(thing).parameters else "Examples"}
        returns = thing.__annotations__.get("return", "None")
        expected |= (
            {"Returns"} if returns not in ("None", None, "NoReturn") and "Yields" not in sections else set()
        )
        faults += [f"no section {title}" for title in sorted(expected - set(sections))]
        faults += parameter_faults(thing, sections["Parameters"]) if "Parameters" in sections else []
    if "Examples" in sections and ">>> " not in sections["Examples"]:
        faults.append("the Examples section has no example")
    return faults


def public_methods(cls: type) -> dict[str, object]:
    """The public methods and properties that a class of this package defines itself."""
    members = {n: m for n, m in vars(cls).items() if not n.startswith("_")}
    kinds = (types.FunctionType, property, classmethod, staticmethod)
    return {n: m for n, m in members.items() if isinstance(m, kinds)}


# The methods of these interfaces are called by regard, and written by users: a sentence with the shapes is enough.
INTERFACES = {
    *("regard.mask.Mask", "regard.scores.Differentiable", "regard.weights.DifferentiableNormalizer"),
    "regard.seq2seq.sources.base.Source",
}
CALLED_BY_REGARD = {"bind", "check", "restrict"}  # of masks, biases and scores


def called_methods(cls: type) -> dict[str, types.FunctionType]:
    """The methods with arguments that users call; an overriding one is described where it is defined first."""
    others: set[str] = {name for base in cls.__mro__[1:] for name in vars(base)}
    members = {n: getattr(m, "__func__", m) for n, m in public_methods(cls).items() if n not in others}
    return {
        name: member
        for name, member in members.items()
        if isinstance(member, types.FunctionType)
        and name not in CALLED_BY_REGARD
        and set(inspect.signature(member).parameters) - {"self", "cls"}
    }


def member_faults(name: str, cls: type, *, complete: bool) -> list[str]:
    """The faults of the docstrings of a class's methods and properties; `complete` if the reference shows it."""
    called = called_methods(cls) if complete and name not in INTERFACES else {}
    faults = []
    for method, member in public_methods(cls).items():
        doc = inspect.cleandoc(inspect.getdoc(getattr(cls, method, member)) or inspect.getdoc(member) or "")
        found = doc_faults(called[method]) if method in called else summary_faults(doc)
        faults += [f"{name}.{method}: {fault}" for fault in found]
    return faults


def test_every_public_name_has_a_docstring() -> None:
    """With all sections that apply, if a page of the reference shows it: those of dictionaries are a kit's."""
    faults = []
    exported = objects_of(EXPORTING)
    for name, thing in objects_of(PUBLIC).items():
        found = doc_faults(thing) if name in exported else summary_faults(inspect.getdoc(thing) or "")
        faults += [f"{name}: {fault}" for fault in found]
        if inspect.isclass(thing):
            faults += member_faults(name, thing, complete=name in exported)
    assert not faults, "\n".join(faults)


def with_sections(path: Path, module: str, exported: set[str]) -> list[str]:
    """The functions and classes whose docstring has a section although no package exports them."""
    found = []
    for top in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(top, ast.FunctionDef | ast.ClassDef) and f"{module}.{top.name}" not in exported:
            inner = [x for x in ast.walk(top) if isinstance(x, ast.FunctionDef | ast.ClassDef)]
            docs = {x.name: ast.get_docstring(x) or "" for x in inner}
            found += [f"{module}.{top.name}: {name}" for name, doc in docs.items() if sections_of(doc)]
    return found


def test_only_what_a_package_exports_has_sections() -> None:
    """Elsewhere a sentence, the shapes of arrays and the paper are enough."""
    exported = set(objects_of(EXPORTING))
    modules = list(zip(FILES, MODULES, strict=True))
    assert [fault for path, module in modules for fault in with_sections(path, module, exported)] == []
    public = next((p, m) for p, m in modules if m == "regard.scores")
    assert "regard.scores.dot: dot" in with_sections(*public, exported - {"regard.scores.dot"})


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines the body of a function has, its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def test_no_function_is_longer_than_a_screen() -> None:
    functions = [
        (path.name, node)
        for path in SOURCES
        for node in statements(path)
        if isinstance(node, ast.FunctionDef)
    ]
    assert [(file, f.name, code_lines(f)) for file, f in functions if code_lines(f) > 40] == []


# ------------------------------------------------------------------------------------------ examples that run

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no window: examples may write files and draw."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


def skip_without_packages_of(examples: str) -> None:
    """Skip a test of examples that import what is not installed; a stage of CI has it."""
    for name in re.findall(
        r"^ *>>> (?:import|from) (torch|transformers|timm)\b", examples, flags=re.MULTILINE
    ):
        pytest.importorskip(name, reason=f"the examples need {name}", exc_type=ImportError)


@pytest.mark.slow
@pytest.mark.usefixtures("empty_directory")
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    skip_without_packages_of(inspect.getsource(module))
    failed, _ = doctest.testmod(module, optionflags=OPTIONS)
    assert failed == 0


def fences(text: str) -> list[tuple[str, int, str]]:
    """The fenced code of a page: language, line number of its first line, code."""
    blocks = re.finditer(r"^([ \t]*)```(\w*)[^\n]*\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [(m[2], text.count("\n", 0, m.start(3)), textwrap.dedent(m[3])) for m in blocks]


def run_page(text: str, name: str) -> list[str]:
    """Run the Python code of a page from top to bottom in one namespace, and return the outputs that differ."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    faults: list[str] = []
    for language, line, code in fences(text):
        if ">>> " in code:
            test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line)
            doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=faults.append, clear_globs=False)
            namespace = test.globs
        elif language in {"python", "py"}:
            exec(compile("\n" * line + code, name, "exec"), namespace)
    return faults


@pytest.mark.slow
@pytest.mark.usefixtures("empty_directory")
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_python_of_the_pages_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    skip_without_packages_of(text)
    faults = run_page(text, page.name)
    assert not faults, "\n".join(faults)


def commands(text: str, program: str) -> list[str]:
    """The first word after `program` in each command that a page shows in a fence."""
    code = "\n".join(code for language, _, code in fences(text) if language not in {"python", "py", "pycon"})
    return re.findall(rf"^[ \t]*(?:\$ )?{program} +(\w[\w-]*)", code, flags=re.MULTILINE)


def test_the_commands_of_the_pages_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {"demo", "test", "quick", "clean"} <= set(targets)
    for page in PAGES:
        assert set(commands(page.read_text(encoding="utf-8"), "make")) <= set(targets), page.name
    assert commands("```sh\n$ make tea\nregard train x\n```", "make") == ["tea"]


def test_the_verbs_of_the_pages_exist(capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module("regard.cli").main
    verbs = {verb for page in PAGES for verb in commands(page.read_text(encoding="utf-8"), "regard")}
    for verb in sorted(verbs | {"train", "translate", "explain"}):
        try:
            status = main([verb, "--help"])
        except SystemExit as stop:
            status = stop.code
        assert status == 0, verb
        assert f"regard {verb}" in capsys.readouterr().out


# --------------------------------------------------------------------------------------- what importing costs


def loaded_by(statement: str) -> set[str]:
    """The modules that a statement loads where NumPy and small parts of the standard library are loaded already."""
    code = """
        import __future__, sys, copy, ctypes, dataclasses, numpy, numpy.typing
        before = set(sys.modules)
        STATEMENT
        print(*set(sys.modules) - before)
    """
    return set(fresh(code.replace("STATEMENT", statement)).split())


@pytest.mark.slow
def test_importing_loads_nothing_besides_numpy() -> None:
    """Counted in modules, since times depend on the machine."""
    loaded = loaded_by("import regard")
    assert {"regard", "regard._attention"} <= loaded
    of_python = {"ctypes"}  # which loads a part of itself at the first structure, from Python 3.14 on
    assert {name.split(".")[0] for name in loaded} - of_python == {"regard"}
    assert {"regard.nn", "regard.seq2seq", "regard.show", "regard.cli"}.isdisjoint(loaded)
    assert "json" in loaded_by("import regard, json")  # loaded modules are found


@pytest.mark.slow
def test_attending_loads_nothing_besides_numpy() -> None:
    """Not even SciPy, which takes longer to import than a thousand small attentions to compute."""
    calls = (
        "import numpy as np, regard; x = np.eye(3); regard.attend(x, x, x, mask=regard.mask.causal()); "
        "regard.attention(x, x, x); regard.partial(x, x, x); regard.attention_vjp(x, x, x)[1](x); "
        "regard.weights.softmax(x); regard.weights.predict_positions(x, x, [1, 1, 1], 3)"
    )
    assert "scipy" not in {name.split(".")[0] for name in loaded_by(calls)}
    assert {"scipy", "scipy.special"} <= loaded_by("import scipy.special")  # loaded modules are found


def test_no_test_reads_a_clock_or_has_a_deadline() -> None:
    """A test with a deadline fails on a slow or busy machine. Waiting for a process ends after half an hour."""
    clocks = re.compile(r"deadline=|perf_counter|process_time|thread_time|timeout=(?!1800\b)\d|time\.time\(")
    for path in TESTS:
        if path.name not in {"conftest.py", "test_house.py"}:
            assert clocks.findall(path.read_text(encoding="utf-8")) == [], path.name


# A test that replaces a private name says nothing to a user: most laws show through public names and real limits.
PATCHED = {
    "_fits": "the native kernel gets copies that end where memory ends",
    "_copy": "these copies",
    "_wcwidth": "whether a library is installed is found out once in a process",
}


def patched_names(source: str) -> set[str]:
    """The private names of other objects that a program replaces: by `setattr` or `setitem`, or by assignment."""
    named = re.findall(r"""\bset(?:attr|item)\([^"']*["'](?:[\w.]+\.)?(_(?!_)\w+)["'],""", source)
    for targets in re.findall(r"^ *([\w., ]+)(?:: [\w.\[\], ]+)? = ", source, flags=re.MULTILINE):
        named += re.findall(r"(?<!\bself)\.(_(?!_)\w+)(?=,|$)", targets)
    return set(named)


def test_tests_replace_no_private_names() -> None:
    paths = [path for path in TESTS if path != Path(__file__)]
    assert set().union(*(patched_names(path.read_text("utf-8")) for path in paths)) == PATCHED.keys()
    calls = (
        "m.setattr(a, '_B', 1); m.setitem(vars(a), '_c', 2); m.setattr('r._x._d', 3); m.setattr(a, 'b', 4)"
    )
    assert patched_names(calls) == {"_B", "_c", "_d"}
    assert patched_names("a._b, c.d, self._e = 1, 2, 3\na.f: int = a._g") == {"_b"}


BASE_ONLY = """
    import sys, importlib

    class OnlyTheBase:
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            private = top.startswith("_")  # such as the machine's _sysconfigdata
            if not private and top not in sys.stdlib_module_names and top not in {"numpy", "scipy", "regard"}:
                raise ModuleNotFoundError(f"not part of the base install: {name}", name=top)

    sys.meta_path.insert(0, OnlyTheBase())
    for name in sys.argv[1:] or MODULES:
        importlib.import_module(name)
"""


# Their names are Dask's, too; `regard.dask` itself imports them on first use.
ON_DASK = {f"regard.dask.{name}" for name in ("backward", "forward", "grid", "tasks")}


@pytest.mark.slow
def test_every_module_can_be_imported_without_the_extras() -> None:
    fresh(
        BASE_ONLY.replace("sys.argv[1:] or MODULES", repr([name for name in MODULES if name not in ON_DASK]))
    )
    with pytest.raises(AssertionError, match=r"regard.dask needs Dask: pip install 'regard\[dask\]'"):
        fresh(
            BASE_ONLY.replace("sys.argv[1:] or MODULES", "['regard']")
            + "    import regard; regard.dask.attention"
        )
    with pytest.raises(AssertionError, match="not part of the base install: pytest"):
        fresh(BASE_ONLY.replace("sys.argv[1:] or MODULES", "['pytest']"))


# Law 12: importing changes no floating-point mode, environment, signal handler or random state.
STATE = """
    import ctypes, faulthandler, gc, importlib, json, locale, os, random, signal, sys, threading, warnings
    import numpy as np

    def state():
        halved = [(np.finfo(t).tiny / t(2)).item() for t in (np.float32, np.float64)]  # 0 under flush-to-zero
        tasks = "/proc/self/task"
        return {
            "subnormal numbers": [value > 0 for value in halved],
            "rounding": ctypes.CDLL(None).fegetround() if os.name == "posix" else None,
            "numpy's errors": np.geterr(),
            "numpy's printing": {k: repr(v) for k, v in np.get_printoptions().items()},
            "environment": dict(os.environ),
            "handlers": {int(s): repr(signal.getsignal(s)) for s in signal.valid_signals()},
            "random": hash(random.getstate()),
            "numpy's random": repr(np.random.get_state()[1].tolist()) + repr(np.random.get_state()[2:]),
            "threads": [threading.active_count(), len(os.listdir(tasks)) if os.path.isdir(tasks) else None],
            "warnings": repr(warnings.filters),
            "hooks": [repr(h) for h in (sys.excepthook, sys.displayhook, sys.unraisablehook)],
            "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()],
            "directory": os.getcwd(),
            "locale": locale.setlocale(locale.LC_ALL),
            "faults": faulthandler.is_enabled(),
        }

    os.environ["OPENBLAS_NUM_THREADS"] = "2"  # SciPy's linear algebra starts threads when it is imported, where it may
    for program in PROGRAMS:
        child = os.fork()
        if not child:
            for statement in program:
                before = state()
                exec(statement)
                after = state()
                print(json.dumps([key for key in before if before[key] != after[key]]), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, program
"""


def changed_by(*programs: list[str]) -> list[list[str]]:
    """What each statement of these programs changes. A program runs in a process that has loaded nothing but NumPy.

    The processes are forked from one, since to start Python and to load NumPy takes longer than most imports.
    """
    printed = fresh(STATE.replace("PROGRAMS", repr(programs)), OPENBLAS_NUM_THREADS="1")
    return [json.loads(line) for line in printed.splitlines()]


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.slow
@needs_fork
def test_law_12_importing_any_module_changes_nothing_else() -> None:
    """Except what Dask changes: filters of warnings, and its libraries start threads.

    The others are imported one after the other: each runs once, and its changes are found at that import.
    """
    alone = sorted(ON_DASK)
    others = [name for name in MODULES if name not in alone]
    programs = [
        *([f"import {name}"] for name in ["dask.array", *alone]),
        [f"import {name}" for name in others],
    ]
    dask, *changes = changed_by(*programs)
    allowed = dict.fromkeys(ON_DASK, dask)
    for name, changed in zip([*alone, *others], changes, strict=True):
        assert set(changed) <= set(allowed.get(name, [])), name
