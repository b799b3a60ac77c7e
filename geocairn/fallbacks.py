"""Fallbacks: another operation in the place of a step that failed, where the plan grants it or a person accepts it.

What always holds: a fallback is used only after the step itself has failed in this run, for a failure that lies in
the data or the backends and not in an outage; it has a fingerprint of its own (`geocairn.fingerprint.fallback_record`);
and its result tells what it is, as a caveat in its record that everything made from it inherits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from geocairn.answer import StepOutcome
from geocairn.classification import classify
from geocairn.decide import Decision
from geocairn.failure import Failure, FailureClass, InputFailure
from geocairn.nearest import did_you_mean
from geocairn.plan.graph import Graph, Node
from geocairn.policy import RecoveryPolicy

_CLASSES = (FailureClass.INPUT, FailureClass.CAPABILITY)


def fallbacks_due(
    decision: Decision, outcomes: Mapping[str, StepOutcome], policy: RecoveryPolicy, accepted: Collection[str] = ()
) -> list[str]:
    """Return the names of failed steps whose fallback may take their place now.

    Parameters
    ----------
    decision, outcomes : what was decided, and what became of it.
    policy : says whether the plan's grant is enough.
    accepted : steps whose fallback a person has accepted for this run.
    """
    due = []
    for name, outcome in outcomes.items():
        node = decision.verdicts[name].node
        if outcome.outcome != "failed" or outcome.error is None or node.fallback is None:
            continue
        in_place = not isinstance(outcome.error, Failure) or outcome.error.of_the_step
        if in_place and classify(outcome.error).failure_class in _CLASSES and _allowed(node, policy, accepted):
            due.append(name)
    return due


def hold_accepted(accepted: Collection[str], graph: Graph) -> None:
    """Refuse to accept a fallback that no step declares.

    Raises
    ------
    InputFailure : with the nearest step that declares one.
    """
    declared = [name for name, node in graph.nodes.items() if node.fallback is not None]
    for name in accepted:
        if name not in declared:
            why = did_you_mean(name, declared) or "; no step declares one"
            raise InputFailure(f"there is no step {name!r} with a fallback to accept{why}")


def _allowed(node: Node, policy: RecoveryPolicy, accepted: Collection[str]) -> bool:
    stated = node.step.fallback if node.step is not None else None
    if stated is None or policy.fallbacks == "never":
        return False
    return node.name in accepted or (policy.fallbacks == "granted" and stated.granted)
