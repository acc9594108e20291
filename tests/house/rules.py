"""The rules: each looks at a project's root and returns what breaks it, a line a breach."""

import ast
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house import source

FILE_LINES = 500
FUNCTION_LINES = 60
MEDIAN_LINES = 8
MODULE_BYTES = 60_000
CELLS = 25

# What a folder of workbench/ may import: the house's own folders, and what others publish.
NUMERIC = {"numpy", "ml_dtypes"}
LAYERS: dict[str, tuple[set[str], set[str]]] = {
    "compiler": ({"compiler", "knobs"}, NUMERIC),
    "compiler/onnx": ({"compiler", "knobs"}, NUMERIC | {"google", "onnx"}),
    "compiler/files": ({"compiler", "knobs"}, NUMERIC | {"msgpack"}),
    "compiler/stablehlo": ({"compiler", "knobs"}, NUMERIC | {"onnx"}),
    "compiler/tf": ({"compiler", "knobs"}, NUMERIC | {"tensorboard"}),
    "compiler/tflite": ({"compiler", "knobs"}, NUMERIC | {"onnx"}),
    "compiler/torch": ({"compiler", "knobs"}, NUMERIC | {"onnx"}),
    "numerics": ({"compiler", "knobs", "numerics"}, NUMERIC | {"matplotlib", "pandas", "tqdm"}),
    "gpu": ({"compiler", "knobs", "gpu"}, NUMERIC | {"msgpack", "platformdirs"}),
    "widgets": (
        {"compiler", "knobs", "widgets"},
        NUMERIC
        | {"IPython", "anywidget", "fast_sugiyama", "graphviz", "ipywidgets", "matplotlib"}
        | {"pandas", "traitlets"},
    ),
    "teach": (
        {"compiler", "knobs", "teach", "widgets"},
        NUMERIC | {"IPython", "ipywidgets", "nbconvert", "nbformat", "pandas"},
    ),
    "compat": (
        {"__version__", "compat", "compiler", "gpu", "knobs", "numerics"},
        NUMERIC | {"onnx"},
    ),
}
# Tables and plots are made when they are asked for, and only then is their package loaded; a type
# that only a type checker reads loads nothing.
ON_REQUEST = {"pandas", "matplotlib", "tqdm", "PIL"}
# Folders and files of a layer, lowest first: each imports itself and what stands before it.
COMPILER = (
    "errors", "counts", "discovery", "progress", "showing", "ir", "arrays", "ops", "text", "memory",
    "rewrite", "run", "record", "macros", "expressions", "passes", "training", "laws", "report", "files",
    "onnx", "tf", "tflite", "torch", "stablehlo", "builds", "lint",
)  # fmt: skip
ORDERED = {
    "compiler": COMPILER,
    "numerics": ("metrics", "capture", "precision", "verify", "bisect", "compare", "minimise"),
}


def import_direction(root: Path) -> Iterator[str]:
    """Imports go one way: from compat, widgets, gpu and numerics to compiler, and down its folders."""
    for name, tree in source.trees(root, "workbench"):
        layer = _layer(name)
        if layer is None:
            continue
        inside = {n for part in _late(tree) for n in range(part.lineno, part.end_lineno + 1)}
        for line, module in source.imports(tree):
            if not _may_import(layer, module, on_request=line in inside):
                yield f"{name}:{line}: {layer} may not import {module}"
                continue
            for folder in ORDERED:
                if (part := _part(folder, name)) and not _is_below(module, folder, part):
                    yield f"{name}:{line}: {folder}/{part} may not import {module}"


def _part(layer: str, name: str) -> str:
    """The ordered folder or file of a layer that a file belongs to; empty for all others."""
    rest = name.removeprefix(f"workbench/{layer}/")
    part = rest.partition("/")[0].removesuffix(".py")
    return "" if rest == name or part == "__init__" else part


def _is_below(module: str, layer: str, part: str) -> bool:
    """Whether a module is in this part of the layer or in one below it, or not in the layer."""
    inner = module.removeprefix(f"workbench.{layer}")
    if inner == module:
        return True
    order = ORDERED[layer]
    known = order[: order.index(part) + 1] if part in order else ()
    return inner.removeprefix(".").partition(".")[0] in known


def _late(tree: ast.Module) -> Iterator[ast.stmt]:
    yield from source.functions(tree)
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def _layer(name: str) -> str | None:
    folder = name.removeprefix("workbench/")
    return max((layer for layer in LAYERS if folder.startswith(f"{layer}/")), key=len, default=None)


def _may_import(layer: str, module: str, *, on_request: bool) -> bool:
    first, _, rest = module.partition(".")
    inner, outer = LAYERS[layer]
    if first == "workbench":
        return rest.partition(".")[0] in inner
    if first in sys.stdlib_module_names:
        return True
    return first in outer or (on_request and first in ON_REQUEST)


