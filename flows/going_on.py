"""The command that goes on after an input failure at the terminal: the one that was given, with what is to be changed.

What always holds: it is a line for the shell, with the same plan, store, scope, planner and settings, so that with a
right value in it only what is missing is computed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geocairn.plan.complaint import PlanError
from geocairn.plan.document import parse_scalar
from geocairn.plan.graph import Graph, Node
from geocairn.replanning.diagnosis import present_parameters


@dataclass(frozen=True)
class Command:
    """A `geocairn run` as it was given."""

    plan: str
    settings: Sequence[str] = ()
    store: str | None = None
    scope: str | None = None
    planner: str | None = None
    policy: str | None = None
    accepted: Sequence[str] = ()
    """Steps whose fallback was accepted."""
    directory: str | None = None
    """The folder of `-C`."""
    allowed: Sequence[str] = ()
    """What `--allow` lets the plan read and write."""

    def line(self, setting: str | None = None, accept: str | None = None) -> str:
        """Return it as a line for the shell, with one more `--set`, which replaces one of the same target.

        Parameters
        ----------
        setting : what is to be set.
        accept : a step whose fallback is to be accepted.
        """
        parts = ["geocairn", *(["-C", self.directory] if self.directory else []), "run", self.plan]
        target = _target(setting) if setting else None
        kept = [each for each in self.settings if _target(each) != target]
        for each in [*kept, *([setting] if setting else [])]:
            parts += ["--set", each]
        for each in dict.fromkeys([*self.accepted, *([accept] if accept else [])]):
            parts += ["--accept-fallback", each]
        for each in self.allowed:
            parts += ["--allow", each]
        for option, value in (
            ("--store", self.store),
            ("--scope", self.scope),
            ("--planner", self.planner),
            ("--recovery-policy", self.policy),
        ):
            parts += [option, value] if value else []
        return shlex.join(parts)


def with_command(answer: Mapping[str, Any], command: Command, graph: Graph) -> dict[str, Any]:
    """Return an answer whose input failure tells the command that goes on, as `failure.go_on`; others as they are.

    Parameters
    ----------
    answer : the answer of a run, as JSON values.
    command : how the run was started.
    graph : the plan that it was started with.
    """
    failure = answer.get("failure")
    if failure is None:
        return dict(answer)
    if "fallback" in failure:
        line = command.line(accept=failure["step"])
        failure = {**failure, "fallback": {**failure["fallback"], "go_on": line}}
    if failure["class"] != "input":
        return {**answer, "failure": failure}
    node = graph.nodes.get(failure["step"])
    setting = _setting(node, failure["message"], command, graph) if node is not None else None
    return {**answer, "failure": {**failure, "go_on": command.line(setting)}}


def _setting(node: Node, message: str, command: Command, graph: Graph) -> str | None:
    """Return a `--set` of the parameter that a failure is most likely about, with its present value.

    One of the failed step that the message names, else one whose value it quotes. Else, where the command itself sets
    a parameter of the step or of what it is made from, that one is the likely one, and is there already. Else the first
    that the plan states, else the first.
    """
    if node.kind == "publication":
        return None
    values = present_parameters(node)
    named = [name for name in values if f"'{name}'" in message or f"{name}=" in message]
    quoted = [name for name, value in values.items() if any(f"'{text}'" in message for text in _texts(value))]
    likely = [*named, *quoted]
    if not likely:
        made_from = _ancestors(node, graph)
        if any(_target(setting).partition(".")[0] in made_from for setting in command.settings):
            return None
        likely = [*(name for name in values if name in node.parameters.model_fields_set), *values]
    return f"{node.name}.{likely[0]}={as_setting(values[likely[0]])}" if likely else None


def _ancestors(node: Node, graph: Graph) -> set[str]:
    """Return the names of a node and of all that it is made from."""
    found: set[str] = set()
    waiting = [node.name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph.nodes[name].input_names
    return found


def as_setting(value: Any) -> str:
    """Return a JSON value as `--set` takes it: text plain where it is read back as the same text."""
    if isinstance(value, str):
        try:
            plain = parse_scalar(value) == value
        except PlanError:
            plain = False
        if plain and value == value.strip():
            return value
    return json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for key, item in value.items() for text in (str(key), *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _target(setting: str) -> str:
    return setting.partition("=")[0].strip()
