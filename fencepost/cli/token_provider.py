"""`sasl.oauth.token.provider=MODULE:FUNCTION`: the commands get tokens for OAUTHBEARER from a function that the setting names.

The function is what `sasl_oauth_token_provider` takes in a program. Python imports the module, so it is installed or on PYTHONPATH.
Librdkafka, which `consume` and `topics` use, gets the same tokens.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.cli.error_lines import CommandError

NAME: Final = "sasl.oauth.token.provider"
NAMES: Final = (NAME, NAME.replace(".", "_"))


def with_provider(settings: Mapping[str, str]) -> dict[str, Any]:
    """The settings, with the function that one of them names, under the name with dots."""
    found: dict[str, Any] = {name: value for name, value in settings.items() if name not in NAMES}
    for name in settings.keys() & set(NAMES):
        found[NAME] = _imported(name, settings[name])
    return found


def for_librdkafka(bootstrap: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one of its clients. Nothing changes without a provider."""
    if NAME not in settings:
        return dict(settings)
    return {name: value for name, value in settings.items() if name != NAME} | {"oauth_cb": _tokens(bootstrap, settings)}


def _imported(name: str, value: str) -> Any:
    module, colon, path = value.partition(":")
    if not module or not colon or not path:
        raise CommandError(f"{name}={value}: give MODULE:FUNCTION, a function that returns a token and its expiry")
    try:
        found: Any = importlib.import_module(module)
        for each in path.split("."):
            found = getattr(found, each)
    except Exception as error:  # The module's own code runs here.
        raise CommandError(f"{name}={value}: {type(error).__name__}: {error}") from error
    return found


def _tokens(bootstrap: str, settings: Mapping[str, Any]) -> Callable[..., object]:
    from fencepost.cli.reachability import SHARED, settings_for
    from fencepost.producer.config.names import DOTTED
    from fencepost.producer.network.librdkafka_tokens import OauthCallback

    shared = {name: settings[name] for name in settings if name.startswith(SHARED) and name in DOTTED}
    return OauthCallback(settings_for(bootstrap, shared))
