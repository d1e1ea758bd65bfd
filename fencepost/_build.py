"""The version of fencepost, and whether its hot modules run compiled.

It looks at the loaded files, not at what the build intended.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

from msgspec import Struct

from fencepost.producer._hot import HOT, PURE_VARIABLE, in_archive, pure_wanted, read_build_record
from fencepost.producer.foundations.version import VERSION


class BuildInfo(Struct, frozen=True):
    """What runs. `modules` maps each hot module to the suffix of the file it was loaded from."""

    version: str
    compiled: bool
    modules: dict[str, str]
    python: str
    platform: str
    pure_because: str | None

    def __str__(self) -> str:
        how = f"compiled, {len(self.modules)} hot modules" if self.compiled else f"pure Python: {self.pure_because}"
        return f"fencepost {self.version} ({how}; {self.python}, {self.platform})"


def build_info() -> BuildInfo:
    """The build, from the files that Python loaded the hot modules from."""
    import platform  # imported here, because its import takes longer than this function

    modules = {module: _loaded_suffix(module) for module in HOT if find_spec(module)}
    compiled = all(suffix != ".py" for suffix in modules.values())
    return BuildInfo(
        version=VERSION,
        compiled=compiled,
        modules=modules,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=f"{platform.system()} {platform.machine()}",
        pure_because=None if compiled else _reason(modules),
    )


def _loaded_suffix(module: str) -> str:
    origin = import_module(module).__file__ or ""
    return next((suffix for suffix in EXTENSION_SUFFIXES if origin.endswith(suffix)), ".py")


def _reason(modules: dict[str, str]) -> str:
    if in_archive():
        return "imported from a zip, from which Python cannot load compiled modules"
    record = read_build_record()
    if record and record[0].startswith("pure:"):
        return record[0].removeprefix("pure:").strip()
    if record and pure_wanted():
        return f"{PURE_VARIABLE} is set"
    if record:
        return f"only {len([s for s in modules.values() if s != '.py'])} of {len(modules)} hot modules are compiled"
    return "run from its sources, which are never compiled in place"
