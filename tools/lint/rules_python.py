"""Rules on Python source, read as a syntax tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.lint import rooms
from tools.lint.finding import Finding, SourceFile


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every absolute import below `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def purity(file: SourceFile) -> Iterator[Finding]:
    """Pure rooms take time, chance and bytes as arguments."""
    if file.room not in rooms.PURE:
        return
    harmless = set(_pure_path_imports(file.tree))
    for line, module in imported(file.tree):
        if module.partition(".")[0] in rooms.IMPURE_MODULES and line not in harmless:
            yield Finding(file.path, line, "purity", f"{file.room} is pure and must not import {module}")
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in rooms.IMPURE_CALLS:
            yield Finding(file.path, node.lineno, "purity", f"{file.room} is pure and must not call {node.func.id}()")
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in rooms.CLOCK_METHODS
            and ast.unparse(node.func.value).rpartition(".")[2] in {"datetime", "date"}
        ):
            yield Finding(file.path, node.lineno, "purity", f"{file.room} is pure: take the time as an argument")


def _pure_path_imports(tree: ast.AST) -> Iterator[int]:
    """Lines of ``from pathlib import PurePosixPath``: paths as text, which touch nothing."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module != "pathlib":
            continue
        if all(alias.name.startswith("Pure") for alias in node.names):
            yield node.lineno


def third_parties(file: SourceFile) -> Iterator[Finding]:
    """A room imports only the packages that `rooms.THIRD_PARTIES` grants it."""
    if file.room not in rooms.THIRD_PARTIES:
        return
    granted = rooms.THIRD_PARTIES[file.room]
    for line, module in imported(file.tree):
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in granted and top != "millpond":
            yield Finding(file.path, line, "third-party", f"{file.room} must not import {top}")


def stdlib_only(file: SourceFile) -> Iterator[Finding]:
    """The supervisor's side imports the standard library and its own siblings, nothing else."""
    if not file.path.startswith(rooms.STDLIB_ONLY):
        return
    for line, module in imported(file.tree):
        top = module.partition(".")[0]
        own = module.startswith(("millpond.engines.local.supervisor", "millpond.engines.local.keeper"))
        if top not in sys.stdlib_module_names and not own:
            yield Finding(file.path, line, "stdlib-only", f"the supervisor must not import {module}")


def inner_imports(file: SourceFile) -> Iterator[Finding]:
    """Imports stand at the top: an import inside a function hides a cycle."""
    if not file.path.startswith("src/"):
        return
    for function in functions(file.tree):
        for node in ast.walk(function):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield Finding(
                    file.path, node.lineno, "inner-import", f"import at the top, not inside {function.name}()"
                )


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def lengths(file: SourceFile) -> Iterator[Finding]:
    """Modules stay under 600 lines (400 is a warning), functions under 70, decorators apart."""
    count = len(file.lines)
    if count > rooms.MODULE_HARD:
        yield Finding(file.path, 1, "length", f"{count} lines; at most {rooms.MODULE_HARD}")
    elif count > rooms.MODULE_SOFT:
        yield Finding(file.path, 1, "length", f"{count} lines; better under {rooms.MODULE_SOFT}", hard=False)
    for function in functions(file.tree):
        span = (function.end_lineno or function.lineno) - function.lineno + 1
        if span > rooms.FUNCTION_HARD:
            text = f"{function.name}() has {span} lines; at most {rooms.FUNCTION_HARD}"
            yield Finding(file.path, function.lineno, "length", text)


def vague_names(file: SourceFile) -> Iterator[Finding]:
    """A module is named after its noun."""
    path = PurePosixPath(file.path)
    for part in (*path.parent.parts, path.stem):
        if part.strip("_") in rooms.VAGUE_NAMES:
            yield Finding(file.path, 1, "vague-name", f"{part!r} says nothing about what is inside")


def floats(file: SourceFile) -> Iterator[Finding]:
    """What is counted is an integer; exact shares are `Fraction`, money is `Decimal`."""
    if file.room not in rooms.INTEGER or file.path in rooms.FLOATS_INSIDE:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield Finding(file.path, node.lineno, "float", f"{node.value!r} is a float")
        elif isinstance(node, ast.Name) and node.id == "float":
            yield Finding(file.path, node.lineno, "float", "no floats here: use int, Fraction or Decimal")
        elif isinstance(node, ast.Attribute) and node.attr.startswith("float"):
            yield Finding(file.path, node.lineno, "float", f"no {node.attr} here: use an integer type")


def skips(file: SourceFile) -> Iterator[Finding]:
    """A skipped test says what is missing."""
    if not file.path.startswith("tests/"):
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "pytest.skip" and not _reason(node, position=0):
                yield Finding(file.path, node.lineno, "skip", "pytest.skip() without a reason")
            elif called in {"pytest.mark.skip", "pytest.mark.skipif"} and not _reason(node, position=None):
                yield Finding(file.path, node.lineno, "skip", f"{called}() without reason=")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                if ast.unparse(decorator) == "pytest.mark.skip":
                    yield Finding(file.path, decorator.lineno, "skip", "pytest.mark.skip without reason=")


def _reason(call: ast.Call, position: int | None) -> bool:
    """Whether the call carries a reason, by keyword or as argument `position`; a computed one counts."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    if position is not None:
        given += call.args[position : position + 1]
    return any(not (isinstance(value, ast.Constant) and not value.value) for value in given)


RULES = (purity, third_parties, stdlib_only, inner_imports, lengths, vague_names, floats, skips)
