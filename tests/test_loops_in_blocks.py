"""Loops inside `with` and `try`: Ctrl-C at any point of a loop runs what ends its block.

CPython 3.12 to 3.14 run signal handlers where a loop jumps back. What a handler raises there counts as raised at that jump (3.13, 3.14) or
before the loop's first instruction (3.12), and the compiler may have left that place out of the table of the block's exceptions: then
neither `__exit__` nor `finally` runs. A loop in a function of its own does no harm.
"""

from __future__ import annotations

import ast
import dis
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import pytest

from tests.test_layers import modules

needs_3_12 = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no such instructions")

HARMLESS: Final = {
    "fencepost.broker_stub.cluster.cluster:Cluster._after_stop": "the start of the cluster fails",
    "fencepost.broker_stub.log.record_scan:RecordScan._walk": "nothing goes on with a scan that was struck",
    "fencepost.broker_stub.network.http:_write_events": "runs on the stub's thread",
    "fencepost.cli.consume:Reader.run": "the process ends",
    "fencepost.cli.log_batches:batches_in": "a file, which is closed when it is collected",
    "fencepost.demo.readback:read_back": "the process ends",
    "fencepost.spark_demo.play:Run.play": "a demo, whose driver gets Ctrl-C too",
    "fencepost.txn.files.parquet_reading:_reserved_bytes": "a file, which is closed when it is collected",
    "fencepost.txn.files.parquet_reading:_read": "the process ends",
    "fencepost.txn.jobs.database_cursor:DatabaseCursor._page": "the connection is closed, and the cursor when it is collected",
    "fencepost.txn.pool.instance_registration:unfinished": "runs on a thread of its own",
    "fencepost.txn.reading.reader:LogReader.read": "one fetch is read for nothing",
    "fencepost.txn.spark.datasource.write_task:_write": "a worker of Spark is killed and not interrupted",
    "fencepost.txn.spark.sink.write_task:WriteTask._write": "a worker of Spark is killed and not interrupted",
    "fencepost.txn.spark.guards.line_server:LineServer._run": "runs on a thread of its own",
    "fencepost.txn.spark.sink.write_job:write_on_executors": "one duration is not measured",
}
"""The functions with such a loop, in some release of Python, and why Ctrl-C does no harm there."""

LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)
INNER: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
QUIET: Final = frozenset(
    {"NOP", "COPY", "SWAP", "POP_TOP", "PUSH_NULL", "CACHE", "EXTENDED_ARG", "RESUME", "SEND", "END_SEND", "NOT_TAKEN"}
)
QUIET_KINDS: Final = ("LOAD_FAST", "STORE_FAST", "LOAD_CONST", "LOAD_SMALL", "RETURN", "POP_EXCEPT")
"""Instructions that raise nothing by themselves, so the table need not name them. Jumps are the same."""


class Block(NamedTuple):
    """What is between the first and the last line is ended by a `with` or a `try`."""

    first: int
    last: int


@needs_3_12
def test_no_loop_jumps_back_outside_its_block() -> None:
    """A loop whose jump back is outside its block is in a function of its own, or in the table."""
    found = {f"{module}:{name}" for module, file in modules().items() for name in struck_outside(file.read_text())}
    assert found - HARMLESS.keys() == set()


def test_the_table_names_functions() -> None:
    """Each function that the table names has a loop inside a block."""
    known = modules()
    for row in HARMLESS:
        module, _, name = row.partition(":")
        assert name in {code.co_qualname for code in codes_in(compile(known[module].read_text(), module, "exec", dont_inherit=True))}


def struck_outside(source: str) -> Iterator[str]:
    """The functions with a loop that may be struck outside its block."""
    blocks = blocks_by_function(ast.parse(source))
    if not any(blocks.values()):
        return
    for code in codes_in(compile(source, "source", "exec", dont_inherit=True)):
        if any(is_left(code, block) for block in blocks.get((code.co_name, code.co_firstlineno), [])):
            yield code.co_qualname


