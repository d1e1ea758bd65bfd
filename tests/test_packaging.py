"""What is built and what is loaded, and that both are always the same."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import zipfile
from importlib import import_module, metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import msgspec
import pytest

import fencepost
from fencepost import producer
from fencepost.producer import _hot
from fencepost.producer.foundations.version import VERSION
from tests.drawn import drawn
from tests.machine import slowness
from tests.once import once_is_enough

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = Path(fencepost.__file__).parent.parent
PACKAGES = ("fencepost", "pyspark_fencepost")
LINKED = ("producer", "txn", "broker_stub")
"""Directories of the checkout that are packages below `fencepost`, by relative links."""
HAS_COMPILER = any(map(shutil.which, ("cc", "gcc", "clang")))
pytestmark = pytest.mark.timeout(360)  # a compiled build takes ten seconds of processor time, and the machine may be busy
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler on this machine")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_compiled_kind = pytest.mark.skipif(FREE_THREADED, reason="nothing is compiled for free-threaded Python")


def loaded_suffixes() -> dict[str, str]:
    """Taken from the modules themselves, not from `build_info`."""
    return {module: "".join(Path(import_module(module).__file__ or "").suffixes) for module in _hot.HOT}


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("FENCEPOST_PURE", "CC", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=inherited | environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the package under test, as if it were installed somewhere else."""
    for package in PACKAGES:
        shutil.copytree(INSTALLED / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for library in INSTALLED.glob("fencepost__mypyc*"):
        shutil.copy(library, tmp_path)
    return tmp_path


SOME_HOT = '(\n    "fencepost.producer.wire.schema.varint",\n    "fencepost.producer.foundations.timeouts",\n)\n'
"""Enough to see what the build does with hot modules. `make install` compiles all of them."""


@pytest.fixture
def small_checkout(checkout: Path) -> Path:
    """A copy of the sources with only two hot modules, below packages that are empty."""
    listed = checkout / "producer/_hot.py"
    listed.write_text(re.sub(r"(?<=\nHOT: Final = )\(\n.*?\n\)\n", SOME_HOT, listed.read_text(), flags=re.DOTALL))
    # What mypyc compiles it checks together with all that the packages above import, for a quarter of a minute: here they import nothing.
    for package in ("fencepost", *(f"producer{room}" for room in ("", "/wire", "/wire/schema", "/foundations"))):
        (checkout / package / "__init__.py").write_text("")
    return checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources from which a wheel is built."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for package in (*PACKAGES, *LINKED):
        leftovers = shutil.ignore_patterns("__pycache__", "*.so", _hot.BUILD_RECORD)
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=leftovers)
    return tmp_path


