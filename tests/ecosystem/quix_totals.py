"""An application of quixstreams with processing_guarantee="exactly-once", for its own interpreter: it deals numbers to keys through a
repartition topic, keeps a total of each key in a store with a changelog, and writes each number with the total that it led to.

Arguments: the address of the brokers, the directory of the state, the topics to read and to write, the number of keys, and the session
timeout in milliseconds. SIGTERM ends it.
"""

from __future__ import annotations

import sys

from quixstreams import Application, State

bootstrap, directory, source, target, keys, session_ms = sys.argv[1:]
app = Application(
    broker_address=bootstrap,
    consumer_group="app",
    processing_guarantee="exactly-once",
    state_dir=directory,
    commit_interval=0.1,
    auto_offset_reset="earliest",
    consumer_extra_config={"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": 500},
    producer_extra_config={"transaction.timeout.ms": 5_000},
)


def total(number: str, state: State) -> str:
    count, so_far = state.get("total", [0, 0])
    after = [count + 1, so_far + int(number)]
    state.set("total", after)
    return f"{number},{after[0]},{after[1]}"


numbers = app.dataframe(app.topic(source, value_deserializer="str"))
text = {"key_serializer": "str", "value_serializer": "str"}
by_key = numbers.group_by(
    lambda number: str(int(number) % int(keys)), name="by-key", **text, key_deserializer="str", value_deserializer="str"
)
by_key.apply(total, stateful=True).to_topic(app.topic(target, **text))
app.run()