def blocks_by_function(tree: ast.Module) -> Mapping[tuple[str, int], list[Block]]:
    """The blocks with a loop inside, by the name and first line of their functions."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = [block for body in bodies(node) if (block := with_loop(body)) is not None]
    return found


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """What a `with`, a `finally` or a handler of all exceptions ends, without what is in inner functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, INNER):
            continue
        match child:
            case ast.With() | ast.AsyncWith() if not all("suppress(" in ast.unparse(each) for each in child.items):
                yield child.body
            case ast.Try():
                if child.finalbody:
                    yield [*child.body, *(each for handler in child.handlers for each in handler.body), *child.orelse]
                if any(each.type is None or "BaseException" in ast.unparse(each.type) for each in child.handlers):
                    yield child.body
        yield from bodies(child)


def with_loop(body: list[ast.stmt]) -> Block | None:
    if not any(isinstance(each, LOOPS) for statement in body for each in ast.walk(statement)):
        return None
    return Block(min(each.lineno for each in body), max(each.end_lineno or each.lineno for each in body))


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def is_left(code: CodeType, block: Block) -> bool:
    """Whether a loop of the block may be struck where the block's handler does not come."""
    instructions = list(dis.get_instructions(code))
    table: Any = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # typeshed has it for no release

    def handlers(offset: int) -> set[int]:
        """Where an exception of this instruction goes, and from there."""
        found: set[int] = set()
        while (entry := next((each for each in table if each.start <= offset < each.end), None)) is not None and entry.target not in found:
            found.add(entry.target)
            offset = entry.target
        return found

    inside = [each for each in instructions if block.first <= line_of(each) <= block.last]
    raising = [handlers(each.offset) for each in inside if not is_quiet(each)]
    common = set.intersection(*raising) if raising else set()
    lines = {each.offset: line_of(each) for each in instructions}
    return any(
        not common <= handlers(struck_at(each))
        for each in instructions
        if each.opname == "JUMP_BACKWARD" and block.first <= lines[each.argval] <= block.last
    )


def is_quiet(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    return name in QUIET or "JUMP" in name or name.startswith(QUIET_KINDS)


def line_of(instruction: dis.Instruction) -> int:
    return (instruction.positions.lineno if instruction.positions is not None else None) or 0


def struck_at(jump: dis.Instruction) -> int:
    """The place at which an exception of a signal handler counts as raised."""
    return jump.offset if sys.version_info >= (3, 13) else int(jump.argval) - 2


# -- what Python does -------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """The exception of a signal's handler."""


def while_in_with(lock: Any, one: int) -> None:
    with lock:
        while one:
            one = one


def for_in_with(lock: Any, one: int) -> None:
    with lock:
        for _ in range(10**9):
            if not one:
                break


def while_in_try(lock: Any, one: int) -> None:
    lock.acquire()
    try:
        while one:
            one = one
    finally:
        lock.release()


def for_in_try(lock: Any, one: int) -> None:
    lock.acquire()
    try:
        for _ in range(10**9):
            pass
    finally:
        lock.release()


def try_in_while_in_with(lock: Any, one: int) -> None:
    with lock:
        while one:
            try:
                one = one * one
            except ValueError as error:
                one = len(str(error))


SHAPES: Final = (while_in_with, for_in_with, while_in_try, for_in_try, try_in_while_in_with)


@needs_3_12
@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="only the main thread has signals")
@pytest.mark.parametrize("shape", SHAPES)
def test_python_does_so(shape: Callable[[Any, int], None]) -> None:
    """A loop that this file finds leaves its lock taken when a signal's handler raises, and one that it does not find gives the lock
    back. The signal comes while the loop runs, which does nothing else."""
    import inspect

    found = {*struck_outside(inspect.getsource(shape))}
    lock = threading.RLock()

    def handle(number: int, frame: FrameType | None) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        ends = time.monotonic() + 20.0
        with pytest.raises(Stop):
            shape(lock, 1)
        assert time.monotonic() < ends
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    taken: bool = lock._is_owned()  # type: ignore[attr-defined]  # in no stub
    assert taken == bool(found)
