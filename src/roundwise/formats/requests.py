"""The next round in the format of an evaluation harness or a batch API, whose answers `tell` can read.

The name of a request to a batch API says the arm and the item in at most 64 letters of `[A-Za-z0-9_-]`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

from roundwise.errors import DataError, InputError
from roundwise.messages import quoted

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
    times = Counter(keys)
    return {key: arm for key, arm in zip(keys, arms, strict=True) if times[key] == 1}


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


class Request(NamedTuple):
    """An arm that is to be tried on an item."""

    place: int  # of the item in the round
    arm: str
    item: str
    cells: Mapping[str, str]  # the row of the item
    sample: str = ""  # the item of which this is one of several repeats
    repeats: int = 1


FORMATS = ("ids", "lm-eval", "inspect", "openai-batch", "anthropic-batch")
_LONGEST_ARGUMENT = 100_000  # bytes; Linux takes 128 KiB


def render_requests(
    form: str,
    requests: Sequence[Request],
    template: Any = None,
    models: Mapping[str, str] | None = None,
    prompts: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Render requests in the form of a tool.

    Args:
        form: One of `FORMATS`.
        requests: What to run.
        template: The body of a request to a batch API, with `{column}` for the cells of an item.
        models: The model of each arm, where it differs from the arm's name.
        prompts: Cells of each arm, which fill the template, too.

    Returns:
        The text of each file by its name.
    """
    if form not in FORMATS:
        raise InputError(f"There is no form {quoted(form)}. Give one of {', '.join(FORMATS)}.")
    if form == "ids":
        text = io.StringIO()
        rows = ((each.place, each.item, each.arm) for each in requests)
        csv.writer(text, lineterminator="\n").writerows([("place", "item", "arm"), *rows])
        return {"ids.csv": text.getvalue()}
    by_arm: dict[str, list[Request]] = {}
    for each in requests:
        by_arm.setdefault(each.arm, []).append(each)
    names = _file_names(list(by_arm))
    if form == "lm-eval":
        return {f"{names[arm]}.json": _lm_eval_samples(some) for arm, some in by_arm.items()}
    if form == "inspect":
        found: dict[str, str] = {"inspect.sh": ""}
        for arm, some in by_arm.items():
            samples = list(dict.fromkeys(each.sample or each.item for each in some))
            model = (models or {}).get(arm, arm)
            ids, epochs = ",".join(samples), some[0].repeats  # all epochs of a sample: Inspect runs no single one
            if len(ids.encode()) > _LONGEST_ARGUMENT or any("," in each for each in samples):
                listed = json.dumps(samples, ensure_ascii=False) + (f", epochs={epochs}" if epochs > 1 else "")
                script = f"from inspect_ai import eval\n\neval('TASK', model={model!r}, sample_id={listed})\n"
                found[f"{names[arm]}.py"] = script
                found["inspect.sh"] += f"python {names[arm]}.py\n"
            else:
                several = f" --epochs {epochs}" if epochs > 1 else ""
                found["inspect.sh"] += f"inspect eval TASK --model {quote(model)} --sample-id {quote(ids)}{several}\n"
        return found
    if template is None:
        raise InputError(
            "Requests to a batch API need --template FILE: the JSON body of a request, with {column} for the cells of "
            'an item, for example {"messages": [{"role": "user", "content": "{question}"}]}.'
        )
    return {
        f"{names[arm]}.json{'l' if form == 'openai-batch' else ''}": _batch(
            form, some, _filled(template, {"arm": arm, **(prompts or {}).get(arm, {})}), (models or {}).get(arm, arm)
        )
        for arm, some in by_arm.items()
    }


def _file_names(arms: Sequence[str]) -> dict[str, str]:
    """A file name for each arm, with its key where two would be the same."""
    plain = {arm: re.sub(r"[^A-Za-z0-9_.-]+", "_", arm).strip(".") or "_" for arm in arms}
    times = Counter(name.casefold() for name in plain.values())
    return {arm: name if times[name.casefold()] == 1 else f"{name}-{_arm_key(arm)}" for arm, name in plain.items()}


def _lm_eval_samples(requests: Sequence[Request]) -> str:
    """What `lm_eval --samples` takes: the documents of each task."""
    found: dict[str, list[int]] = {}
    for each in requests:
        if each.repeats > 1:
            raise InputError("lm-evaluation-harness answers a document once. Use another form for a list with repeats.")
        task, _, document = each.item.rpartition("/")
        if not task or not document.isdecimal():
            raise DataError(
                f"The item {quoted(each.item)} is not a document of a task. Call items TASK/DOC_ID: parity/3."
            )
        found.setdefault(task, []).append(int(document))
    return json.dumps(found) + "\n"


def _batch(form: str, requests: Sequence[Request], template: Any, model: str) -> str:
    bodies = [(request_id(each.arm, each.item), {"model": model, **_filled(template, each.cells)}) for each in requests]
    if all(body == bodies[0][1] for _, body in bodies[1:]) and len(bodies) > 1:
        columns = ", ".join(f"{{{column}}}" for column in requests[0].cells)
        raise InputError(f"All requests are the same: the template has no column of the items in it ({columns}).")
    if form == "anthropic-batch":
        return json.dumps({"requests": [{"custom_id": key, "params": body} for key, body in bodies]}) + "\n"
    url = "/v1/responses" if "input" in template else "/v1/chat/completions"
    rows = [{"custom_id": key, "method": "POST", "url": url, "body": body} for key, body in bodies]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _filled(node: Any, cells: Mapping[str, str]) -> Any:
    """Fill each {column} of a template with the cell of an item."""
    if isinstance(node, dict):
        return {key: _filled(each, cells) for key, each in node.items()}
    if isinstance(node, list):
        return [_filled(each, cells) for each in node]
    if not isinstance(node, str):
        return node
    return re.sub(r"\{([^{}]+)\}", lambda found: cells.get(found[1], found[0]), node)
