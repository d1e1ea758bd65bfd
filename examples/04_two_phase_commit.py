"""04: two-phase commit over two processes. A service writes orders to its own database and to Kafka, both or neither: what decides is the
database. The first process is killed in between; the second finds the token beside the orders and finishes.

docs/transactions.md says what a token can be asked, and what happens at its deadline.
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
    """The first process. It opens its id with the tokens that it still has, so that it never aborts what is to be committed."""
    tokens = [token for (token,) in database.execute("SELECT token FROM prepared")]
    with (
        TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="orders-1", prepared=tokens) as producer,
        producer.transaction(timeout=30) as tx,
    ):
        for number in range(ORDERS):
            tx.send("orders", b"order %d" % number)
        token = tx.prepare()  # every order is in Kafka now, and no reader of committed records sees one
        with database:  # both tables in one commit: this is the decision
            database.executemany("INSERT INTO orders VALUES (?)", [(number,) for number in range(ORDERS)])
            database.execute("INSERT INTO prepared VALUES (?)", (str(token),))
        os.kill(os.getpid(), signal.SIGKILL)  # before it could tell Kafka


def finish(bootstrap: str, database: sqlite3.Connection) -> None:
    """The second process, or the first one after its restart: what the database has decided is committed, as often as it takes."""
    for (token,) in database.execute("SELECT token FROM prepared").fetchall():
        status = resume(token, bootstrap).commit(timeout=30)
        print(f"found a token: {status.outcome.value}, {status.why}")
        with database:
            database.execute("DELETE FROM prepared WHERE token = ?", (token,))


def visible(bootstrap: str) -> int:
    """How many orders a reader of committed records finds."""
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
