"""The pages of the documentation, the programs on them, and the scripts that write some of them."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"


def page_text(name: str) -> str:
    """The text of a page of `docs`."""
    return (DOCS / name).read_text(encoding="utf-8")


def programs(text: str) -> list[str]:
    """The Python programs on a page."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def generator(name: str) -> ModuleType:
    """The script in `docs` that writes a page."""
    spec = spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
