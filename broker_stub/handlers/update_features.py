"""UpdateFeatures (57), versions 0 to 2.

Changes the finalized levels of features, all or none; ApiVersions names the new ones at once. transaction.version and
eligible.leader.replicas.version are obeyed from then on. An unknown feature, a level that brokers do not support, and one that would fall
without an upgrade type for it are INVALID_UPDATE_VERSION. With `data_dir` the levels outlast the stub.

Leaves out: lower levels of metadata.version, also those that Kafka would take. The levels of the other features change nothing else.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.release import METADATA_VERSION
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.cluster_admin import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KRAFT_VERSION = "kraft.version"
METADATA_STAYS = {
    SAFE_DOWNGRADE: "Refusing to perform the requested downgrade because it might delete metadata information.",
    UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
}
FAILED = "The update failed for all features since the following feature had an error: "


@handles(UpdateFeaturesRequest, range(3), cluster=Operation.ALTER, forwarded=True)
def update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    if call.error:
        return UpdateFeaturesResponse(error_code=call.error, error_message=call.needs_words(call.error, Operation.ALTER))
    for update in request.feature_updates:
        wrong = _problem(call, update)
        if wrong is not None:
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=FAILED + wrong)
    if not request.validate_only:
        call.cluster.update_features({update.feature: update.max_version_level for update in request.feature_updates})
    results = [UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name) for update in request.feature_updates]
    return UpdateFeaturesResponse(error_message=None, results=results if call.version <= 1 else [])


def _problem(call: Call, update: FeatureUpdateKey) -> str | None:
    """Why the feature cannot have that level, in Kafka's words; None if it can."""
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type if call.version >= 1 else (SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE)
    low, high, now = call.cluster.features.get(name, (0, 0, 0))
    if kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE) and name == METADATA_VERSION and low <= level < now:
        return f"Unsupported metadata.version downgrade from {now} to {level}. {METADATA_STAYS[kind]}"
    wrong = _wrong_level(level, kind, low, high, now, f"Local controller {min(call.cluster.brokers)}")
    if wrong is None and name == KRAFT_VERSION and level < now:
        wrong = "Can't downgrade the version of this feature."
    return None if wrong is None else f"Invalid update version {level} for feature {name}. {wrong}"


def _wrong_level(level: int, kind: int, low: int, high: int, now: int, controller: str) -> str | None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if not low <= level <= high:
        return f"{controller} does not support this feature." if high == 0 else f"{controller} only supports versions {low}-{high}"
    if level < now and kind == UPGRADE:
        return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    return "Can't downgrade to a newer version." if level > now and kind != UPGRADE else None
