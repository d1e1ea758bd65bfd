"""CreateAcls, DescribeAcls and DeleteAcls, and the effect of ACLs."""

from fencepost.broker_stub.security.operations import Operation, Pattern, Permission, Resource
from fencepost.producer import wire
from tests.conformance.asks_acls import creation
from tests.conformance.world import World, case


@case()
def without_an_authorizer(w: World) -> None:
    """Without an authorizer, no permission can be granted."""
    for version in range(1, 4):
        w.create_acls(creation(Operation.READ, Resource.TOPIC, "t"), version=version, label=f"v{version} create")
        w.describe_acls(version=version, label=f"v{version} describe")
        w.delete_acls({}, {}, version=version, label=f"v{version} delete")


@case(guarded=True)
def made_described_and_deleted(w: World) -> None:
    """Every version; the same ACL twice. The response lists matching ACLs by resource."""
    w.no_acls()
    for version in range(1, 4):
        name = w.fresh_name()
        read, write = creation(Operation.READ, Resource.TOPIC, name), creation(Operation.WRITE, Resource.TOPIC, name)
        w.permit(read, write)
        w.create_acls(read, read, version=version, label=f"v{version} again, twice")
        w.describe_acls({"resource_name_filter": name}, version=version, label=f"v{version} described")
        w.delete_acls({"resource_name_filter": name}, version=version, label=f"v{version} deleted")
    w.no_acls()
    w.describe_acls(label="none")
    w.delete_acls({}, label="deleted none")
    w.create_acls(label="made none")
    w.delete_acls(label="without a filter")


@case(guarded=True)
def acls_that_cannot_be(w: World) -> None:
    """Invalid names, patterns, operations, permissions and principals. The broker creates the other ACLs of the request."""
    w.no_acls()
    read, topic = Operation.READ, Resource.TOPIC
    wrong = {
        "no name": creation(read, topic, ""),
        "another cluster": creation(Operation.CREATE, Resource.CLUSTER, "mine"),
        "any resource": creation(read, Resource.ANY, "t"),
        "any pattern": creation(read, topic, "t", pattern=Pattern.ANY),
        "match": creation(read, topic, "t", pattern=Pattern.MATCH),
        "any operation": creation(Operation.ANY, topic, "t"),
        "any permission": creation(read, topic, "t", permission=Permission.ANY),
        "no principal": creation(read, topic, "t", principal=""),
        "no principal type": creation(read, topic, "t", principal="alice"),
        "another type": creation(read, topic, "t", principal="Robot:alice"),
        "what a topic has not": creation(Operation.IDEMPOTENT_WRITE, topic, "t"),
        "a user": creation(Operation.CREATE_TOKENS, Resource.USER, "User:bob"),
        "unknown resource": creation(read, 0, "t"),
        "resource 99": creation(read, 99, "t"),
        "pattern 99": creation(read, topic, "t", pattern=99),
        "operation 99": creation(99, topic, "t"),
        "permission 99": creation(read, topic, "t", permission=99),
    }
    for label, acl in wrong.items():
        w.create_acls(acl, label=label)
    w.create_acls(wrong["no name"], creation(read, topic, "good"), label="one wrong, one right")
    w.create_acls(wrong["match"], wrong["no name"], creation(read, topic, "good"), label="one that nobody understands")
    w.no_acls()


