"""Files of settings: each command that asks brokers takes address, login and password from a profile."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.cli import profiles
from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import connection
from tests.fencepost.cli.shell import complaint, run

PASSWORD = 'a =:@"secret'
COMMANDS = [
    ("produce", "--topic", "t", os.devnull),
    ("produce", "--topic", "t", "--job", "empty", __file__),
    ("consume", "--topic", "t", "--from-beginning", "--exit-eof"),
    ("topics", "list"),
    ("groups", "list"),
    ("txn", "list"),
    ("ledger", "list"),
    ("jobs", "list"),
    ("doctor",),
]


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(sasl={"alice": PASSWORD}) as stub:
        stub.create_topic("t")
        yield stub


@pytest.fixture
def home(stub: BrokerStub, tmp_path: Path) -> Path:
    """A user's configuration, with a profile of the stub and one of no broker."""
    (tmp_path / "fencepost").mkdir()
    (tmp_path / "password").write_text(PASSWORD + "\n")
    file = tmp_path / "fencepost" / "config.toml"
    file.write_text(f"""
[default]
bootstrap.servers = "127.0.0.1:1"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = "of the default"

[stub]
bootstrap.servers = "{stub.bootstrap}"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "alice"
sasl.password = {{from_file = "../password"}}

[by-variable]
bootstrap.servers = "{stub.bootstrap}"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "alice"
sasl.password = {{from_env = "OF_ALICE"}}
""")
    file.chmod(0o600)
    return tmp_path


def at_home(home: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the user's configuration."""
    return run(*arguments, given=None, **{"XDG_CONFIG_HOME": str(home), **environment})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command).replace(__file__, "FILE"))
def test_a_client_id_and_a_timeout(home: Path, stub: BrokerStub, command: tuple[str, ...]) -> None:
    """They replace those of the command, and the brokers see the name."""
    file = home / "fencepost" / "config.toml"
    text = file.read_text()
    file.write_text(text.replace("[by-variable]", 'client.id = "billing"\nsocket.connection.setup.timeout.ms = 4000\n\n[by-variable]'))
    seen = len(stub.journal.requests(client_id="billing"))
    ran = at_home(home, "--profile", "stub", *command)
    assert ran.returncode == 0, ran
    assert len(stub.journal.requests(client_id="billing")) > seen


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command).replace(__file__, "FILE"))
def test_each_command_takes_a_profile(home: Path, command: tuple[str, ...]) -> None:
    """Its address, its login and its password, by the option or by the variable, and without a word about either."""
    for options, environment in (
        (("--profile", "stub"), {}),
        (("--profile", "by-variable"), {"OF_ALICE": PASSWORD}),
        ((), {"FENCEPOST_PROFILE": "stub"}),
        (("--config", home / "fencepost" / "config.toml", "--profile", "stub"), {"XDG_CONFIG_HOME": "/nowhere"}),
    ):
        ran = at_home(home, *options, *command, **environment)
        assert ran.returncode == 0, ran
        assert "password" not in ran.stderr


def test_a_file_of_kafka(stub: BrokerStub, tmp_path: Path) -> None:
    """`client.properties` is one profile. A command's own settings replace the file's."""
    file = tmp_path / "client.properties"
    lines = {
        "bootstrap.servers": stub.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
    }
    file.write_text("\n".join([*(f"{name}={value}" for name, value in lines.items()), "sasl.password=wrong"]))
    file.chmod(0o600)
    assert "refused" in complaint(run("--config", file, "topics", "list"))
    (tmp_path / "password").write_text(PASSWORD)
    for name in ("sasl.password", "sasl_password"):
        ran = run("--config", file, "txn", "list", "--config", f"{name}@{tmp_path / 'password'}")
        assert ran.returncode == 0, ran
    secret = f"sasl.password@{tmp_path / 'password'}"
    words = complaint(run("--config", file, "consume", "--topic", "t", "--config", secret, "--config", "x=1"))
    assert f"--config or {file}: No such configuration property" in words
    assert "one profile without a name" in complaint(run("--config", file, "--profile", "x", "topics", "list"))
    file.write_text(f"{file.read_text()}\nsasl.jaas.config=PlainLoginModule required username=alice;")
    for command in (("topics", "list"), ("consume", "--topic", "t"), ("txn", "list")):
        assert "JAAS is Java's: use 'sasl_username' and 'sasl_password'" in complaint(run("--config", file, *command))


def test_the_default_is_for_its_own_brokers(home: Path, stub: BrokerStub) -> None:
    """The profile `default` is used where nothing else names the brokers: its password does not go to others. Nor does an option of the
    command that names them lose to a profile that was asked for."""
    assert "127.0.0.1:1" in complaint(at_home(home, "topics", "list"))
    with BrokerStub() as other:
        assert at_home(home, "txn", "list", "--bootstrap", other.bootstrap).returncode == 0
        assert at_home(home, "txn", "list", FENCEPOST_BOOTSTRAP=other.bootstrap).returncode == 0
        assert at_home(home, "--profile", "stub", "txn", "list", FENCEPOST_BOOTSTRAP=other.bootstrap).returncode == 0
        assert other.bootstrap in complaint(at_home(home, "--profile", "stub", "topics", "list", "--bootstrap", other.bootstrap))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command).replace(__file__, "FILE"))
