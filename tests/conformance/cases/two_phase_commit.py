"""KIP-939: InitProducerId 6, which a broker takes where unstable.api.versions.enable is true and not before."""

from tests.conformance.world import World, case


@case("KIP-939")
def who_may_have_it(w: World) -> None:
    """Two-phase commit is for transactional ids, where transaction.two.phase.commit.enable is true; keeping a prepared transaction is not
    there yet. What an idempotent producer asks for is passed over."""
    for two_phase in (False, True):
        for keep in (False, True):
            tag = f"{two_phase} {keep}"
            w.init_prepared(None, two_phase=two_phase, keep=keep, label=f"{tag} no id")
            w.init_prepared(w.txn(), two_phase=two_phase, keep=keep, label=f"{tag} an id")
            for timeout_ms in (0, -5, 10**9):
                w.init_prepared(w.txn(), two_phase=two_phase, keep=keep, timeout_ms=timeout_ms, label=f"{tag} timeout {timeout_ms}")


@case("KIP-939")
def what_it_is(w: World) -> None:
    """A transaction that no time ends; it is ended by its producer, or by the next one with the id."""
    topic, txn = w.topic(), w.txn()
    w.init_prepared(txn, two_phase=True, timeout_ms=1, label="init")
    if txn.pid == -1:
        return
    w.write(txn, topic, 0, label="a record")
    w.describe_txn(txn, label="ongoing")
    w.init_prepared(txn, two_phase=True, keep=True, label="keep it")
    w.end(txn, label="commit")
    w.describe_txn(txn, label="complete")
    w.init(txn, label="without two phases")
    w.describe_txn(txn, label="has a time again")
    w.log_of(txn, label="log")
