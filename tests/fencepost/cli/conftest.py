"""Commands run without the profiles of the machine's user."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's own config.toml."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
    monkeypatch.delenv("FENCEPOST_CONFIG", raising=False)
    monkeypatch.delenv("FENCEPOST_PROFILE", raising=False)
