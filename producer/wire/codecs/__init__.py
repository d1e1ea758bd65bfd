"""Each of Kafka's codecs in a module of its own: what it writes, what it reads, and where it stops looking, as Kafka's Java readers do.

`producer.wire.records.compression` is the door.
"""
