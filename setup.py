"""Builds the wheel: the hot modules compiled by mypyc where a C compiler is, plain Python where none is or FENCEPOST_PURE=1 asks for it.

It refuses to compile in place, where an edit would leave the compiled file stale, and it never falls back to a pure build because compiling
failed: only because there is nothing to compile with. A checkout is left as it was; everything is built in a temporary directory.
"""

from __future__ import annotations

import ast
import atexit
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
if not (ROOT / "fencepost" / "producer").is_dir():
    sys.exit(
        "fencepost/producer is no directory: this checkout lacks its links. Run `git config core.symlinks true`, then check out again."
    )
hot = runpy.run_path(str(ROOT / "fencepost" / "producer" / "_hot.py"))


def why_pure() -> str | None:
    """Why this build compiles nothing; None where it can and should."""
    if hot["pure_wanted"]():
        return f"{hot['PURE_VARIABLE']} was set for the build"
    if sys.implementation.name != "cpython" or os.name != "posix":
        return f"{sys.implementation.name} on {os.name} is not compiled for"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "free-threaded Python is not compiled for"
    return missing_compiler()


def missing_compiler() -> str | None:
    """Why nothing at all can be compiled here, found by compiling nothing: the compiler, its headers or Python's may be absent."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\n#include <string.h>\n")
        arguments = ["-fPIC", f"-I{sysconfig.get_path('include')}", "-shared", str(source), "-o", str(source.with_suffix(".so"))]
        try:
            probe = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        except OSError as error:
            return f"no C compiler ({command[0]}: {error.strerror})"
    if probe.returncode:
        complaint = next((line for line in probe.stderr.splitlines() if "error" in line), probe.stderr.strip())
        return f"no C compiler that can build Python extensions ({complaint.strip()})"
    return None


def compiled_extensions(modules: list[str], directory: Path) -> list[Extension]:
    from mypyc.build import mypycify  # only here: a pure build does not need it

    paths = [module.replace(".", "/") + ".py" for module in modules]
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={directory / 'mypy'}"]
    extensions: list[Extension] = mypycify([*options, *paths], target_dir=str(directory / "mypyc"), group_name="fencepost")
    for extension in extensions:
        # Another compiler's new warning is no reason for an installation to fail.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
    for source in {source for extension in extensions for source in extension.sources}:
        file = Path(source)
        file.write_text(with_named_arguments(with_docstrings(file.read_text(), modules)))
    return extensions


REFUSED = re.compile(r'CPy_TypeError\("((?:str|int|float|bool)(?: or None)?)", obj_(\w+)\);')


def with_named_arguments(generated: str) -> str:
    """The C text with errors that name the argument whose type is wrong, in the words of the uncompiled checks."""

    def named(call: re.Match[str]) -> str:
        kind, name = call[1], call[2]
        type_name = f"Py_TYPE(obj_{name})->tp_name"
        short = f"strrchr({type_name}, '.') ? strrchr({type_name}, '.') + 1 : {type_name}"
        return f'PyErr_Format(PyExc_TypeError, "{name} must be {"an" if kind[0] == "i" else "a"} {kind}, not %s", {short});'

    return REFUSED.sub(named, generated)


METHODS = re.compile(r"static PyMethodDef (\w+)_methods\[\] = \{.*?\n\s*\};", re.DOTALL)
METHOD = re.compile(r'(\{"(\w+)",\s*\(PyCFunction\)\w+,\s*[\w| ]+, PyDoc_STR\("(?:[^"\\]|\\.)*)"\)')
CLASS = re.compile(r"static PyTypeObject CPyType_(\w+)_template_ = \{.*?\n\s*\};", re.DOTALL)
CLASS_DOC = re.compile(r'(\.tp_doc = PyDoc_STR\("(?:[^"\\]|\\.)*)"\)')


def with_docstrings(generated: str, modules: list[str]) -> str:
    """The C text that mypyc wrote, with the docstrings of classes and methods, which mypyc leaves out: `help` shows them."""
    documented = {}
    for module in modules:
        tree = ast.parse(Path(hot["source_path"](module)).read_text(encoding="utf-8"))
        parts = module.split(".")
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for first in range(len(parts)):
                    documented["___".join([*parts[first:], node.name])] = node

    def methods(table: re.Match[str]) -> str:
        node = documented.get(table[1])
        if node is None:
            return table[0]
        texts = {each.name: ast.get_docstring(each) for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        return METHOD.sub(lambda row: f'{row[1]}{as_c(texts.get(row[2]))}")', table[0])

    def classes(template: re.Match[str]) -> str:
        node = documented.get(template[1])
        text = as_c(ast.get_docstring(node)) if node is not None else ""
        return CLASS_DOC.sub(lambda row: f'{row[1]}{text}")', template[0])

    return CLASS.sub(classes, METHODS.sub(methods, generated))


def as_c(text: str | None) -> str:
    """A text as it stands in a C string literal."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in (text or "").encode())


class BuildPy(build_py):  # type: ignore[misc]  # setuptools publishes no types
    """`build_py` that also leaves the build record, by which stale compiled files are found out."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, "fencepost", "producer", hot["BUILD_RECORD"]).write_text("".join(f"{line}\n" for line in build_record))


modules = [module for module in hot["HOT"] if Path(hot["source_path"](module)).exists()]
build_record: list[str] = []
extensions: list[Extension] = []
options: dict[str, dict[str, str]] = {}
commands = set(sys.argv)
if "build_ext" in commands and commands & {"--inplace", "-i"}:
    sys.exit("fencepost is not compiled in place: an edited source would leave its compiled file stale. Install a wheel.")
if "sdist" not in commands:
    workplace = Path(tempfile.mkdtemp(prefix="fencepost-build-"))
    atexit.register(shutil.rmtree, workplace, ignore_errors=True)
    options = {"build": {"build_base": str(workplace)}, "egg_info": {"egg_base": str(workplace)}}
reason = why_pure()
# Metadata and editable installs need nothing compiled.
if commands & {"bdist_wheel", "build", "build_ext", "install"}:
    if reason is None:
        build_record = [f"{module} {hot['digest'](Path(hot['source_path'](module)).read_bytes())}" for module in modules]
        extensions = compiled_extensions(modules, workplace)
    else:
        build_record = [f"pure: {reason}"]
        print(f"fencepost: a pure Python build, nothing is compiled: {reason}", file=sys.stderr)

# pip installs these for the build. mypy and librt compile the hot modules; msgspec is what the compiled records are, and mypyc has to know
# its Struct. A pure build needs none of them.
COMPILER = ["mypy[mypyc]>=2.4,<2.5", "librt>=0.16,<0.17", "msgspec>=0.19,<0.23"]

setup(
    ext_modules=extensions,
    cmdclass={"build_py": BuildPy},
    options=options,
    setup_requires=COMPILER if reason is None else [],
)
