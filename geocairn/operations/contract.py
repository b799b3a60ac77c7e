"""The contract of an operation: its name, roles, parameters, kinds and what its result promises.

An operation is a typed function, layers in, layer out. Parameters annotated as GeoDataFrame are its inputs (roles); the
keyword parameters, with their types and defaults, become its parameter model. What always holds: importing a module of
operations loads neither geopandas nor shapely (functions import what they use when they run), and nothing is computed
before parameters and inputs were held against the contract.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.nearest import did_you_mean
from geocairn.operations.json_schema import StandardBounds

Kind = Literal["point", "line", "polygon"]
KINDS: tuple[Kind, ...] = ("point", "line", "polygon")
REFERENCE_BACKEND = "geopandas"

_LAYER_NAMES = ("GeoDataFrame", "Layer")
_TABLE_NAMES = ("DataFrame", "Table")

Compute = Callable[..., Any]


@dataclass(frozen=True)
class Role:
    """One input of an operation."""

    name: str
    kinds: tuple[str, ...] = KINDS
    """The geometry kinds that it takes."""
    optional: bool = False
    many: bool = False
    """Whether it takes a list of layers."""
    table: bool = False
    """Whether a table without geometry will do."""


@dataclass(frozen=True)
class Promise:
    """What an operation promises of its result, held to by the gate."""

    kind: str = "same"
    """`point`, `line`, `polygon`, `any`, `table`, or `same` (that of the first input)."""
    crs: str = "same"
    """`same` (that of the first input), `any`, or the name of the parameter that states it."""
    rows: Literal["each", "some", "any"] = "any"
    """`each`: one row for each row of the first input, in order; `some`: a part of its rows, in order; `any`."""
    validity: Literal["kept", "mended"] = "kept"
    """`kept`: no geometry is invalid unless it came in so; `mended`: none is invalid at all."""
    drops_missing: bool = False
    """Whether rows of null or empty geometry are dropped (else they stay)."""
    empties: bool = False
    """Whether the operation may leave a geometry empty that was not (a negative buffer does)."""


class ParameterModel(BaseModel):
    """Base of every operation's parameter model: unknown names are refused, values are normalised to their types."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the JSON Schema, with bounds as the standard names them."""
        return super().model_json_schema(*args, **{"schema_generator": StandardBounds, **options})


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of geoprocessing: a typed function and its contract.

    Call it to compute without Prefect, checkpoint or gate; `compute` chooses the backend.
    """

    name: str
    function: Compute
    version: int | str | None
    promise: Promise
    roles: tuple[Role, ...]
    planar: bool | Callable[[Any], bool] = False
    """Whether it measures in the units of the CRS, so that a geographic or unknown CRS is refused; a callable decides
    by the parameters."""
    same_crs: bool = True
    """Whether all inputs must have one CRS."""
    environment: Callable[[], Mapping[str, Any]] | None = None
    """What of the environment decides its numbers, for the fingerprint."""
    validate: Callable[[Any], None] | None = None
    """A check of parameters against each other; raises ValueError."""
    effect: bool = False
    """Whether it acts on the world outside the store (write_layer)."""
    reads: bool = False
    """Whether it reads a source (read_layer)."""
    varies: Callable[[Any], Mapping[str, Any]] | None = None
    """What of the promise depends on the parameters: from the parameter model to the Promise's fields that change."""
    example: Mapping[str, Any] | None = None
    """A small call for its documentation: parameters as they are written, inputs by the name of a sample layer
    (see `geocairn.operations.samples`)."""
    implementations: dict[str, Compute] = field(default_factory=dict)

    @property
    def backends(self) -> tuple[str, ...]:
        """The names of the backends that claim this operation, the reference first."""
        return (REFERENCE_BACKEND, *self.implementations)

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.documentation.partition("\n")[0]

    @cached_property
    def documentation(self) -> str:
        """The function's docstring, dedented."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """The pydantic model of its parameters."""
        return _parameter_model(self.name, self.function)

    def schema(self) -> dict[str, Any]:
        """Return name, description and JSON Schema of the parameters, in the form that function-calling models take."""
        return {
            "name": self.name,
            "description": self.documentation,
            "parameters": self.parameters.model_json_schema(),
        }

    def normalise(self, parameters: Mapping[str, Any]) -> BaseModel:
        """Return the parameters with defaults filled in and types normalised.

        Raises
        ------
        InputFailure : for a wrong name, type or value, with the nearest right name.
        """
        try:
            model = self.parameters.model_validate(dict(parameters))
            if self.validate is not None:
                self.validate(model)
        except ValidationError as error:
            problems = "; ".join(problem for _, problem in parameter_complaints(self, error))
            raise InputFailure(problems, where=self.name) from None
        except ValueError as error:
            raise InputFailure(str(error), where=self.name) from None
        return model

    def promised(self, parameters: Any) -> Promise:
        """Return the promise that holds with these parameters (`promise` is that of the defaults)."""
        return replace(self.promise, **self.varies(parameters)) if self.varies is not None else self.promise

    def measures_planar(self, parameters: Any) -> bool:
        """Return whether, with these parameters, distances or areas are in the units of the CRS."""
        return self.planar(parameters) if callable(self.planar) else self.planar

    def implementation(self, backend: str = REFERENCE_BACKEND) -> Compute:
        """Return the function that computes it on `backend`.

        Raises
        ------
        CapabilityFailure : when the backend does not claim this operation.
        """
        if backend == REFERENCE_BACKEND:
            return self.function
        if backend not in self.implementations:
            raise CapabilityFailure(
                f"backend {backend!r} does not implement {self.name}",
                where=self.name,
                remedy=f"use one of {', '.join(self.backends)}",
            )
        return self.implementations[backend]

    def compute(self, *layers: Any, backend: str = REFERENCE_BACKEND, **arguments: Any) -> Any:
        """Compute the operation: inputs by role (or in order), parameters by name.

        Inputs and parameters are held against the contract first; no input is changed.

        Raises
        ------
        InputFailure : for wrong parameters, roles, kinds, or a CRS that the operation cannot measure in.
        CapabilityFailure : when the backend does not claim the operation.
        """
        from geocairn.operations.preconditions import check_inputs

        inputs, rest = self.split_arguments(layers, arguments)
        parameters = self.normalise(rest)
        check_inputs(self, inputs, parameters)
        return self.implementation(backend)(**inputs, **parameter_values(parameters))

    __call__ = compute

    def split_arguments(
        self, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return inputs by role, and the other arguments.

        Raises
        ------
        InputFailure : for too many inputs, one given twice, or a missing one.
        """
        names = [role.name for role in self.roles]
        if len(positional) > len(names):
            raise InputFailure(
                f"takes {len(names)} inputs ({', '.join(names) or 'none'}), {len(positional)} were given",
                where=self.name,
                remedy="give parameters by name",
            )
        inputs = dict(zip(names, positional, strict=False))
        rest = {}
        for key, value in named.items():
            if key not in names:
                rest[key] = value
            elif key in inputs:
                raise InputFailure(f"input {key!r} was given twice", where=self.name)
            else:
                inputs[key] = value
        missing = [role.name for role in self.roles if not role.optional and role.name not in inputs]
        if missing:
            raise InputFailure(f"input {', '.join(map(repr, missing))} is missing", where=self.name)
        return {key: value for key, value in inputs.items() if value is not None}, rest