@case(guarded=True)
def filters(w: World) -> None:
    """By type, name, pattern, principal, host, operation and permission. MATCH finds every pattern that covers a name."""
    w.no_acls()
    w.permit(
        creation(Operation.READ, Resource.TOPIC, "orders"),
        creation(Operation.READ, Resource.TOPIC, "ord", pattern=Pattern.PREFIXED),
        creation(Operation.READ, Resource.TOPIC, "*", principal="User:bob"),
        creation(Operation.ALL, Resource.GROUP, "orders", host="10.0.0.1"),
        creation(Operation.CREATE, Resource.CLUSTER, permission=Permission.DENY),
    )
    every: dict[str, dict[str, int | str | None]] = {
        "topics": {"resource_type_filter": Resource.TOPIC},
        "the name": {"resource_name_filter": "orders"},
        "the name, literal": {"resource_name_filter": "orders", "pattern_type_filter": Pattern.LITERAL},
        "the name, prefixed": {"resource_name_filter": "orders", "pattern_type_filter": Pattern.PREFIXED},
        "the name, match": {"resource_name_filter": "orders", "pattern_type_filter": Pattern.MATCH},
        "ord, match": {"resource_name_filter": "ord", "pattern_type_filter": Pattern.MATCH},
        "or, match": {"resource_name_filter": "or", "pattern_type_filter": Pattern.MATCH},
        "wildcard, match": {"resource_name_filter": "*", "pattern_type_filter": Pattern.MATCH},
        "wildcard, literal": {"resource_name_filter": "*", "pattern_type_filter": Pattern.LITERAL},
        "prefixed": {"pattern_type_filter": Pattern.PREFIXED},
        "match": {"pattern_type_filter": Pattern.MATCH},
        "bob": {"principal_filter": "User:bob"},
        "everybody": {"principal_filter": "User:*"},
        "the host": {"host_filter": "10.0.0.1"},
        "read": {"operation": Operation.READ},
        "all": {"operation": Operation.ALL},
        "denials": {"permission_type": Permission.DENY},
        "unknown resource": {"resource_type_filter": 0},
        "unknown pattern": {"pattern_type_filter": 0},
        "unknown operation": {"operation": 99},
        "unknown permission": {"permission_type": 99},
    }
    for label, wanted in every.items():
        w.describe_acls(wanted, label=label)
    w.delete_acls({"pattern_type_filter": 0}, label="delete of an unknown pattern")
    w.delete_acls({"pattern_type_filter": 99}, {"operation": 99}, {"resource_name_filter": "nothing"}, label="delete of patterns 99")
    w.delete_acls({"principal_filter": "User:bob"}, {"operation": Operation.READ}, label="delete what two filters fit")
    w.no_acls()


@case(guarded=True)
def acls_need_permission(w: World) -> None:
    """Describing ACLs needs DESCRIBE on the cluster. Changing them needs ALTER, which implies DESCRIBE."""
    w.no_acls()
    acl = creation(Operation.READ, Resource.TOPIC, "t")
    for label, held in (("nothing", None), ("describe", Operation.DESCRIBE), ("alter", Operation.ALTER)):
        if held is not None:
            w.permit(creation(held, Resource.CLUSTER))
        with w.as_user("alice"):
            w.create_acls(acl, acl, label=f"{label}: create")
            w.describe_acls({"resource_type_filter": Resource.GROUP}, label=f"{label}: describe")
            w.delete_acls({"resource_type_filter": Resource.GROUP}, {"resource_type_filter": Resource.GROUP}, label=f"{label}: delete")
    w.no_acls()


@case(guarded=True)
def what_implies_what(w: World) -> None:
    """Each operation granted alone on a topic, with the topic's authorized operations. Then each one denied to a user that has all."""
    w.no_acls()
    topic = w.topic()
    request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=topic.name)], include_topic_authorized_operations=True)
    for held in list(Operation)[Operation.ALL :]:
        acl = creation(held, Resource.TOPIC, topic.name)
        w.permit(acl)
        w.say(request, 9, user="alice", label=f"allowed {held.name}")
        w.forbid_again(acl)
    w.permit(creation(Operation.ALL, Resource.TOPIC, topic.name))
    for held in (Operation.ALL, Operation.DESCRIBE, Operation.READ, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS):
        acl = creation(held, Resource.TOPIC, topic.name, permission=Permission.DENY)
        w.permit(acl)
        w.say(request, 9, user="alice", label=f"denied {held.name}")
        w.forbid_again(acl)
    w.no_acls()


@case(guarded=True)
def patterns_principals_and_hosts(w: World) -> None:
    """Which resources, principals and hosts an ACL covers. A denial overrides any permission."""
    w.no_acls()
    name, read, topic = w.topic().name, Operation.DESCRIBE, Resource.TOPIC
    allowed = creation(read, topic, "*", principal="User:*")
    meant = {
        "nothing": [],
        "the name": [creation(read, topic, name)],
        "a longer name": [creation(read, topic, f"{name}x")],
        "a shorter name": [creation(read, topic, name[:-1])],
        "a prefix": [creation(read, topic, name[:-1], pattern=Pattern.PREFIXED)],
        "the whole name as prefix": [creation(read, topic, name, pattern=Pattern.PREFIXED)],
        "a longer prefix": [creation(read, topic, f"{name}x", pattern=Pattern.PREFIXED)],
        "the wildcard": [creation(read, topic, "*")],
        "the wildcard as prefix": [creation(read, topic, "*", pattern=Pattern.PREFIXED)],
        "a group of that name": [creation(read, Resource.GROUP, name)],
        "everybody": [creation(read, topic, name, principal="User:*")],
        "another": [creation(read, topic, name, principal="User:bob")],
        "another case": [creation(read, topic, name, principal="User:Alice")],
        "this host": [creation(read, topic, name, host="127.0.0.1")],
        "another host": [creation(read, topic, name, host="10.0.0.1")],
        "all but this host": [allowed, creation(read, topic, name, host="127.0.0.1", permission=Permission.DENY)],
        "all but her": [allowed, creation(read, topic, name, permission=Permission.DENY)],
        "all but another": [allowed, creation(read, topic, name, principal="User:bob", permission=Permission.DENY)],
        "all but a prefix": [allowed, creation(read, topic, "case-", pattern=Pattern.PREFIXED, permission=Permission.DENY)],
        "none but her": [creation(read, topic, name), creation(read, topic, "*", principal="User:*", permission=Permission.DENY)],
        "a denied write": [allowed, creation(Operation.WRITE, topic, name, permission=Permission.DENY)],
    }
    for label, acls in meant.items():
        if acls:
            w.permit(*acls)
        w.metadata_as("alice", name, label=label)
        if acls:
            w.forbid_again(*acls)
    w.no_acls()


