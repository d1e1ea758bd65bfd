"""What brokers before Kafka 3.6 cannot promise, shown on a Kafka 3.9 with the same behaviour.

No leader asks the coordinator whether a record is part of a transaction (`transaction.partition.verification.enable=false`, KIP-890).
"""

from __future__ import annotations

import pytest

from fencepost.broker_stub import FaultProxy
from fencepost.producer.wire.codes import Api
from fencepost.txn.errors import ParticipationEnded
from fencepost.txn.shared.participant import Participant
from tests.conformance.fixtures import require_older_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.kafka_home import OLDER_VERSION
from tests.conformance.txn_site import WAIT_S, new_site
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]


@pytest.mark.parametrize("verified", [True, False])
def test_a_zombie_between_the_end_and_the_next_epochs_first_write(verified: bool) -> None:
    """The zombie resumes after its transaction was aborted, before the next epoch writes to the partition. From Kafka 3.6 on the broker
    refuses it.

    Before, the broker writes its record, which blocks consumers with `read_committed`. If the next transaction writes to that partition,
    the record is committed with it.
    """
    require_older_kafka()
    with KafkaCluster(version=OLDER_VERSION, config={"transaction.partition.verification.enable": str(verified).lower()}) as cluster:
        site = new_site(cluster)
        with FaultProxy(site.bootstrap) as proxy, site.producer() as owner, Participant(bootstrap_servers=proxy.bootstrap) as zombie:
            tx = owner.begin(WAIT_S)
            zombie.begin(tx.share([(site.topic, 0)], WAIT_S), WAIT_S)
            held = proxy.faults.on(Api.PRODUCE).before().hold()
            late = zombie.send(site.topic, b"zombie", partition=0)
            held.wait(1, WAIT_S)
            tx.abort(WAIT_S)
            owner.init(WAIT_S)
            held.release()
            if verified:
                with pytest.raises(ParticipationEnded):
                    zombie.finish(WAIT_S)
                zombie.abandon(WAIT_S)
            else:
                assert late.result(WAIT_S).offset >= 0
                assert site.committed() == []
            with owner.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"next", partition=0)
        found = until(site.committed, "what is committed", good=lambda values: b"next" in values, timeout_s=WAIT_S)
        assert found == ([b"next"] if verified else [b"next", b"zombie"])
