"""Regular expressions to which members subscribe, and when they are resolved: which topics match.

Kafka uses RE2/J; this is Python's `re`, without what RE2 does not know. A topic must match as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.consumer.member_update import MemberUpdate
from fencepost.broker_stub.groups.consumer.subscription_metadata import metadata_hash
from fencepost.broker_stub.groups.state.consumer_group_records import (
    ConsumerRecord,
    GroupMetadata,
    RegularExpression,
    group_record,
    no_regex,
    regex_record,
)
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.producer.wire import ErrorCode

MayDescribe = Callable[[str], bool]

REGEX_MIN_INTERVAL_MS: Final = 10_000
"""A group's regular expressions are not resolved again before."""
REGEX_REFRESH_INTERVAL_MS: Final = 600_000
"""They are resolved again after."""

_UNKNOWN_TO_RE2: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\((\?(?:[=!>]|<[=!]))|(\\[1-9]))")
_SAID_BY_RE2: Final = {
    "unterminated character set": "missing closing ]",
    "missing ), unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "regexp/syntax: internal error",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "bad escape (end of pattern)": "trailing backslash at end of expression",
}
"""RE2's words for Python's."""


def regex_problem(regex: str) -> str | None:
    """What is wrong with it, in RE2's words. None: it can be used."""
    unknown = _UNKNOWN_TO_RE2.search(regex)
    if unknown is not None:
        return "invalid or unsupported Perl syntax" if unknown[1] else "invalid escape sequence"
    try:
        re.compile(regex)
    except re.error as error:
        return _SAID_BY_RE2.get(error.msg, error.msg)
    except (OverflowError, RecursionError):
        return "invalid repeat count"
    return None


def matching(regex: str, topics: Iterable[str]) -> list[str]:
    """The topics that match, sorted."""
    pattern = re.compile(regex)
    return sorted(topic for topic in topics if pattern.fullmatch(topic))


class RegexResolution:
    """Resolves the regular expressions of one shard's groups. `later`, `now_ms`: the clock. `topics`: those that the broker knows."""

    def __init__(
        self,
        store: Store,
        later: Callable[[int, Callable[[], None]], Timer],
        now_ms: Callable[[], int],
        topics: Callable[[], Topics],
    ) -> None:
        self._store = store
        self._groups = store.consumers.groups
        self._later = later
        self._now_ms = now_ms
        self._topics = topics
        self._resolving: set[str] = set()  # the groups whose regular expressions are about to be resolved

    def changed(self, update: MemberUpdate, may_describe: MayDescribe) -> bool:
        """Takes up the member's regular expression. True if what it matches is known, so that the group's epoch can be one more.

        A new one is resolved after this request, and the member learns of its topics with a later one.
        """
        group, before, after, records = update
        old, new, members_of = before.regex, after.regex, group.regexes()
        counts, is_new = False, False
        if new != old:
            if old and members_of[old] == 1:
                records.append(no_regex(group.id, old))
            is_new = bool(new) and not members_of[new]
            if is_new:
                _check(new)
            else:
                counts = new in group.resolved if new else True
        if (is_new or members_of) and self._is_due(update, is_new=is_new):
            self._resolving.add(group.id)
            regexes = sorted(set(group.regexes(before, more=after)))
            self._later(0, partial(self._resolve, group.id, regexes, may_describe))
        return counts

    def _is_due(self, update: MemberUpdate, *, is_new: bool) -> bool:
        """Whether the group's expressions must be resolved: one is new or gone, a topic is new, or the last time is long ago."""
        group, before, after, _ = update
        now_ms = self._now_ms()
        refreshed_ms = next((each.timestamp for each in group.resolved.values()), None)
        if group.id in self._resolving or (refreshed_ms is not None and now_ms <= refreshed_ms + REGEX_MIN_INTERVAL_MS):
            return False
        regexes = set(group.regexes(before, more=after))
        return bool(regexes) and (
            is_new
            or len(regexes) != len(group.resolved)
            or group.resolved_from is None
            or any(topic.name not in group.resolved_from for topic in self._topics())
            or (refreshed_ms is not None and now_ms > refreshed_ms + REGEX_REFRESH_INTERVAL_MS)
        )

    def _resolve(self, group_id: str, regexes: Sequence[str], may_describe: MayDescribe) -> None:
        """Finds the topics that match. If they are others than before, the group's epoch is one more."""
        self._resolving.discard(group_id)
        group = self._groups.get(group_id)
        if group is None:
            return
        names = [topic.name for topic in self._topics()]
        group.resolved_from = frozenset(names)
        subscribed = {regex: set(resolved.topics) for regex, resolved in group.resolved.items()}
        records: list[ConsumerRecord] = []
        bump = False
        for regex in regexes:
            if not group.regexes()[regex]:
                continue
            topics = [name for name in matching(regex, names) if may_describe(name)]
            bump = bump or set(topics) != subscribed.get(regex, set())
            subscribed[regex] = set(topics)
            records.append(regex_record(group_id, regex, RegularExpression(topics=topics, timestamp=self._now_ms())))
        every = {name for member in group.members.values() for name in member.topics}
        found = metadata_hash(every.union(*subscribed.values()), self._topics())
        if bump or found != group.metadata_hash:
            records.append(group_record(group_id, GroupMetadata(epoch=group.epoch + 1, metadata_hash=found)))
        self._store.write_consumer_group(group_id, records)


def _check(regex: str) -> None:
    problem = regex_problem(regex)
    if problem is not None:
        raise GroupRefused(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
        )
