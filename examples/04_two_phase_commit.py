"""04: two-phase commit with two processes. A service writes orders to its database and to Kafka, both or neither. The database decides. The
first process is killed in between. The second process finds the token beside the orders and commits.

docs/transactions.md explains tokens and their deadlines.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from fencepost import BrokerStub, TransactionalProducer, resume

ORDERS = 100


def take_orders(bootstrap: str, database: sqlite3.Connection) -> None:
    """The first process. It passes its stored tokens to the producer, so that registration aborts none of these transactions."""
    tokens = [token for (token,) in database.execute("SELECT token FROM prepared")]
    with (
        TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="orders-1", prepared=tokens) as producer,
        producer.transaction(timeout=30) as tx,
    ):
        for number in range(ORDERS):
            tx.send("orders", b"order %d" % number)
        token = tx.prepare()  # Kafka has every order now, and read_committed readers see none
        with database:  # both tables in one commit: this is the decision
            database.executemany("INSERT INTO orders VALUES (?)", [(number,) for number in range(ORDERS)])
            database.execute("INSERT INTO prepared VALUES (?)", (str(token),))
        os.kill(os.getpid(), signal.SIGKILL)  # before the commit in Kafka


def finish(bootstrap: str, database: sqlite3.Connection) -> None:
    """The second process, or the first one after its restart: commit every transaction that the database has a token of."""
    for (token,) in database.execute("SELECT token FROM prepared").fetchall():
        status = resume(token, bootstrap).commit(timeout=30)
        print(f"found a token: {status.outcome.value}, {status.why}")
        with database:
            database.execute("DELETE FROM prepared WHERE token = ?", (token,))


def visible(bootstrap: str) -> int:
    """The number of orders that a reader with read_committed finds."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    reader.assign([TopicPartition("orders", 0, 0)])
    count = 0
    while (message := reader.poll(10)) is not None and message.error() is None:
        count += 1
    reader.close()
    return count


def main() -> None:
    with BrokerStub() as broker, tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "service.db"
        database = sqlite3.connect(place)
        database.executescript("CREATE TABLE orders (number INTEGER); CREATE TABLE prepared (token TEXT)")
        first = subprocess.run([sys.executable, __file__, "take orders", broker.bootstrap, str(place)], check=False)
        assert first.returncode == -signal.SIGKILL
        print(f"the first process was killed; readers see {visible(broker.bootstrap)} orders")
        subprocess.run([sys.executable, __file__, "finish", broker.bootstrap, str(place)], check=True)
        (stored,) = database.execute("SELECT COUNT(*) FROM orders").fetchone()
        database.close()
        seen = visible(broker.bootstrap)
        print(f"the database has {stored} orders, and readers see {seen}")
        assert seen == stored == ORDERS


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        connection = sqlite3.connect(sys.argv[3])
        {"take orders": take_orders, "finish": finish}[sys.argv[1]](sys.argv[2], connection)
        connection.close()
