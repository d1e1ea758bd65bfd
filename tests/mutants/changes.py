"""Single changes to a source file: a flipped comparison, a branch that is never taken, a state that is not set.

Each change is a stretch of text and its replacement. This module does not write files or run tests. It leaves alone what carries no
promise: annotations, docstrings, assertions, code for type checkers only, texts, logging, `__repr__`, and arguments that only find mistakes
in the code itself (`frozen`, `kw_only`, `strict`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
TWINS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
FINDS_MISTAKES: Final = ("frozen", "kw_only", "strict")
SAYS_ONLY: Final = ("log", "_log", "logger", "warnings")


@dataclass(frozen=True)
class Change:
    """`start` and `end` are offsets into the text of the file."""

    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, text: str) -> str:
        assert text[self.start : self.end] == self.before
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        return f"{self.line}: {self.kind}: {_short(self.before)} -> {_short(self.after)}"


@cache
def changes(text: str) -> tuple[Change, ...]:
    """Every single change of a source text, in the order of the lines."""
    return tuple(sorted(_Finder(text).find(), key=lambda change: (change.start, change.kind)))


class _Finder:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tree = ast.parse(text)
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def find(self) -> Iterator[Change]:
        yield from self._walk(self._tree)

    def _walk(self, node: ast.AST) -> Iterator[Change]:
        if _left_alone(node):
            return
        yield from self._at(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "msg", "exc", "cause"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._walk(child)

    def _at(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare():
                left = node.left
                for operator, right in zip(node.ops, node.comparators, strict=True):
                    yield from self._between(left, right, "comparison", *COMPARISONS[type(operator)])
                    left = right
            case ast.BoolOp():
                words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, "connective", *words)
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                yield from self._between(node.left, node.right, "arithmetic", *ARITHMETIC[type(node.op)])
            case ast.UnaryOp() if isinstance(node.op, ast.Not):
                yield self._instead("negation", node, self._source(node.operand))
            case ast.Constant(value=bool(value)):
                yield self._instead("constant", node, str(not value))
            case ast.Constant(value=int(value)):
                yield self._instead("constant", node, str(value + 1))
            case ast.Call(func=ast.Name(id=name)) if name in TWINS:
                yield self._instead("function", node.func, TWINS[name])
            case ast.If() | ast.While() | ast.IfExp():
                yield self._instead("branch never taken", node.test, "False")
                if not isinstance(node, ast.While):
                    yield self._instead("branch always taken", node.test, "True")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
                yield self._instead("statement left out", node, "pass")
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._instead("statement left out", node, "pass")
            case ast.Continue():
                yield self._instead("loop", node, "break")
            case ast.Break():
                yield self._instead("loop", node, "continue")

    def _between(self, left: ast.expr, right: ast.expr, kind: str, before: str, after: str) -> Iterator[Change]:
        """The operator's position: between its operands, among spaces, brackets and comments."""
        start, end = self._offset(left.end_lineno, left.end_col_offset), self._offset(right.lineno, right.col_offset)
        place = self._text.find(before, start, end)
        if place >= 0 and "#" not in self._text[start:place]:
            yield Change(kind, self._text.count("\n", 0, place) + 1, place, place + len(before), before, after)

    def _instead(self, kind: str, node: ast.expr | ast.stmt, after: str) -> Change:
        start, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        return Change(kind, node.lineno, start, end, self._text[start:end], after)

    def _source(self, node: ast.expr) -> str:
        return self._text[self._offset(node.lineno, node.col_offset) : self._offset(node.end_lineno, node.end_col_offset)]

    def _offset(self, line: int | None, column: int | None) -> int:
        """Convert a position of `ast`, which counts columns in bytes of UTF-8."""
        assert line is not None
        assert column is not None
        start = self._lines[line - 1]
        text = self._text[start : self._lines[line]]
        return start + len(text.encode()[:column].decode())


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.AnnAssign(value=None) | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.keyword(arg=name, value=ast.Constant(value=True)):
            return name in FINDS_MISTAKES
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in SAYS_ONLY
        case ast.Expr(value=ast.Constant() | ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "log" | "logger" | "warnings")))):
            return True
    return False


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else line[:67] + "..."