# What an instruction has, and who may change it: a listener hears what a module does, and nothing else.
FIELDS = frozenset(
    ("constant", "inputs", "literal", "module", "modules", "op", "order", "shape", "sources", "symbols",
     "target_id")
)  # fmt: skip
EDITORS = ("workbench/compiler/ir/", "workbench/widgets/")  # views have rows of their own


def edits_through_modules(root: Path) -> Iterator[str]:
    """Outside of the IR nobody sets an instruction's fields: its module has a method for each edit."""
    for name, tree in source.trees(root, "workbench"):
        if name.startswith(EDITORS):
            continue
        for node in ast.walk(tree):
            if (field := _field_set(node)) in FIELDS:
                yield f"{name}:{node.lineno}: sets .{field}; edit through the instruction's module"


def _field_set(node: ast.AST) -> str:
    """The field that is set or deleted here, of something else than the object at work itself."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return "" if ast.unparse(node.value) == "self" else node.attr
    is_setattr = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr")
    named = node.args[1] if is_setattr and len(node.args) > 1 else None
    return str(named.value) if isinstance(named, ast.Constant) else ""


# Where what an operation is, and its shape, depend on declarations and on the program alone.
ASKING = tuple(
    f"workbench/{part}/" for part in ("compiler/rewrite", "gpu/emit", "gpu/kernels", "gpu/lowering")
)
FAMILIES = re.compile(r"workbench/compiler/passes/\w+/")


def operations_are_asked(root: Path) -> Iterator[str]:
    """Passes and emitters ask what an operation is, not for its name, and use the program's shape rules."""
    for name, tree in source.trees(root, "workbench"):
        if not name.startswith(ASKING) and not FAMILIES.match(name):
            continue
        for node in source.nodes(tree):
            if isinstance(node, ast.Compare) and _compares_name([node.left, *node.comparators]):
                yield f"{name}:{node.lineno}: compares a name; ask for a declaration or the class"
            elif isinstance(node, ast.Attribute) and node.attr == "compute_shape":
                yield f"{name}:{node.lineno}: calls compute_shape; call shape_by with program.shape_rules"


def _compares_name(operands: list[ast.expr]) -> bool:
    """Whether something's name is compared with a text, or sought in texts or in a constant."""
    texts = [
        e
        for o in operands
        for e in (o.elts if isinstance(o, ast.Set | ast.Tuple | ast.List) else [o])
    ]
    known = any(
        (isinstance(t, ast.Name) and t.id.isupper()) or isinstance(getattr(t, "value", None), str)
        for t in texts
    )
    return known and any(isinstance(o, ast.Attribute) and o.attr == "name" for o in operands)


def budgets(root: Path) -> Iterator[str]:
    """A file has at most 500 lines, a function 60, half of them at most 8, an ES module 60 kB."""
    for path in source.files(root, ".py", ".js", under=("workbench", "tests")):
        if (lines := len(source.text(path).splitlines())) > FILE_LINES:
            yield f"{path.relative_to(root)}: {lines} lines, at most {FILE_LINES}"
        if path.suffix == ".js" and (size := path.stat().st_size) > MODULE_BYTES:
            yield f"{path.relative_to(root)}: {size} bytes, at most {MODULE_BYTES}"
    for name, tree in source.trees(root, "workbench", "tests"):
        for function in source.functions(tree):
            if (lines := source.code_lines(function)) > FUNCTION_LINES:
                where = f"{name}:{function.lineno}"
                yield f"{where}: {function.name} has {lines} lines, at most {FUNCTION_LINES}"
    sizes = [
        source.code_lines(f)
        for _, t in source.trees(root, "workbench")
        for f in source.functions(t)
    ]
    if sizes and (median := statistics.median(sizes)) > MEDIAN_LINES:
        yield f"workbench: the median function has {median} lines, at most {MEDIAN_LINES}"


def documented(root: Path) -> Iterator[str]:
    """Modules, public classes, functions and methods say what they are; overrides may inherit."""
    trees = list(source.trees(root, "workbench"))
    said = {f.name for _, tree in trees for f in source.functions(tree) if ast.get_docstring(f)}
    for name, tree in trees:
        if not ast.get_docstring(tree):
            yield f"{name}:1: the module has no docstring"
        for node in tree.body:
            yield from (
                f"{name}:{line}: {what} has no docstring" for line, what in _unsaid(node, said)
            )


