"""The decision on each arm of a study of several metrics: ship it, do not, or undecided; and why.

Each verdict follows from what is shown alone, so any of them is wrong, ever, with probability at most delta.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.questions import Question
from roundwise.report.model import ArmDecision, ClaimRow, MetricRow, Units


def list_metric_rows(
    metric: str, role: str, question: Question, arms: Sequence[str], claims: Sequence[ClaimRow], units: Units
) -> list[MetricRow]:
    """List what is claimed of one metric: a row for each arm that is compared with the control.

    Args:
        metric: Its name.
        role: "primary", "guardrail" or "secondary".
        question: Its claims.
        arms: The names of the arms.
        claims: The claims, then their opposites, as the report has them.
        units: Of its values.
    """
    forms, found = question.forms, []
    assert forms is not None  # claims have them
    for j, form in enumerate(forms):
        claim, opposite = claims[j], claims[j + len(forms)] if len(claims) > len(forms) else None
        (arm,) = [i for i in np.flatnonzero(form).tolist() if i != question.reference_arm]
        ends = claim.lower, claim.upper
        difference = claim.estimate
        if claim.scale is None and question.lower_is_better:  # claims are about improvements
            ends = (None if claim.upper is None else -claim.upper), (None if claim.lower is None else -claim.lower)
            difference = None if claim.estimate is None else -claim.estimate
        found.append(
            MetricRow(
                arm=arms[arm],
                metric=metric,
                role=role,
                claim=claim.claim,
                shown=claim.shown,
                shown_at=claim.shown_at,
                refuted=opposite is not None and opposite.shown,
                refutation=None if opposite is None else opposite.claim,
                log_evidence=claim.log_evidence,
                log_threshold=claim.log_threshold,
                difference=difference,
                difference_lower=ends[0],
                difference_upper=ends[1],
                scale=claim.scale,
                units=units,
            )
        )
    return found


def decide_arms(rows: Sequence[MetricRow]) -> list[ArmDecision]:
    """Decide on each arm: shipping needs the primary claim and every guardrail; secondary metrics do not count."""
    found = []
    for arm in dict.fromkeys(each.arm for each in rows):
        own = [each for each in rows if each.arm == arm and each.role != "secondary"]
        against = [f"{each.refutation} ({each.metric})" for each in own if each.refuted]
        missing = [f"{each.claim} ({each.metric})" for each in own if not each.shown]
        shown = [f"{each.claim} ({each.metric})" for each in own if each.shown]
        if against:
            found.append(ArmDecision(arm=arm, decision="do not ship", why="; ".join(against)))
        elif missing:
            found.append(ArmDecision(arm=arm, decision="undecided", why=f"not shown: {'; '.join(missing)}"))
        else:
            found.append(ArmDecision(arm=arm, decision="ship", why="; ".join(shown)))
    return found
