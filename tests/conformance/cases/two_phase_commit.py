"""KIP-939: InitProducerId 6, which a broker accepts only with unstable.api.versions.enable."""

from tests.conformance.world import World, case


@case("KIP-939")
def who_may_have_it(w: World) -> None:
    """Two-phase commit needs a transactional id and transaction.two.phase.commit.enable. Keeping a prepared transaction is not supported
    yet.

    For an idempotent producer the broker ignores these flags.
    """
    for two_phase in (False, True):
        for keep in (False, True):
            tag = f"{two_phase} {keep}"
            w.init_prepared(None, two_phase=two_phase, keep=keep, label=f"{tag} no id")
            w.init_prepared(w.txn(), two_phase=two_phase, keep=keep, label=f"{tag} an id")
            for timeout_ms in (0, -5, 10**9):
                w.init_prepared(w.txn(), two_phase=two_phase, keep=keep, timeout_ms=timeout_ms, label=f"{tag} timeout {timeout_ms}")


@case("KIP-939")
def what_it_is(w: World) -> None:
    """A transaction without a timeout. Its producer ends it, or the next one with the id."""
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