def docstrings_say(root: Path) -> Iterator[str]:
    """A docstring begins with a noun or a verb, not with a question word."""
    asks = re.compile(r"(?:What|Which|Who|Whose|Where|When|Why|How)(?:ever)?\b")
    for name, tree in source.trees(root, "workbench", "tests"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                said = ast.get_docstring(node) or ""
                if asks.match(said):
                    yield f"{name}:{getattr(node, 'lineno', 1)}: {said.splitlines()[0]}"


def _unsaid(node: ast.stmt, said: set[str]) -> Iterator[tuple[int, str]]:
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if node.name.startswith("_"):
        return
    if not ast.get_docstring(node):
        yield node.lineno, node.name
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not _inherits(node, method, said):
                yield from ((line, f"{node.name}.{what}") for line, what in _unsaid(method, said))


def _inherits(owner: ast.ClassDef, method: ast.FunctionDef, said: set[str]) -> bool:
    overload = any("overload" in ast.unparse(d) for d in method.decorator_list)
    setter = any(ast.unparse(d).endswith(".setter") for d in method.decorator_list)
    return overload or setter or (bool(owner.bases) and method.name in said)


def options_in_one_place(root: Path) -> Iterator[str]:
    """The environment is read in knobs.py alone, and each variable stands in docs/options.md."""
    page = root / "docs/options.md"
    listed = set(re.findall(r"\bWORKBENCH_\w+", source.text(page))) if page.exists() else set()
    for name, tree in source.trees(root, "workbench"):
        for node in source.nodes(tree):
            read = isinstance(node, ast.Attribute) and node.attr in {
                "environ",
                "getenv",
                "environb",
            }
            if read and name != "workbench/knobs.py":
                yield f"{name}:{node.lineno}: reads the environment; add a knob to knobs.py"
    places = source.files(root, ".py", under=("workbench", "tests"))
    places += [p for p in (root / "Makefile", root / ".ci/run") if p.exists()]
    for path in places:
        for variable in sorted(
            set(re.findall(r"\bWORKBENCH_[A-Z]\w*", source.text(path))) - listed
        ):
            yield f"{path.relative_to(root)}: {variable} is not in docs/options.md"


def offline(root: Path) -> Iterator[str]:
    """Files shipped to a browser load nothing from the network; the SVG namespace is a name."""
    for path in source.files(root, ".js", ".css", ".html", ".svg", under=("workbench",)):
        for number, line in enumerate(source.text(path).splitlines(), 1):
            for url in re.findall(r"(?:https?:)?//[\w-]+\.[\w./-]+", line):
                if "//www.w3.org/" not in url:
                    yield f"{path.relative_to(root)}:{number}: {url}"


def no_machine_paths(root: Path) -> Iterator[str]:
    """No file names a folder of somebody's machine."""
    pattern = re.compile(r"(?<![\w.~/-])/(?:home|root|tmp|work|opt|Users)/\w[\w.-]*")
    for path in _written(root):
        for number, line in enumerate(source.text(path).splitlines(), 1):
            yield from (f"{path.relative_to(root)}:{number}: {p}" for p in pattern.findall(line))


def no_leftovers(root: Path) -> Iterator[str]:
    """Unfinished work raises an error; it does not leave a note."""
    pattern = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b")
    for path in _written(root):
        for number, line in enumerate(source.text(path).splitlines(), 1):
            if pattern.search(line):
                yield f"{path.relative_to(root)}:{number}: {line.strip()}"


def _written(root: Path) -> list[Path]:
    found = source.files(root, ".py", ".js", ".md", ".ipynb", ".toml", ".css", ".html")
    return found + [p for p in (root / "Makefile", root / ".ci/run") if p.exists()]


def clean_notebooks(root: Path) -> Iterator[str]:
    """A notebook is kept without outputs, has at most 25 cells, and starts with words."""
    for path in source.files(root, ".ipynb", under=("notebooks",)):
        cells = json.loads(source.text(path))["cells"]
        name = path.relative_to(root)
        if len(cells) > CELLS:
            yield f"{name}: {len(cells)} cells, at most {CELLS}"
        if not cells or cells[0]["cell_type"] != "markdown":
            yield f"{name}: does not start with words"
        for number, cell in enumerate(cells, 1):
            if cell.get("outputs") or cell.get("execution_count"):
                yield f"{name}: cell {number} keeps its output"


def locked(root: Path) -> Iterator[str]:
    """requirements.lock holds `name==version` lines, no torch and no jax; npm's locks name no registry."""
    path = root / "requirements.lock"
    lines = source.text(path).splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line):
            yield f"requirements.lock:{number}: {line}"
        if line.startswith("torch=="):
            yield f"requirements.lock:{number}: torch is for `make models`"
        if line.startswith(("jax==", "jaxlib==")):
            yield f"requirements.lock:{number}: jax is for `make jax`"
    for lock in source.files(root, ".json", under=("tests",)):
        if lock.name == "package-lock.json" and '"resolved"' in source.text(lock):
            yield f"{lock.relative_to(root)}: names the registry that packages came from"


RULES = [
    import_direction,
    edits_through_modules,
    operations_are_asked,
    budgets,
    documented,
    docstrings_say,
    options_in_one_place,
    offline,
    no_machine_paths,
    no_leftovers,
    clean_notebooks,
    locked,
]
