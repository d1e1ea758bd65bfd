"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from tests.conformance.world import World, case

GROUP, TRANSACTION, SHARE = 0, 1, 2


@case()
def groups_and_transactions(w: World) -> None:
    """Both kinds have a coordinator, in every version."""
    for version in range(7):
        w.coordinator(GROUP, "some-group", version=version, label=f"v{version} group")
        if version > 0:
            w.coordinator(TRANSACTION, "some-id", version=version, label=f"v{version} transaction")


@case()
def several_keys(w: World) -> None:
    """From version 4 on one request asks for several keys."""
    w.coordinators(GROUP, ["a", "b", "c"], version=4, label="three")
    w.coordinators(GROUP, ["a", "a"], version=6, label="one twice")
    w.coordinators(GROUP, [], version=6, label="none")


@case()
def odd_keys(w: World) -> None:
    """Empty keys and kinds of coordinator that do not exist."""
    for version in (1, 3, 4, 6):
        w.coordinator(GROUP, "", version=version, label=f"v{version} empty group")
        w.coordinator(TRANSACTION, "", version=version, label=f"v{version} empty transaction")
        w.coordinator(SHARE, "x", version=version, label=f"v{version} share")
        w.coordinator(3, "x", version=version, label=f"v{version} kind 3")
        w.coordinator(-1, "x", version=version, label=f"v{version} kind -1")
