"""InitProducerId without a transactional id, and its response to other requests."""

from tests.conformance.world import World, case


@case()
def every_version(w: World) -> None:
    """A new producer id with epoch 0, in every version; never the same id twice."""
    for version in range(6):
        w.init_producer_id(version=version, label=f"v{version}")
        w.init_producer_id(version=version, label=f"v{version} again")


@case("KIP-360")
def a_producer_that_names_itself(w: World) -> None:
    """A producer without a transactional id that sends its current id and epoch."""
    for version in (3, 5):
        known, epoch = w.producer_id()
        w.init_producer_id(pid=known, epoch=epoch, version=version, label=f"v{version} id and epoch")
        w.init_producer_id(pid=known, epoch=-1, version=version, label=f"v{version} id alone")
        w.init_producer_id(pid=-1, epoch=0, version=version, label=f"v{version} epoch alone")
        w.init_producer_id(pid=known, epoch=32767, version=version, label=f"v{version} last epoch")
        w.init_producer_id(pid=2**50, epoch=3, version=version, label=f"v{version} somebody else's")


@case()
def timeouts_do_not_matter_without_a_transaction(w: World) -> None:
    """The broker does not check the transaction timeout."""
    for timeout_ms in (0, -1, 60_000, 2**31 - 1):
        w.init_producer_id(timeout_ms=timeout_ms, label=f"timeout {timeout_ms}")


@case()
def an_empty_transactional_id(w: World) -> None:
    """An empty id differs from null."""
    for version in (0, 2, 5):
        w.init_producer_id(transactional_id="", version=version, label=f"v{version}")


@case()
def transactional_ids(w: World) -> None:
    """Each call for a transactional id fences the previous one by its epoch. The timeout has limits."""
    name = w.fresh_name()
    w.coordinator(1, name)
    w.init_producer_id(transactional_id=name, timeout_ms=0, label="timeout 0")
    w.init_producer_id(transactional_id=name, timeout_ms=-1, label="timeout -1")
    w.init_producer_id(transactional_id=name, timeout_ms=900_001, label="timeout above the maximum")
    w.init_producer_id(transactional_id=name, timeout_ms=60_000, label="first")
    w.init_producer_id(transactional_id=name, timeout_ms=60_000, label="second")
    w.init_producer_id(transactional_id=name, timeout_ms=60_000, version=0, label="third, v0")


@case()
def producers_of_topics_that_cannot_be(w: World) -> None:
    """DescribeProducers checks names, Produce does not."""
    for name in ("", "..", "a b", "x" * 250):
        w.describe(w.missing_topic(name=name), label=f"{name:.9}")
    w.describe(w.missing_topic(), label="unknown")
