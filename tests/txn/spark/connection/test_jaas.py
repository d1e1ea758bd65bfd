"""`sasl.jaas.config`: users and passwords read as Java reads them, everything else refused, and nothing of it shown."""

from __future__ import annotations

import traceback

import pytest

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.jaas import read_jaas
from fencepost.txn.spark.connection.options import read_options
from tests.credentials import USERS

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

SECRET = "hunter2"


def of(text: str, **more: str) -> dict[str, object]:
    given = {"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.jaas.config": text}
    return read_options({**given, **{f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}}).kafka.resolve()


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('"plain"', "plain"),
        ("bare_word-1", "bare_word-1"),
        ('"a;b=c d"', "a;b=c d"),
        (r'"a\"b\\c"', 'a"b\\c'),
        (r'"tab\tline\n\101\060"', "tab\tline\nA0"),
        ("'it\"s'", 'it"s'),
        ('"pässwörd 🔑"', "pässwörd 🔑"),
        ('"// no comment /* here */"', "// no comment /* here */"),
        (r'"\8\9\z"', "89z"),
        (r'"\400"', " 0"),
        (r'"\7777"', "?77"),
        ('"a\\\nb"', "a\nb"),
        ('""', ""),
        (f'"{USERS["alice"]}"', USERS["alice"]),
    ],
)
def test_quotes_and_escapes(written: str, password: str) -> None:
    """As Java's StreamTokenizer has them: each of these, and hundreds that were drawn, was read so by Kafka's own JaasConfig."""
    text = f'{PLAIN} required username="alice" password={written};'
    assert read_jaas(text) == {"sasl_username": "alice", "sasl_password": password}


def test_comments_lines_and_other_options() -> None:
    """A configuration that was copied from a file; the module may be shaded, as Databricks has it."""
    text = f"""
        kafkashaded.{PLAIN} Required  // who
            serviceName = "kafka" /* not needed */ username = "alice"
            password = "{SECRET}" ;
    """
    assert read_jaas(text) == {"sasl_username": "alice", "sasl_password": SECRET}


def test_the_mechanism_follows_the_module_where_it_can() -> None:
    """The PLAIN module implies its mechanism. SCRAM has two digests, so the mechanism has to be given."""
    settings = read_settings(of(f'{PLAIN} required username="alice" password="{SECRET}";'))
    assert settings.sasl_mechanism is not None
    assert (settings.sasl_mechanism.value, settings.sasl_username) == ("PLAIN", "alice")
    assert settings.sasl_password is not None
    assert settings.sasl_password.reveal() == SECRET
    scram = f'{SCRAM} required username="alice" password="{SECRET}";'
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.mechanism is missing: SCRAM-SHA-256 or SCRAM-SHA-512"):
        of(scram)
    settings = read_settings(of(scram, sasl_mechanism="SCRAM-SHA-512"))
    assert settings.sasl_mechanism is not None
    assert settings.sasl_mechanism.value == "SCRAM-SHA-512"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is a login module, a flag and options"),
        (PLAIN, "it is a login module, a flag and options"),
        (f'{PLAIN} username="alice" password="{SECRET}";', "comes one of required, requisite, sufficient, optional"),
        (f'{PLAIN} required username="alice" password="{SECRET}"', "a semicolon is missing"),
        (f'{PLAIN} required username="alice" password="{SECRET};', "cannot be read from character"),
        (f'{PLAIN} required username="alice" password={SECRET}+"x";', "is not name=value"),
        (f'{PLAIN} required username="alice" password=;', "is not name=value"),
        (f'{PLAIN} required password="{SECRET}";', "PlainLoginModule has no username"),
        (f'{SCRAM} required username="alice";', "ScramLoginModule has no password"),
        (f'{SCRAM} required tokenauth=true username="t" password="{SECRET}";', "delegation tokens"),
        (f'{PLAIN} required username="a" password="{SECRET}"; {SCRAM} required;', "one login module"),
        ('com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k";', "Kerberos"),
        ("software.amazon.msk.auth.iam.IAMLoginModule required;", "AWS's login module is Java only"),
        (f'com.example.Own required password="{SECRET}";', "the login module Own runs only in Java"),
        (f'{OAUTH} required clientSecret="{SECRET}";', "give secrets="),
    ],
)
def test_what_cannot_be_used_is_refused_and_not_shown(text: str, words: str) -> None:
    """The error says what is wrong and what to do, and has no word of the password, nor has its traceback."""
    with pytest.raises(ConfigError) as raised:
        of(text, sasl_mechanism="PLAIN")
    assert words in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_user_twice_is_refused() -> None:
    """Two places that say it differently would be one guess."""
    with pytest.raises(ConfigError, match="says sasl_username, which is set as well"):
        of(f'{PLAIN} required username="alice" password="{SECRET}";', sasl_username="bob")
