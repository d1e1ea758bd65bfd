"""Java's `sasl.jaas.config`, read for what a Python client can use: a user and a password.

Quotes, escapes and comments are those of Kafka's JaasConfig; without quotes more is accepted. As in Kafka there is one login module. A
module that logs in by itself (Kerberos, tokens over HTTP, IAM) is refused with the alternative. No error shows the text, because it
contains a password.
"""

from __future__ import annotations

import re
from typing import Final

from fencepost.producer.errors import ConfigError

NAME: Final = "kafka.sasl.jaas.config"

PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
TOKEN_MODULE: Final = "OAuthBearerLoginModule"
REFUSED_MODULES: Final = {
    "Krb5LoginModule": "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "IAMLoginModule": (
        "AWS's login module is Java only: use kafka.sasl.mechanism=OAUTHBEARER, which MSK takes as well, and secrets=, a function that "
        "returns {'sasl_oauth_token_provider': ...} with AWS's signer"
    ),
}
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

TOKENS: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[=;])|[^\s=;"']+""",
    re.DOTALL,
)
ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_jaas(text: str) -> dict[str, str]:
    """`sasl_username` and `sasl_password`; nothing if the module uses tokens, which the program must provide. Raises ConfigError."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0] in "=;":
        raise ConfigError(f'{NAME}: it is a login module, a flag and options: `…PlainLoginModule required username="…" password="…";`')
    module, flag = tokens[0].rpartition(".")[2], tokens[1]
    if flag.lower() not in FLAGS:
        raise ConfigError(f"{NAME}: after the login module {module} comes one of {', '.join(FLAGS)}")
    if module in REFUSED_MODULES:
        raise ConfigError(f"{NAME}: {module}: {REFUSED_MODULES[module]}")
    if module not in (*PASSWORD_MODULES, TOKEN_MODULE):
        known = ", ".join((*PASSWORD_MODULES, TOKEN_MODULE))
        raise ConfigError(f"{NAME}: the login module {module} runs only in Java; supported are {known}")
    options = _options(tokens[2:])
    if module == TOKEN_MODULE:
        return {}
    if options.get("tokenauth", "false").lower() == "true":
        raise ConfigError(f"{NAME}: tokenauth=true, delegation tokens, is not supported: use a user and a password")
    for name in ("username", "password"):
        if name not in options:
            raise ConfigError(f"{NAME}: {module} has no {name}")
    return {"sasl_username": options["username"], "sasl_password": options["password"]}


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    while place < len(text):
        match = TOKENS.match(text, place)
        if match is None:
            raise ConfigError(f"{NAME}: it cannot be read from character {place + 1} of {len(text)} on; is a quote missing?")
        place = match.end()
        if match["quoted"] is not None:
            # A quoted text gets a prefix, which tells it from a sign, and which is removed again.
            found.append("\0" + ESCAPE.sub(_unescape, match["quoted"][1:-1]))
        elif match["skip"] is None:
            found.append(match[0])
    return found


def _unescape(match: re.Match[str]) -> str:
    word = match[1]
    return chr(int(word, 8)) if word.isdigit() and word[0] < "8" else CONTROLS.get(word, word)


def _options(tokens: list[str]) -> dict[str, str]:
    """Any number of `name=value`, up to the semicolon."""
    options: dict[str, str] = {}
    place = 0
    while place < len(tokens) and tokens[place] != ";":
        name, sign, value = (*tokens[place : place + 3], "", "", "")[:3]
        if sign != "=" or not value or value in "=;":
            raise ConfigError(
                f"{NAME}: option {len(options) + 1} is not name=value: put a value that has a space, =, ; or a quote into quotes"
            )
        options[name.removeprefix("\0")] = value.removeprefix("\0")
        place += 3
    if place >= len(tokens):
        raise ConfigError(f"{NAME}: a semicolon is missing at its end")
    if place != len(tokens) - 1:
        raise ConfigError(f"{NAME}: there is text after the semicolon; only one login module can be used")
    return options