def parameter_values(parameters: BaseModel) -> dict[str, Any]:
    """Return the parameters as the function takes them, nested models kept."""
    return {name: getattr(parameters, name) for name in type(parameters).model_fields}


def parameter_complaints(operation: Operation, error: ValidationError) -> list[tuple[str, str]]:
    """Return what is wrong with an operation's parameters: the field, and one sentence with the nearest right name."""
    known = list(operation.parameters.model_fields)
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        location = item["loc"]
        name = str(location[0]) if location else ""
        if item["type"] == "extra_forbidden":
            text = f"{operation.name} has no parameter {name!r}{did_you_mean(name, known)}"
        elif item["type"] == "missing":
            text = f"parameter {name!r} is missing"
        else:
            inner = [str(part) for part in location[1:] if isinstance(part, int)]
            place = name + "".join(f"[{part}]" for part in inner)
            text = f"parameter {place!r}: {item['msg'][:1].lower()}{item['msg'][1:]}, got {item['input']!r}"
            if name in found:  # several members of one union complain: the first says enough
                continue
        found.setdefault(name, text)
    return list(found.items())


def operation(
    *,
    version: int | str | None = None,
    result: str = "same",
    kinds: Mapping[str, tuple[str, ...]] | tuple[str, ...] | None = None,
    crs: str = "same",
    rows: Literal["each", "some", "any"] = "any",
    validity: Literal["kept", "mended"] = "kept",
    drops_missing: bool = False,
    empties: bool = False,
    planar: bool | Callable[[Any], bool] = False,
    same_crs: bool = True,
    environment: Callable[[], Mapping[str, Any]] | None = None,
    validate: Callable[[Any], None] | None = None,
    effect: bool = False,
    reads: bool = False,
    varies: Callable[[Any], Mapping[str, Any]] | None = None,
    example: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Callable[[Compute], Operation]:
    """Make an operation of a function: `@operation(version=1, result="polygon")`.

    Parameters annotated as GeoDataFrame are its inputs; the others become its parameter model. `kinds` limits the
    geometry kinds that the inputs take, for all roles or by role. The other arguments are explained at `Promise` and
    `Operation`.
    """

    def wrap(function: Compute) -> Operation:
        roles = _roles(function, kinds)
        promise = Promise(result, crs, rows, validity, drops_missing, empties)
        chosen = name or function.__name__
        return Operation(
            chosen,
            function,
            version,
            promise,
            roles,
            planar,
            same_crs,
            environment,
            validate,
            effect,
            reads,
            varies,
            example,
        )

    return wrap


def implements(target: Operation, backend: str) -> Callable[[Compute], Compute]:
    """Register a function as another backend's implementation of an operation: `@implements(buffer, "duckdb")`."""

    def register(function: Compute) -> Compute:
        if backend == REFERENCE_BACKEND or backend in target.implementations:
            raise ValueError(f"{target.name} already has an implementation for {backend!r}")
        target.implementations[backend] = function
        return function

    return register


def _annotation_text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation.replace(" ", "")
    if typing.get_origin(annotation) is not None:
        return str(annotation).replace(" ", "")
    return str(getattr(annotation, "__name__", annotation))


def _role_of(parameter: inspect.Parameter, kinds: tuple[str, ...]) -> Role | None:
    text = _annotation_text(parameter.annotation)
    optional = parameter.default is not inspect.Parameter.empty
    parts = [part for part in text.replace("Optional[", "").split("|") if part not in ("None", "")]
    names = [part.strip("]").rpartition("[")[2].rpartition(".")[2].strip("'\"") for part in parts]
    if not any(name in _LAYER_NAMES + _TABLE_NAMES for name in names):
        return None
    many = text.lower().startswith(("list[", "sequence[", "tuple["))
    return Role(parameter.name, kinds, optional, many, any(name in _TABLE_NAMES for name in names))


def _roles(function: Compute, kinds: Mapping[str, tuple[str, ...]] | tuple[str, ...] | None) -> tuple[Role, ...]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        allowed = kinds.get(parameter.name, KINDS) if isinstance(kinds, Mapping) else kinds or KINDS
        role = _role_of(parameter, tuple(allowed))
        if role is not None:
            found.append(role)
    return tuple(found)


def _parameter_model(name: str, function: Compute) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if _role_of(parameter, KINDS) is not None:
            continue
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            raise TypeError(f"operation {name}: *args and **kwargs have no parameter model; name each parameter")
        annotation = parameter.annotation
        if annotation is inspect.Parameter.empty:
            raise TypeError(f"operation {name}: parameter {parameter.name!r} needs a type")
        if isinstance(annotation, str):
            annotation = eval(annotation, function.__globals__, dict(_closure(function)))  # noqa: S307 - the author's own annotation
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    module = sys.modules.get(function.__module__)
    with warnings.catch_warnings():
        # A parameter may be called like a method that pydantic keeps for its first version (`validate`).
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
        return create_model(
            f"{''.join(part.title() for part in name.split('_'))}Parameters",
            __base__=ParameterModel,
            __module__=module.__name__ if isinstance(module, types.ModuleType) else __name__,
            **fields,
        )


def _closure(function: Compute) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) and function.__closure__ else {}