@case("KIP-679", guarded=True)
def producer_ids(w: World) -> None:
    """IDEMPOTENT_WRITE on the cluster, or WRITE on any topic, unless a denial removes it."""
    w.no_acls()
    write, topic, deny = Operation.WRITE, Resource.TOPIC, Permission.DENY
    held = {
        "nothing": [],
        "idempotent write": [creation(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)],
        "all on the cluster": [creation(Operation.ALL, Resource.CLUSTER)],
        "write on a topic that is not there": [creation(write, topic, "nowhere")],
        "write on a prefix": [creation(write, topic, "now", pattern=Pattern.PREFIXED)],
        "write on the wildcard": [creation(write, topic, "*")],
        "all on a topic": [creation(Operation.ALL, topic, "nowhere")],
        "read on a topic": [creation(Operation.READ, topic, "nowhere")],
        "write from another host": [creation(write, topic, "nowhere", host="10.0.0.1")],
        "write of another": [creation(write, topic, "nowhere", principal="User:bob")],
        "write of everybody": [creation(write, topic, "nowhere", principal="User:*")],
        "write that is denied": [creation(write, topic, "nowhere"), creation(write, topic, "nowhere", permission=deny)],
        "write with a denied prefix": [
            creation(write, topic, "nowhere"),
            creation(write, topic, "no", pattern=Pattern.PREFIXED, permission=deny),
        ],
        "write with a longer denied prefix": [
            creation(write, topic, "now", pattern=Pattern.PREFIXED),
            creation(write, topic, "nowhere", pattern=Pattern.PREFIXED, permission=deny),
        ],
        "a prefix, its name denied": [
            creation(write, topic, "now", pattern=Pattern.PREFIXED),
            creation(write, topic, "now", permission=deny),
        ],
        "the wildcard, a prefix denied": [
            creation(write, topic, "*"),
            creation(write, topic, "now", pattern=Pattern.PREFIXED, permission=deny),
        ],
        "a name, the wildcard denied": [creation(write, topic, "nowhere"), creation(write, topic, "*", permission=deny)],
        "a name, all denied on the wildcard": [
            creation(write, topic, "nowhere"),
            creation(Operation.ALL, topic, "*", permission=deny),
        ],
    }
    for label, acls in held.items():
        if acls:
            w.permit(*acls)
        with w.as_user("alice"):
            w.init_producer_id(label=label)
        if acls:
            w.forbid_again(*acls)
    w.no_acls()


@case(guarded=True)
def transactional_ids(w: World) -> None:
    """WRITE on the transactional id, and nothing else, before the broker checks anything else."""
    w.no_acls()
    name = w.fresh_name()
    init = wire.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=0)
    empty = wire.InitProducerIdRequest(transactional_id="", transaction_timeout_ms=0)
    held = {
        "nothing": [],
        "describe": [creation(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)],
        "idempotent write": [creation(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER), creation(Operation.WRITE, Resource.TOPIC, "*")],
    }
    for label, acls in held.items():
        if acls:
            w.permit(*acls)
        w.say(init, 5, user="alice", label=f"{label}: init")
        w.say(empty, 5, user="alice", label=f"{label}: init of the empty one")
        if acls:
            w.forbid_again(*acls)
    w.permit(creation(Operation.WRITE, Resource.TRANSACTIONAL_ID, name))
    with w.as_user("alice"):
        w.coordinator(1, name, label="found")
        w.init_producer_id(transactional_id=name, timeout_ms=0, label="write: init, timeout 0")
        w.init_producer_id(transactional_id=name, timeout_ms=60_000, label="write: init")
    w.no_acls()
