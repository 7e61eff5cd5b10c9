"""The documentation of Python's own standard library, as found on the running machine: a tree of names.

Source is parsed and never imported, because imports act: they print, open windows, patch things. What is written
in C has documentation only at run time, so a fixed list of harmless modules is imported for that.
"""

import ast
import importlib
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from pruner.errors import ConfigError

__all__ = ["Doc", "read_stdlib"]

# fmt: off
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "distutils", "pydoc_data", "turtledemo"}
IMPORTED = (
    "array", "atexit", "binascii", "builtins", "bz2", "cmath", "codecs", "collections", "contextvars", "csv",
    "datetime", "decimal", "fcntl", "functools", "gc", "hashlib", "hmac", "io", "itertools", "lzma", "math", "mmap",
    "operator", "os", "pickle", "queue", "random", "re", "select", "signal", "socket", "sqlite3", "ssl", "struct",
    "sys", "threading", "time", "unicodedata", "weakref", "zlib",
)
# fmt: on
# Where what is written in C says it lives, if not in the public module or the same with an underscore.
HOMES = {"os": {"posix", "nt"}, "threading": {"_thread"}, "hmac": {"_hashlib", "_operator"}}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Doc:
    """A public name of the library, with the names inside it.

    Attributes:
        name: the dotted name.
        text: its docstring, below the signature if it has one; empty when undocumented.
        inner: submodules, classes, functions and methods with documentation somewhere in them.
        is_module: whether it is a module or package.
    """

    name: str
    text: str = ""
    inner: tuple["Doc", ...] = ()
    is_module: bool = False


def read_stdlib(root: Path | None = None) -> tuple[Doc, ...]:
    """Read what the library says about itself: one tree per top-level module, sorted by name.

    Args:
        root: the library's folder; by default that of the running Python.

    Raises:
        ConfigError: there is no source there, as in a zipped or stripped build.
    """
    root = root or Path(sysconfig.get_paths()["stdlib"])
    with warnings.catch_warnings():
        # Old escapes in the library's own source are not the user's business.
        warnings.simplefilter("ignore")
        parsed = _united(_folder(root, ""))
        if not parsed:
            raise ConfigError(
                f"no source of the standard library in {root}, which the demo's documents come from (a zipped or "
                "stripped build?); use another Python, or chunks of your own: pruner prune --chunks FILE"
            )
        found = _united([*parsed, *map(_imported, IMPORTED)])
    return tuple(sorted(found, key=lambda doc: doc.name))


def _folder(folder: Path, prefix: str) -> Iterator[Doc]:
    for path in sorted(folder.glob("*")):
        # `site-packages` and `config-3.11-x86_64-linux-gnu` are no identifiers.
        if path.stem in SKIPPED or path.stem.startswith("_") or not path.stem.isidentifier():
            continue
        if path.suffix == ".py":
            yield _module(path, prefix + path.stem)
        elif (path / "__init__.py").exists():
            yield _module(path / "__init__.py", prefix + path.stem)


def _module(path: Path, name: str) -> Doc:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # A broken link or another version's syntax is one module less, not the end of the demo.
        return Doc(name, is_module=True)
    inner = [_definition(node, f"{name}.", node.name) for node in _definitions(tree.body)]
    if path.name == "__init__.py":
        inner += _folder(path.parent, f"{name}.")
    return Doc(name, ast.get_docstring(tree) or "", _united(inner), is_module=True)


def _definitions(body: Iterable[ast.AST]) -> Iterator[Definition]:
    """Yield the public definitions in a body, those under `if`, `try` and `with` too."""
    for node in body:
        if isinstance(node, Definition):
            if not node.name.startswith("_"):
                yield node
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _definitions(ast.iter_child_nodes(node))


def _definition(node: Definition, module: str, qualname: str) -> Doc:
    """Make a doc of a class or function; `qualname` is its name within the module."""
    doc, inner = ast.get_docstring(node) or "", []
    if isinstance(node, ast.ClassDef):
        init = _init(node)
        doc = "\n\n".join(filter(None, [doc, ast.get_docstring(init) if init else None]))
        inner = [_definition(part, module, f"{qualname}.{part.name}") for part in _definitions(node.body)]
    return Doc(module + qualname, f"{_signature(node, qualname)}\n{doc}" if doc else "", _united(inner))


def _init(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)


def _signature(node: Definition, qualname: str) -> str:
    if isinstance(node, ast.ClassDef):
        init = _init(node)
        return _signature(init, qualname) if init else qualname
    if any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list):
        return qualname
    arguments = re.sub(r"^(self|cls)(, |$)", "", ast.unparse(node.args))
    return f"{'async ' * isinstance(node, ast.AsyncFunctionDef)}{qualname}({arguments})"


def _imported(name: str) -> Doc:
    """Make a doc of a module by importing it."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return Doc(name, is_module=True)
    inner = [_live(value, f"{name}.", attribute) for attribute, value in sorted(_exported(module).items())]
    return Doc(name, inspect.cleandoc(module.__doc__ or ""), _united(inner), is_module=True)


def _exported(module: ModuleType) -> dict[str, object]:
    """Return what a module has of its own: nothing imported from elsewhere, nothing a second time by another name."""
    name = module.__name__
    homes = {name, f"_{name}"} | HOMES.get(name, set())
    return {
        attribute: value
        for attribute, value in vars(module).items()
        if inspect.isclass(value) or (inspect.isroutine(value) and not inspect.ismethod(value))
        if not attribute.startswith("_") and getattr(value, "__module__", "") in homes
        if value.__name__ == attribute or value.__name__ not in vars(module)
    }


def _live(value: object, module: str, qualname: str) -> Doc:
    """Make a doc of an imported object."""
    doc = value.__doc__ if isinstance(value.__doc__, str) else ""
    text = f"{_live_signature(value, doc, qualname)}{inspect.cleandoc(doc)}" if doc else ""
    inner = [_live(part, module, f"{qualname}.{name}") for name, part in _members(value)]
    return Doc(module + qualname, text, _united(inner))


def _members(value: object) -> Iterator[tuple[str, object]]:
    """Yield what a class defines; with it what its namesake in C does, as `_socket.socket` for `socket.socket`."""
    if inspect.isclass(value):
        for base in value.__mro__:
            for name, part in sorted(vars(base).items()):
                documented = inspect.isroutine(part) or inspect.isdatadescriptor(part)
                if base.__name__ == value.__name__ and documented and not name.startswith("_"):
                    yield name, part


def _live_signature(value: object, doc: str, qualname: str) -> str:
    """Return a first line, unless the doc begins with one of its own, as those of C functions often do."""
    if doc.startswith((f"{qualname}(", f"{qualname.rpartition('.')[2]}(")):
        return ""
    # Not `inspect.signature`: that evaluates defaults, and trips over some (`epoll.register` in 3.13).
    arguments = re.sub(r"\$\w+(, /)?(, )?", "", getattr(value, "__text_signature__", None) or "")
    return f"{qualname}{arguments}\n"


def _united(docs: Iterable[Doc]) -> tuple[Doc, ...]:
    """Join docs of one name (a property's setter, a parsed module and its part in C); leave out empty ones."""
    found: dict[str, Doc] = {}
    for doc in docs:
        first = found.get(doc.name, doc)
        inner = doc.inner if first is doc else _united([*first.inner, *doc.inner])
        found[doc.name] = replace(first, text=(first.text or doc.text).rstrip(), inner=inner)
    return tuple(doc for doc in found.values() if doc.text or doc.inner)
