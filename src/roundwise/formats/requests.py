"""Names of requests to batch APIs that say the arm and the item: at most 64 letters of `[A-Za-z0-9_-]`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from roundwise.errors import InputError
from roundwise.formats.messages import quoted

LONGEST = 64
PREFIX = "rw-"
_FORM = re.compile(r"rw-([0-9a-f]{8})-([A-Za-z0-9-]|_[0-9a-f]{2})+")


def request_id(arm: str, item: str) -> str:
    """The name of the request for an arm's answer on an item.

    >>> request_id("small", "q_17")
    'rw-8eaa6fea-q_5f17'
    """
    escaped = re.sub(rb"[^A-Za-z0-9-]", lambda found: b"_%02x" % found[0][0], item.encode()).decode()
    found = f"{PREFIX}{_arm_key(arm)}-{escaped}"
    if len(found) > LONGEST:
        raise InputError(
            f"The item {quoted(item)} makes a custom_id of {len(found)} letters, but at most {LONGEST} are allowed. "
            "Give the items shorter ids."
        )
    return found


def arm_keys(arms: Sequence[str]) -> dict[str, str]:
    """The arm of each key; those that share one have none."""
    keys = [_arm_key(arm) for arm in arms]
    return {key: arm for key, arm in zip(keys, arms, strict=True) if keys.count(key) == 1}


def parse_request_id(text: str, keys: Mapping[str, str]) -> dict[str, str] | None:
    """The arm and the item in the name of a request; None if it is of none of these arms."""
    if len(text) > LONGEST or _FORM.fullmatch(text) is None:
        return None
    key, escaped = text.removeprefix(PREFIX).split("-", 1)
    arm = keys.get(key)
    raw = re.sub(rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), escaped.encode())
    try:
        return None if arm is None else {"arm": arm, "item": raw.decode()}
    except UnicodeDecodeError:
        return None


def _arm_key(arm: str) -> str:
    """Of the name, so that it does not depend on the order of the arms."""
    return hashlib.blake2b(arm.encode(), digest_size=4).hexdigest()