def import_from(site: Path, statement: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("-P", "-c", statement, cwd=site, PYTHONPATH=str(site), **environment)


def build(checkout: Path, *command: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run setup.py, and list the contents of the wheel."""
    target = Path(tempfile.mkdtemp(dir=checkout.parent))
    before = sorted(checkout.rglob("*"))
    done = run("setup.py", "-q", *(command or ("bdist_wheel",)), "--dist-dir", str(target), cwd=checkout, **environment)
    assert sorted(checkout.rglob("*")) == before, "the checkout was not left as it was"
    wheels = list(target.glob("*.whl"))
    return done, sorted(zipfile.ZipFile(wheels[0]).namelist()) if wheels else []


def test_this_is_the_build_that_was_asked_for(expected_build: str | None) -> None:
    """`make test` runs the suite compiled and pure. Each run knows its build by the files of its hot modules."""
    if expected_build is None:
        pytest.skip("FENCEPOST_EXPECT is not set: this run was not started by make, which installs the package first")
    suffixes = set(loaded_suffixes().values())
    assert suffixes == ({".py"} if expected_build == "pure" else {EXTENSION_SUFFIXES[0]})
    assert fencepost.build_info().compiled is (expected_build == "compiled")


def test_the_installed_package_is_under_test(expected_build: str | None) -> None:
    """Nothing is imported from the checkout, neither here nor in a process that a test starts."""
    if expected_build is None:
        pytest.skip("FENCEPOST_EXPECT is not set: this run was not started by make, which installs the package first")
    assert str(ROOT) not in sys.path
    assert "" not in sys.path
    for package in PACKAGES:
        origin = Path(import_module(package).__file__ or "")
        assert origin.is_relative_to(sys.prefix), origin
        assert not origin.is_relative_to(ROOT / package), origin
    started = subprocess.run(
        [sys.executable, "-c", "from fencepost import producer; print(producer.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert started.stdout.strip() == producer.__file__


def test_build_info_tells_what_is_loaded() -> None:
    """The report agrees with the files, gives the reason if nothing is compiled, fits one line, and is immutable."""
    info = fencepost.build_info()
    suffixes = loaded_suffixes()
    assert info.modules == suffixes
    assert info.compiled is (".py" not in suffixes.values())
    assert (info.pure_because is None) is info.compiled
    assert str(info).startswith(f"fencepost {VERSION} ({'compiled' if info.compiled else 'pure Python'}")
    assert "\n" not in str(info)
    with pytest.raises(AttributeError):
        info.compiled = True  # type: ignore[misc]  # it must not work
    assert msgspec.json.decode(msgspec.json.encode(info), type=type(info)) == info


def test_one_version() -> None:
    """The package, its metadata, and the version that brokers get are the same."""
    assert fencepost.__version__ == VERSION == fencepost.build_info().version
    text = (ROOT / "pyproject.toml").read_text()
    assert f'\nversion = "{VERSION}"\n' in text


def test_metadata(expected_build: str | None) -> None:
    """The installed package declares its command, its Python versions and its types."""
    if expected_build is None:
        pytest.skip("FENCEPOST_EXPECT is not set: this run was not started by make, which installs the package first")
    installed = metadata.distribution("fencepost")
    assert installed.version == VERSION
    assert installed.metadata["Requires-Python"] == ">=3.11"
    [command] = [entry for entry in installed.entry_points if entry.group == "console_scripts"]
    assert (command.name, command.value) == ("fencepost", "fencepost.cli:main")
    for package in (*PACKAGES, *(f"fencepost/{name}" for name in LINKED)):
        assert (INSTALLED / package / "py.typed").exists(), package


def test_every_hot_module_exists() -> None:
    """The build skips hot modules that do not exist. This test fails for one that was renamed."""
    assert [module for module in _hot.HOT if not (ROOT / module.replace(".", "/")).with_suffix(".py").exists()] == []


@pytest.mark.alone
def test_verifying_is_cheap() -> None:
    """The check at import costs less than two milliseconds, and as much more as the machine is slower than usual."""
    best = 1.0
    for _ in range(20):
        started = time.perf_counter()
        _hot.verify()
        best = min(best, time.perf_counter() - started)
    assert best < 0.002 * slowness()


def test_a_compiled_file_that_no_build_made_is_refused(site: Path) -> None:
    """A compiled file beside a source is loaded only if a build of exactly this source made it."""
    (site / "fencepost" / "producer" / _hot.BUILD_RECORD).unlink(missing_ok=True)
    (site / f"fencepost/producer/wire/schema/varint{EXTENSION_SUFFIXES[0]}").write_bytes(b"not even a library")
    for statement in ("import fencepost.producer", "import fencepost.producer.wire.schema.varint", "import fencepost"):
        refused = import_from(site, statement)
        assert refused.returncode == 1
        last = refused.stderr.strip().splitlines()[-1]
        assert last.startswith("ImportError: fencepost: the compiled files of fencepost.producer.wire.schema.varint")
        assert "make install" in last
        assert "FENCEPOST_PURE=1" in last
        assert str(site / "fencepost/producer/wire/schema/varint") in last
    allowed = import_from(site, "import fencepost.producer.wire.schema.varint as v; print(v.__file__)", FENCEPOST_PURE="1")
    assert allowed.stdout.strip() == str(site / "fencepost/producer/wire/schema/varint.py")


@drawn(5)
@pytest.mark.parametrize("module", _hot.HOT)
def test_every_hot_module_is_guarded(site: Path, module: str) -> None:
    """Every hot module is checked before it is loaded, also if it is imported first and alone."""
    (site / "fencepost" / "producer" / _hot.BUILD_RECORD).unlink(missing_ok=True)
    (site / (module.replace(".", "/") + EXTENSION_SUFFIXES[0])).write_bytes(b"not even a library")
    refused = import_from(site, f"import {module}")
    assert "ImportError: fencepost: the compiled files of" in refused.stderr
    assert module in refused.stderr.strip().splitlines()[-1]


def test_an_edited_source_is_noticed(site: Path) -> None:
    """One changed byte in a hot source beside its compiled file stops the import. After the change is undone, the import works."""
    if not fencepost.build_info().compiled:
        pytest.skip("this run is pure: nothing compiled could be stale (the compiled run covers it)")
    source = site / "fencepost/producer/wire/records/batch_builder.py"
    before = source.read_bytes()
    assert import_from(site, "import fencepost").returncode == 0
    source.write_bytes(before + b"#")
    refused = import_from(site, "import fencepost.producer")
    assert refused.returncode == 1
    assert "fencepost.producer.wire.records.batch_builder were not made from the sources beside them" in refused.stderr
    source.write_bytes(before)
    os.utime(source, (1, 1))
    assert import_from(site, "import fencepost").returncode == 0


def test_pure_can_be_asked_for_at_run_time(site: Path) -> None:
    """FENCEPOST_PURE=1 loads every hot module from its source, and `build_info` says so. 0 and the empty string change nothing."""
    show = "import fencepost; info = fencepost.build_info(); print(info.compiled, set(info.modules.values()), info.pure_because)"
    pure = import_from(site, show, FENCEPOST_PURE="1").stdout
    assert pure.startswith("False {'.py'} ")
    if fencepost.build_info().compiled:
        assert pure.strip().endswith("FENCEPOST_PURE is set")
    assert import_from(site, show, FENCEPOST_PURE="0").stdout == import_from(site, show).stdout
    assert import_from(site, show).stdout.startswith(str(fencepost.build_info().compiled))


def test_a_pure_build_on_request(checkout: Path) -> None:
    """FENCEPOST_PURE=1 builds a wheel for any Python 3. The build and later `build_info` say so in one line."""
    done, names = build(checkout, FENCEPOST_PURE="1")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "fencepost:" in line] == [
        "fencepost: a pure Python build, nothing is compiled: FENCEPOST_PURE was set for the build"
    ]
    assert [name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))] == []
    assert {"fencepost/py.typed", *(f"fencepost/{name}/py.typed" for name in LINKED)} <= set(names)
    assert "fencepost/producer/wire/messages/__init__.py" in names
    assert {name.split("/")[0] for name in names} == {"fencepost", "pyspark_fencepost", f"fencepost-{VERSION}.dist-info"}


@needs_compiled_kind
@pytest.mark.parametrize(("compiler", "complaint"), [("/nonexistent/cc", "No such file or directory"), ("false", "")])
def test_no_compiler(checkout: Path, compiler: str, complaint: str) -> None:
    """Without a compiler, or with one that cannot build, the build is pure, and one line says why."""
    done, names = build(checkout, CC=compiler)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stderr.splitlines() if "fencepost:" in line]
    assert line.startswith("fencepost: a pure Python build, nothing is compiled: no C compiler")
    assert complaint in line
    assert [name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))] == []


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a GIL")
def test_free_threaded_python(checkout: Path) -> None:
    """The build is pure, and one line says why."""
    done, names = build(checkout)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "fencepost:" in line] == [
        "fencepost: a pure Python build, nothing is compiled: free-threaded Python is not compiled for"
    ]
    assert [name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))] == []


@needs_compiled_kind
@needs_compiler
@once_is_enough("compiles the checkout")
def test_a_compiled_build(small_checkout: Path) -> None:
    """With a compiler the hot modules are compiled, and no others; the source of each is in the wheel, too."""
    hurried = small_checkout.parent / "hurried-cc"
    hurried.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    hurried.chmod(0o755)
    done, names = build(small_checkout, CC=str(hurried))
    assert done.returncode == 0, done.stderr
    suffix = EXTENSION_SUFFIXES[0]
    compiled = {name.removesuffix(suffix) for name in names if name.endswith(suffix) and "/" in name}
    assert compiled == {module.replace(".", "/") for module in re.findall(r'"(.*?)"', SOME_HOT)}
    assert {f"{name}.py" for name in compiled} <= set(names)
    assert "fencepost: a pure" not in done.stderr
    top = {name.split("/")[0] for name in names}
    assert top == {"fencepost", "pyspark_fencepost", f"fencepost-{VERSION}.dist-info", f"fencepost__mypyc{suffix}"}


@needs_compiled_kind
@drawn(2)
@needs_compiler
@once_is_enough("compiles the checkout")
@pytest.mark.parametrize("damage", ["the compiler fails on it", "it does not type-check"])
def test_a_failing_compile_is_not_swallowed(small_checkout: Path, damage: str) -> None:
    """Only a missing compiler gives a pure build. A hot module that does not compile is an error, and there is no wheel."""
    environment = {}
    if damage == "it does not type-check":
        with (small_checkout / "producer/wire/schema/varint.py").open("a") as source:
            source.write("\nWRONG: int = 'text'\n")
    else:
        wrapper = small_checkout.parent / "picky-cc"
        wrapper.write_text('#!/bin/sh\ncase "$*" in *probe.c*) exec cc "$@";; *) echo "picky: no" >&2; exit 1;; esac\n')
        wrapper.chmod(0o755)
        environment = {"CC": str(wrapper)}
    done, names = build(small_checkout, **environment)
    assert done.returncode != 0
    assert names == []
    assert "a pure Python build" not in done.stderr


def test_a_checkout_without_links_says_so(checkout: Path) -> None:
    """git on Windows replaces links with files, unless core.symlinks is on."""
    link = checkout / "fencepost" / "producer"
    link.unlink()
    link.write_text("../producer")
    done, names = build(checkout)
    assert done.returncode != 0
    assert "git config core.symlinks true" in done.stderr
    assert names == []


def test_compiling_in_place_is_refused(checkout: Path) -> None:
    """Compiled files beside the sources of a checkout could become stale."""
    if not HAS_COMPILER:
        pytest.skip("no C compiler on this machine: there is nothing to refuse")
    done = run("setup.py", "-q", "build_ext", "--inplace", cwd=checkout)
    assert done.returncode != 0
    assert "not compiled in place" in done.stderr
    assert list(checkout.rglob("*.so")) == []


def test_editable_installs_are_pure(checkout: Path) -> None:
    """An editable install runs the sources. It compiles nothing, and writes nothing beside them."""
    done, names = build(checkout, "editable_wheel")
    assert done.returncode == 0, done.stderr
    assert [name for name in names if name.endswith((".so", _hot.BUILD_RECORD))] == []
    assert names


FROM_A_ZIP = """
from fencepost.broker_stub import BrokerStub
from fencepost import Producer, build_info
from fencepost.producer import producer
with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap) as writer:
    writer.send("t", b"row").result(60)
print(producer.__file__)
print(build_info())
"""


def test_a_wheel_that_is_renamed_to_zip(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Spark's --py-files imports such a file as it is. Its compiled modules run from their sources, and `build_info` says so."""
    elsewhere = tmp_path_factory.mktemp("archive")
    archive = elsewhere / "fencepost.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for file in sorted(site.rglob("*")):
            made.write(file, file.relative_to(site))
    done = run("-P", "-c", FROM_A_ZIP, cwd=elsewhere, PYTHONPATH=str(archive))
    assert done.returncode == 0, done.stderr
    where, build = done.stdout.splitlines()
    assert where == str(archive / "fencepost" / "producer" / "producer.py")
    assert "pure Python: imported from a zip, from which Python cannot load compiled modules" in build


def third_party(source: Path) -> set[str]:
    """The third-party packages that a file imports."""
    trees = ast.walk(ast.parse(source.read_text()))
    names = [name for tree in trees if isinstance(tree, ast.Import | ast.ImportFrom) for name in imported_by(tree)]
    return {name for name in names if name not in sys.stdlib_module_names and name not in PACKAGES}


def imported_by(statement: ast.Import | ast.ImportFrom) -> list[str]:
    modules = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
    return [module.split(".")[0] for module in modules]


def needed_to_compile() -> list[str]:
    """What setup.py asks pip for, unless the build is pure."""
    values = [
        statement.value
        for statement in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "COMPILER"
    ]
    return [str(each) for each in ast.literal_eval(values[0])]


def test_the_build_has_what_the_hot_modules_import() -> None:
    """pip builds with what `build-system.requires` and setup.py's COMPILER name, and nothing else. mypyc has to see what it compiles
    against: it refuses the arguments of a Struct that it does not know. Only a checkout's first build is made there; a later one would not
    tell."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"] + needed_to_compile()
    there = {re.split(r"[\[<>=]", requirement)[0].replace("-", "_") for requirement in requires} | {"mypy_extensions"}  # mypy brings it
    missing = {module: absent for module in _hot.HOT if (absent := third_party(ROOT / f"{module.replace('.', '/')}.py") - there)}
    assert missing == {}