def test_the_address_as_a_setting(home: Path, command: tuple[str, ...]) -> None:
    """A setting of the command names the brokers instead of the environment, of a profile that was asked for, and of the profile `default`,
    of which nothing else is used either: these brokers take no login."""
    option = "--client-config" if command[0] == "topics" else "--config"
    with BrokerStub() as other:
        other.create_topic("t")
        address = f"bootstrap.servers={other.bootstrap}"
        ran = at_home(home, *command, option, address)
        assert ran.returncode == 0, ran
        file = home / "of-no-broker.properties"
        file.write_text("bootstrap.servers=127.0.0.1:1")
        ran = at_home(home, "--config", file, *command, option, address, FENCEPOST_BOOTSTRAP="127.0.0.1:1")
        assert ran.returncode == 0, ran


def test_two_addresses() -> None:
    """Each spelling of the setting is the address, and the same one as often as the command line has it. Two of them are an error."""
    for name in ("bootstrap.servers", "bootstrap_servers", "metadata.broker.list"):
        assert connection(None, "--config", [f"{name}=a:1", "linger.ms=5"]) == ("a:1", {"linger.ms": "5"})
        assert connection("a:1", "--config", [f"{name}=a:1"]) == ("a:1", {})
        with pytest.raises(CommandError, match=f"^--client-config {name}=a:1 and --bootstrap b:1 are different brokers: give one$"):
            connection("b:1", "--client-config", [f"{name}=a:1"])
        with pytest.raises(CommandError, match=f"^--config {name}= is empty: give HOST:PORT$"):
            connection(None, "--config", [f"{name}="])
    with pytest.raises(CommandError, match=r"^--config bootstrap\.servers=a:1 and --config bootstrap_servers=b:1 are different brokers"):
        connection(None, "--config", ["bootstrap.servers=a:1", "bootstrap_servers=b:1"])


def test_a_profile_with_the_name_of_a_program(home: Path) -> None:
    """The address may have any of its names in a file, too."""
    file = home / "fencepost" / "config.toml"
    file.write_text(file.read_text().replace("bootstrap.servers", "bootstrap_servers"))
    ran = at_home(home, "--profile", "stub", "txn", "list")
    assert ran.returncode == 0, ran


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bootstrap.servers = "b:1"', "bootstrap.servers is in no profile: write [default] above the settings"),
        ("[a]\nlinger.ms = 5", "there is no profile 'default'; known: a"),
        ("[default]\nlinger.ms = [5]", "linger.ms: give a text, a number, true, false, {from_file = PATH} or {from_env = NAME}"),
        ('[default]\nsasl.password = {from_env = "NOT_SET"}', "sasl.password: the environment has no NOT_SET"),
        ('[default]\nsasl.password = {from_file = "missing"}', "sasl.password from missing: No such file or directory"),
        ('[default]\nsasl.password = {from_file = "~no-such-user/password"}', "from ~no-such-user/password: "),
        ('[default]\nsasl.password = {from_file = "a\\u0000b"}', "sasl.password from a\\x00b: embedded null byte"),
        ("[default]\n" + ".".join(3000 * "a") + " = 1", "nested too deeply"),
        ("a = " + 100_000 * "[", "nested too deeply"),
        ("[default", "Expected ']' at the end of a table declaration"),
        ('[default]\nbootstrap.server = "b:1"', "no broker address: the profile has no bootstrap.servers, but bootstrap.server: give"),
        (b"\xff", "the file is not UTF-8"),
        (None, "No such file or directory"),
    ],
)
def test_mistakes(tmp_path: Path, text: str | bytes | None, said: str) -> None:
    """Each is one line with the file, and exit code 2."""
    file = tmp_path / "config.toml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    words = complaint(run("--config", file, "topics", "list"))
    assert said in words
    assert str(file) in words or "no broker address" in words


def test_a_profile_behind_the_command() -> None:
    """The error says where it belongs."""
    ran = run("topics", "list", "--profile", "prod")
    assert ran.returncode == 2
    assert "it comes before the command" in " ".join(ran.stderr.split())


@pytest.mark.parametrize("home", ["closed", 5000 * "a"])
def test_a_home_that_cannot_be_entered(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after sudo, or with a name that is too long: there are no profiles, and the command says what it needs."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / home))

    def is_file(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    if home == "closed":
        monkeypatch.setattr(Path, "is_file", is_file)
    assert profiles.profile(addressed=False) == {}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_of_kafka_that_others_can_read(stub: BrokerStub, tmp_path: Path) -> None:
    """The advice is not that of a TOML file."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={stub.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.password=x\n")
    file.chmod(0o644)
    assert run("--config", file, "txn", "list").stderr.splitlines()[0] == f"{file}: other users can read sasl.password: chmod 600"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_password_that_others_can_read(home: Path, stub: BrokerStub) -> None:
    """The command says so once, without the password."""
    file = home / "config.toml"
    lines = [f'bootstrap.servers = "{stub.bootstrap}"', 'security.protocol = "SASL_PLAINTEXT"', 'sasl.mechanism = "PLAIN"']
    file.write_text("\n".join(["[default]", *lines, 'sasl.username = "alice"', f"sasl.password = '{PASSWORD}'"]))
    file.chmod(0o644)
    ran = run("--config", file, "txn", "list")
    assert ran.returncode == 0, ran
    assert ran.stderr.splitlines()[0] == (
        f"{file}: other users can read sasl.password: chmod 600, or give {{from_file = ...}} or {{from_env = ...}}"
    )
    assert PASSWORD not in ran.stderr
    file.chmod(0o600)
    assert "other users" not in run("--config", file, "txn", "list").stderr
    kafkas = home / "client.properties"
    kafkas.write_text("\n".join([f"bootstrap.servers={stub.bootstrap}", "sasl.password=x"]))
    kafkas.chmod(0o644)
    assert run("--config", kafkas, "txn", "list").stderr.splitlines()[0] == f"{kafkas}: other users can read sasl.password: chmod 600"
