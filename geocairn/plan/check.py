"""The check of a whole plan, before anything runs: all complaints at once, each with line, step, field and nearest
name.

What the check knows of sources (CRS, kinds) is carried forward through the steps by the operations' promises, so a
buffer in degrees or a join across two CRS is found without computing. What it does not know it leaves to the run, which
asks the same of the layers themselves. What always holds: a thing that is wrong is complained of once, not again by
everything that is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geocairn.failure import InputFailure
from geocairn.operations.registry import operations
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document, document_of
from geocairn.plan.findings import Findings, target_of
from geocairn.plan.graph import Graph, Node, output_names, output_parameters, publication_inputs
from geocairn.plan.knowledge import Describe, Known, KnownSource
from geocairn.plan.model import Output, Plan
from geocairn.plan.reading import Reading, in_order
from geocairn.plan.step_check import StepCheck
from geocairn.sources.formats import CSV, PARQUET
from geocairn.sources.postgis.relation import POSTGIS
from geocairn.sources.reach import Reach

__all__ = ["Checked", "Complaint", "Describe", "Known", "KnownSource", "PlanError", "check", "graph_of"]


@dataclass
class Checked:
    """A plan that was checked."""

    graph: Graph
    remarks: list[Complaint] = field(default_factory=list)
    """What is not wrong but worth a word: a step that leads to no output."""


def check(document: Document, describe: Describe | None = None, reach: Reach | None = None) -> Checked:
    """Check a plan whole and return its graph.

    Parameters
    ----------
    document : the plan.
    describe : tells what is known of a source. Without it, sources are not looked at.
    reach : what sources and outputs are held to; without it they are held to nothing here, and at the run.

    Raises
    ------
    PlanError : with all complaints.
    """
    reading = Reading(document)
    findings = Findings(reading, describe, reach)
    repeated = findings.repeated_names()
    for name, source in reading.sources.items():
        findings.add_source(name, source.plain(), ("sources", name), allow_older=source.allow_older)
    for index, step in reading.steps.items():
        StepCheck(findings, index, step).run(repeated=index in repeated)
    names = output_names(list(reading.outputs.values()))
    for (index, output), name in zip(reading.outputs.items(), names, strict=True):
        _check_output(findings, index, output, name)
    if not findings.nodes and not reading.complaints:
        reading.complain("the plan has no steps", ())
    graph = Graph(reading.plan(), findings.nodes)
    return Checked(graph, _remarks(graph, findings))


def graph_of(values: Mapping[str, Any] | Plan, name: str = "plan") -> Graph:
    """Return the graph of a plan given as values or model, checked without looking at its sources.

    Raises
    ------
    PlanError : with all complaints.
    """
    if isinstance(values, Plan):
        values = values.model_dump(by_alias=True, exclude_unset=True)
    return check(document_of(values, name)).graph


def _check_output(findings: Findings, index: int, output: Output, name: str) -> None:
    label = f"output {name}"
    place = ("outputs", index)
    taken: list[tuple[tuple[str | int, ...], str]] = [(("from",), output.from_)]
    taken += [(("context", number), layer) for number, layer in enumerate(output.context)]
    fine = True
    for inner, layer in taken:
        if findings.is_layer(layer):
            continue
        fine = False
        message = findings.why_no_layer(layer, "source or step")
        if message is not None:
            findings.reading.complain(message, (*place, *inner), step=label, field=".".join(map(str, inner)))
    operation = operations["write_layer"]
    try:
        parameters = operation.normalise(output_parameters(output))
    except InputFailure as failure:
        findings.reading.complain(failure.what, place, step=label)
        return
    if findings.claim(target_of(parameters), f"{label}, number {index + 1}", place, label) and fine:
        known = findings.known.get(output.from_, Known())
        if known.table and target_of(parameters).format not in (CSV, PARQUET, POSTGIS):
            findings.reading.complain(
                f"{output.uri}: {output.from_!r} is a table without geometry; write it as CSV or Parquet "
                "(.csv, .parquet)",
                (*place, "uri"),
                step=label,
                field="uri",
            )
            return
        key = f"output:{name}"
        inputs = publication_inputs(output)
        findings.nodes[key] = Node(key, "publication", operation, parameters, inputs, output=output)


def _remarks(graph: Graph, findings: Findings) -> list[Complaint]:
    needed: set[str] = set()
    waiting = [node.name for node in graph.targets]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += graph.nodes[name].input_names
    return in_order(
        [
            Complaint(
                f"{node.kind} {name!r} leads to no output and is not {'read' if node.kind == 'source' else 'computed'}",
                line=findings.reading.document.line(findings.places.get(name, ())),
                step=name,
            )
            for name, node in graph.nodes.items()
            if name not in needed
        ]
    )
