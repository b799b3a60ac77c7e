"""The fingerprint: SHA-256 over everything that decides a result, and nothing else.

The record of a step is made from the *whole* step object less the exclusion list below, so that a new field counts
unless somebody writes down that it does not. The record of a source is its version, its read options and its scope,
with its canonical URI where the version is not a digest of the content itself. Because each record holds the
fingerprints of its inputs, the stale tail of a chain needs no code of its own; nothing else decides staleness.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from geocairn.canonical import digest
from geocairn.checkpoint import SCHEME
from geocairn.operations.contract import Operation
from geocairn.operations.registry import operations
from geocairn.source_code import code_version

EXCLUDED_STEP_FIELDS: dict[str, str] = {
    "name": "renaming a step changes nothing of its result; inputs count by fingerprint, not by name",
    "description": "is for people",
    "expect": "says whether a result is acceptable, not what it is; held against reused results too",
    "allow_empty": "is an expectation: whether a result without rows is acceptable",
    "checkpoint": "says whether a result is stored",
    "backends": "backends that share a fingerprint give the same answer",
    "retries": "the number of an attempt changes nothing of its result",
    "timeout": "says how long an attempt may take",
    "retention": "says how long a result is kept",
    "fallback": "is another computation, whose result has a fingerprint of its own; see fallback_record",
}
"""Fields of a step that are no part of its fingerprint, each with the reason."""

EXCLUDED_SOURCE_FIELDS: dict[str, str] = {
    "uri": "counts by the canonical URI, and only where the version is not a digest of the content",
    "version": "counts by the version that was resolved",
    "public": "decides whether the scope counts",
    "scope": "counts unless the source is public",
}

InputPrints = Mapping[str, "str | list[str]"]


def step_record(step: BaseModel, operation: Operation, parameters: BaseModel, inputs: InputPrints) -> dict[str, Any]:
    """Return what decides a step's result.

    Parameters
    ----------
    step : the step; every field counts that is not excluded.
    operation, parameters : what it uses, normalised.
    inputs : fingerprints by role.
    """
    record: dict[str, Any] = {"scheme": SCHEME, "kind": "step"}
    for name in type(step).model_fields:
        if name not in EXCLUDED_STEP_FIELDS:
            record[name] = getattr(step, name)
    record["op"] = operation_identity(operation)
    record["version"] = operation_version(operation)
    record["params"] = parameter_record(parameters)
    record["inputs"] = dict(inputs)
    record["environment"] = dict(operation.environment()) if operation.environment is not None else {}
    return record


def fallback_record(record: Mapping[str, Any], exact: str, because: str) -> dict[str, Any]:
    """Return what decides the result of a fallback: its own record, and what it stands for.

    So it never answers for the exact step, nor for the same operation where that itself was asked for.

    Parameters
    ----------
    record : as of any step; see `step_record`.
    exact : the fingerprint of the step whose place it takes.
    because : why it will do; told with the result.
    """
    return {**record, "kind": "fallback", "exact": exact, "because": because}


def source_record(
    source: BaseModel, version: str, canonical_uri: str, *, is_content: bool, scope: str
) -> dict[str, Any]:
    """Return what decides a source's layer.

    Parameters
    ----------
    source : where and how it is read.
    version : the version that was resolved.
    canonical_uri : its address without secrets; counts unless the version is our own digest of the content.
    is_content : whether it is.
    scope : who may read it, where the source itself does not say; counts unless the source is public.
    """
    record: dict[str, Any] = {"scheme": SCHEME, "kind": "source", "version": version}
    for name in type(source).model_fields:
        if name not in EXCLUDED_SOURCE_FIELDS:
            record[name] = _value(getattr(source, name))
    record["uri"] = None if is_content else canonical_uri
    record["scope"] = scope_of(source, scope)
    record["reader"] = operation_version(operations["read_layer"])
    return record


def scope_of(source: BaseModel, scope: str) -> str | None:
    """Return who may read a source: its own scope, else the store's; None where it is public."""
    if getattr(source, "public", False):
        return None
    own: str | None = getattr(source, "scope", None)
    return own or scope


def publication_record(
    parameters: BaseModel, target: str, inputs: InputPrints, context_names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what decides a publication: what is published, where to, and how.

    Parameters
    ----------
    parameters : those of `write_layer`.
    target : the canonical URI of the output; counts in place of the one that the plan states.
    inputs : fingerprints by role.
    context_names : what the layers drawn around a map are called, which its legend tells.
    """
    params = {name: value for name, value in parameter_record(parameters).items() if name not in ("uri", "mode")}
    return {
        "scheme": SCHEME,
        "kind": "publication",
        "writer": operation_version(operations["write_layer"]),
        "target": target,
        "params": params,
        "inputs": dict(inputs),
        "context_names": list(context_names),
    }


def frame_record(content: str, scope: str) -> dict[str, Any]:
    """Return the record of a layer that was handed over in memory, by the digest of its content."""
    return {"scheme": SCHEME, "kind": "frame", "content": content, "scope": scope}


def fingerprint(record: Mapping[str, Any]) -> str:
    """Return the fingerprint of a record: 64 hexadecimal digits.

    Raises
    ------
    NotCanonical : when anything in the record has no canonical form; there is never a partial key.
    """
    return digest(record)


def operation_identity(operation: Operation) -> str:
    """Return what tells an operation from every other: its name in the catalogue, else its function's module and name.

    So a step of somebody's own is never answered by the result of another that has the same name.
    """
    if operations.get(operation.name) is operation:
        return operation.name
    module = operation.function.__module__
    if module == "__main__":  # a script's name says more, and is the same when the script is imported
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else module
    return f"{module}:{operation.function.__qualname__}:{operation.name}"


def operation_version(operation: Operation) -> str:
    """Return the version of an operation: the stated one, else the hash of its code as it is now.

    The hash is made anew each time: in a notebook a helper can be another one from one call to the next.

    Raises
    ------
    InputFailure : when there is none and the code's identity cannot be known.
    """
    if operation.version is not None:
        return str(operation.version)
    return f"code:{code_version(operation.function)[:32]}"


def parameter_record(parameters: BaseModel) -> dict[str, Any]:
    """Return parameters as plain values, types normalised; geometry stays geometry."""
    return {name: _value(getattr(parameters, name)) for name in type(parameters).model_fields}


def _value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _value(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value


def components(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a record as flat components, such as `params.distance`, to be compared one by one."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            flat.update(components(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat
