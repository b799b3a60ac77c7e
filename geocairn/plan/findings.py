"""What the check of a plan has found so far: nodes, what is known of them, who is to blame for what.

What always holds: a name that was complained of itself is `bad`, and nothing that refers to it is blamed again; an
address is taken by one source or one output.
"""

from __future__ import annotations

import os

from pydantic import BaseModel

from geocairn.classification import classify
from geocairn.failure import Failure, FailureClass, InputFailure, NotAllowed
from geocairn.nearest import did_you_mean
from geocairn.operations.registry import operations
from geocairn.plan.document import Location
from geocairn.plan.graph import Node
from geocairn.plan.knowledge import Describe, Known, known_of_crs, known_of_source
from geocairn.plan.model import Step
from geocairn.plan.reading import Reading
from geocairn.sources.postgis.relation import relation_named, table_address
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.source import Source
from geocairn.sources.target import Target
from geocairn.sources.uri import DatabasePlace, LocalPlace, parse


class Findings:
    """The state of a check."""

    def __init__(self, reading: Reading, describe: Describe | None, reach: Reach | None = None) -> None:
        self.reading = reading
        self.describe = describe
        self.reach = reach
        self.nodes: dict[str, Node] = {}
        self.known: dict[str, Known] = {}
        self.bad = set(reading.unread_names)
        self.places: dict[str, Location] = {name: ("sources", name) for name in reading.source_names}
        """Where each name is first given."""
        self._addresses = {
            _address(source.uri, source.layer): f"source {name}" for name, source in reading.sources.items()
        }
        """What stands at each address: a source that is read, an output that is written."""

    def repeated_names(self) -> set[int]:
        """Complain of names used twice, and return the places of the steps that do."""
        repeated = set()
        for index, name in self.reading.step_names.items():
            place: Location = ("steps", index)
            if name not in self.places:
                self.places[name] = place
                continue
            repeated.add(index)
            earlier = self.reading.document.line(self.places[name])
            by = f"{'source' if self.places[name][0] == 'sources' else 'step'}{f', line {earlier}' if earlier else ''}"
            self.reading.complain(
                f"the name {name!r} is used twice (by a {by})", (*place, "name"), step=name, field="name"
            )
        return repeated

    def layers(self) -> list[str]:
        """Return the names that an input or output may take, as far as is known."""
        return [*(name for name, node in self.nodes.items() if node.kind != "publication"), *sorted(self.bad)]

    def is_layer(self, name: str) -> bool:
        """Return whether a name stands for something whose result can be taken."""
        return name in self.nodes and self.nodes[name].kind != "publication"

    def why_no_layer(self, name: str, among: str) -> str | None:
        """Return why nothing can be taken from `name`; None where that was complained of itself."""
        if name in self.bad:
            return None
        if name in self.nodes:
            return f"{name!r} publishes a result and has none of its own; take what it publishes"
        return f"there is no {among} {name!r}{did_you_mean(name, self.layers())}"

    def add_source(
        self, name: str, source: Source, place: Location, step: Step | None = None, *, allow_older: bool = False
    ) -> None:
        """Take a source in, or a step that reads one, and ask what is known of it."""
        operation = operations["read_layer"]
        parameters = operation.normalise(dict(source))
        self.nodes[name] = Node(name, "source", operation, parameters, {}, step, source, allow_older=allow_older)
        self.known[name] = Known(table=source.table)
        try:
            if self.reach is not None:
                self.reach.may_read(parse(source.uri), source.uri)
        except (NotAllowed, InputFailure) as failure:
            self._complain_of_source(failure, name, source, place, "uri", step)
            return
        try:
            if source.crs is not None:
                self.known[name] = known_of_crs(source.crs)
        except InputFailure as failure:
            self._complain_of_source(failure, name, source, place, "crs", step)
            return
        try:
            described = self.describe(source) if self.describe else None
        except NotAllowed as failure:  # a part of it leads elsewhere
            self._complain_of_source(failure, name, source, place, "uri", step)
            return
        except Failure as failure:
            if allow_older and classify(failure).failure_class in (FailureClass.INPUT, FailureClass.TRANSIENT):
                return  # the decision finds out whether results of the version before are there
            if not isinstance(failure, InputFailure):
                raise
            self._complain_of_source(failure, name, source, place, _field_of(failure, source), step)
            return
        if described is not None:
            self.known[name] = known_of_source(described)

    def _complain_of_source(
        self, failure: Failure, name: str, source: Source, place: Location, field_name: str, step: Step | None
    ) -> None:
        about = f"{source.uri}: " if failure.where == source.uri and source.uri not in failure.what else ""
        remedy = f"; {failure.remedy}" if failure.remedy else ""
        inner = ("params", field_name) if step is not None else (field_name,)
        self.reading.complain(f"{about}{failure.what}{remedy}", (*place, *inner), step=name, field=".".join(inner))

    def claim(self, target: Target, what: str, place: Location, label: str) -> bool:
        """Take an address for an output; complain when it cannot be written to, or something of this plan is there.

        Parameters
        ----------
        target : where the output goes.
        what : what it is, for the complaint of another that goes there too.
        place : of the fields `uri` and `driver` in the plan.
        label : the step or output.
        """
        uri = target.uri
        try:
            target.format  # noqa: B018 - asked for what it refuses
        except InputFailure as failure:
            name = "driver" if "driver" in failure.what else "layer" if target.layer is not None else "uri"
            remedy = f"; {failure.remedy}" if failure.remedy else ""
            message = f"{uri}: {failure.what}{remedy}"
            self.reading.complain(message, (*place, name), step=label, field=_dotted(place, name))
            return False
        try:
            target.place(reach=self.reach or EVERYTHING)
        except (NotAllowed, InputFailure) as failure:
            remedy = f"; {failure.remedy}" if failure.remedy else ""
            self.reading.complain(
                f"{uri}: {failure.what}{remedy}", (*place, "uri"), step=label, field=_dotted(place, "uri")
            )
            return False
        address = _address(uri, target.layer)
        for taken, holder in self._addresses.items():
            if holder.startswith("source ") and address.startswith(taken + os.sep):
                message = f"{uri} lies in the folder that {holder} reads: an output there would change it"
                self.reading.complain(message, (*place, "uri"), step=label, field=_dotted(place, "uri"))
                return False
        there = self._addresses.setdefault(address, what)
        if there == what:
            return True
        message = f"{uri} is written twice (by {there} too)"
        if there.startswith("source "):
            message = f"{uri} is what {there} reads: an output must not replace it"
        self.reading.complain(message, (*place, "uri"), step=label, field=_dotted(place, "uri"))
        return False


def target_of(parameters: BaseModel) -> Target:
    """Return where an output goes, from the parameters of the operation that writes it."""
    return Target(
        str(getattr(parameters, "uri", "")),
        getattr(parameters, "driver", None),
        getattr(parameters, "layer_name", None),
    )


def _dotted(place: Location, name: str) -> str:
    """Return the field `name` at `place`, as complaints name it: without the step or output itself."""
    return ".".join(str(part) for part in (*place[2:], name))


def _address(uri: str, layer: str | None) -> str:
    """Return an address in one form, so that `out/a.gpkg`, `./out/a.gpkg` and a link to it are one.

    In a database each table has its own; what a query reads is not known.
    """
    try:
        place = parse(uri)
        if isinstance(place, DatabasePlace):
            return table_address(place, relation_named(layer)) if layer is not None else f"{place}?sql"
        return os.path.realpath(place.path) if isinstance(place, LocalPlace) else str(place)
    except InputFailure:
        return uri  # whoever reads or writes it says what is wrong with it


def _field_of(failure: InputFailure, source: Source) -> str:
    """Return the field of a source that a failure speaks of, where the plan states it."""
    for name in ("where", "version_sql", "sql", "layer"):
        if failure.what.startswith(f"{name}:") and getattr(source, name) is not None:
            return name
    spoken = f"{failure.what} {failure.remedy}".lower()
    for name, word in (("columns", "column"), ("crs", "crs"), ("layer", "layer"), ("encoding", "encoding")):
        if word in spoken and getattr(source, name) is not None:
            return name
    return "uri"
