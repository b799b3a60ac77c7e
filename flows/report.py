"""What the command line prints: answers, status, checkpoints, traces and operations, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from geocairn.checkpoint import Checkpoint
    from geocairn.operations.contract import Operation
    from geocairn.plan.check import Checked
    from geocairn.plan.document import Document

_COLOURS = {
    "reused": "cyan",
    "reuse": "cyan",
    "computed": "green",
    "compute": "green",
    "failed": "red",
    "not_reached": "yellow",
}


def print_json(value: Any) -> None:
    """Print one JSON object on standard output, in UTF-8 whatever the locale."""
    try:
        data = json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8")
    except UnicodeEncodeError:  # a file name that is no text
        data = json.dumps(value, indent=2).encode("ascii")
    click.echo(data)


def print_remarks(checked: Checked, document: Document) -> None:
    """Say on standard error what is not wrong with a plan but worth a word."""
    for remark in checked.remarks:
        click.secho(f"note: {remark.text(document.name)}", err=True, fg="yellow")


def print_answer(answer: Mapping[str, Any], as_json: bool, remark: str = "") -> None:
    """Print the answer of a run."""
    if as_json:
        print_json(answer)
        return
    for entry in answer["steps"]:
        rows = f"{entry['rows']:>9,} rows" if entry["rows"] is not None else " " * 14
        seconds = (
            f"{entry['seconds']:8.2f} s" if entry["seconds"] is not None and entry["outcome"] == "computed" else ""
        )
        click.echo(
            f"  {_coloured(entry['outcome'], 11)}  {entry['name']:<22} {entry['op']:<16} {rows} {seconds}".rstrip()
        )
        told = answer.get("failure", {}).get("step") == entry["name"]  # the last one is told below
        for attempt in entry["attempts"][: -1 if told else None]:
            click.echo(f"              {attempt['class']} on {attempt['backend']}: {attempt['error']}")
    for name, output in answer["outputs"].items():
        crs = output["crs"] or ("no CRS" if output["geometry_types"] else "table")
        told = f"({output['rows']:,} rows, {crs}, {output['outcome']})"
        click.echo(f"{click.style(name, bold=True)}: {output['uri']} {told}")
        for row in output.get("highlight") or []:
            click.echo("    " + ", ".join(f"{key} {_shown(value)}" for key, value in row.items()))
    for text in answer["caveats"]:
        click.secho(f"caveat: {text}", fg="yellow")
    failure = answer.get("failure")
    if failure:
        click.secho(f"{answer['status']}: {failure['class']} failure in {failure['step']}", fg="red", err=True)
        click.echo(failure["message"], err=True)
        for good in failure["last_good"]:
            click.echo(f"last good: {good['step']} {good['fingerprint'][:16]} {good['ref']}", err=True)
        if "replanning" in failure:
            click.echo(f"not replanned: {failure['replanning']}", err=True)
        if "fallback" in failure:
            fallback = failure["fallback"]
            click.echo(f"its fallback {fallback['op']} may take its place ({fallback['because']}):", err=True)
            click.echo(f"    {fallback.get('go_on', 'accept it for the run')}", err=True)
        if "go_on" in failure:
            click.echo("to go on, mend the plan or the data, or set a right value:", err=True)
            click.echo(f"    {failure['go_on']}", err=True)
    summary = "ended" if failure else remark or "done"
    click.echo(f"{summary} in {answer['seconds']:.1f} s, run {answer['run_id']}")


def print_status(record: Mapping[str, Any]) -> None:
    """Print what a run would do."""
    for entry in record["steps"]:
        click.echo(f"  {_coloured(entry['outcome'], 10)}  {entry['name']:<22} {entry['op']}")
        for reason in entry.get("because", []):
            click.echo(f"              {_reason(reason)}")
        if "failure" in entry:
            click.secho(f"              {entry['failure']['message']}", fg="red")
        _print_defects(entry)
    for entry in record["sources"]:
        _print_defects(entry)
        if "caveat" in entry:
            click.secho(f"caveat: {entry['caveat']}", fg="yellow")
    for entry in record["outputs"]:
        verb = "stands" if entry["outcome"] == "reuse" else "to be written"
        click.echo(f"  {_coloured(entry['outcome'], 10)}  output {entry['name']}: {verb}")
        for reason in entry.get("because", []):
            click.echo(f"              {_reason(reason)}")
    click.echo("nothing to compute" if record["unchanged"] else f"{_count(record)} to compute or write")


def _reason(reason: Mapping[str, Any]) -> str:
    """Return in words what makes a step stale."""
    if reason["component"] == "checkpoint":
        if not reason["before"] and reason["now"] == "missing":
            return "not computed yet"
        return f"checkpoint: {'was there' if reason['before'] else 'never computed'}, now {reason['now']}"
    return f"{reason['component']}: {_short(reason['before'])} → {_short(reason['now'])}"


def _print_defects(entry: Mapping[str, Any]) -> None:
    defects = {what: count for what, count in (entry.get("defects") or {}).items() if count}
    if defects:
        told = ", ".join(f"{count} {what}" for what, count in defects.items())
        click.echo(f"              {entry['name']}: geometries as they come: {told}")
    if entry.get("outside_area"):
        click.echo(f"              {entry['name']}: {entry['outside_area']} rows lie outside the CRS's area of use")


def _count(record: Mapping[str, Any]) -> int:
    return sum(entry["outcome"] == "compute" for part in ("steps", "outputs") for entry in record[part])


def print_checkpoint(checkpoint: Checkpoint, as_json: bool) -> None:
    """Print a checkpoint's record."""
    import dataclasses

    record = dataclasses.asdict(checkpoint)
    if as_json:
        print_json(record)
        return
    facts = checkpoint.facts
    lines = {
        "fingerprint": checkpoint.fingerprint,
        "kind": f"{checkpoint.kind}, made by step {checkpoint.step or '-'}",
        "operation": f"{checkpoint.operation} (version {checkpoint.version}) on {checkpoint.backend}",
        "parameters": json.dumps(checkpoint.parameters, ensure_ascii=False),
        "inputs": ", ".join(f"{role} {_short(value)}" for role, value in checkpoint.inputs.items()) or "-",
        "rows": f"{facts.rows:,}",
        "columns": ", ".join(f"{name} {kind}" for name, kind in facts.columns.items()) or "-",
        "geometry": ", ".join(facts.geometry_types) or "-",
        "CRS": facts.crs_name or "-",
        "bounds": ", ".join(f"{value:.10g}" for value in facts.bounds) if facts.bounds else "-",
        "defects": f"{facts.invalid} invalid, {facts.missing} null, {facts.empty} empty, "
        f"{facts.outside_area} outside the area of use",
        "layer": f"{checkpoint.layer.key} ({checkpoint.layer.size:,} bytes)" if checkpoint.layer else "-",
        "seconds": f"{checkpoint.seconds:.3f}",
        "created": checkpoint.created,
        "expires": checkpoint.expires or "never",
    }
    for name, value in lines.items():
        click.echo(f"{name:>12}  {value}")
    for text in checkpoint.caveats:
        click.secho(f"{'caveat':>12}  {text}", fg="yellow")


def print_trace(trace: Mapping[str, Any], as_json: bool) -> None:
    """Print what happened in a run."""
    if as_json:
        print_json(trace)
        return
    click.echo(f"run {trace['run_id']}: {trace['answer']['status']}, {trace['started']} to {trace['ended']}")
    print_answer(trace["answer"], False, "ended")
    for notice in trace["notices"]:
        click.echo(f"  {notice['step']}: {notice['notice']}" if isinstance(notice, dict) else f"  {notice}")


def print_operations(known: Mapping[str, Operation]) -> None:
    """Print all operations, a line each."""
    for name in sorted(known):
        click.echo(f"{name:<18} {known[name].summary}")


def print_operation(operation: Operation) -> None:
    """Print what an operation does, takes and promises."""
    from geocairn.handbook.pages import promise_text

    click.secho(operation.name, bold=True)
    click.echo(operation.documentation + "\n")
    for role in operation.roles:
        kinds = "any geometry" if len(role.kinds) == 3 else " or ".join(role.kinds)
        click.echo(
            f"  input {role.name}{' (optional)' if role.optional else ''}: {kinds}{', any number' if role.many else ''}"
        )
    schema = operation.parameters.model_json_schema()
    required = set(schema.get("required", []))
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else f"default {json.dumps(field.get('default'))}"
        click.echo(f"  {name} ({default}): {field.get('description', '')}")
    click.echo(f"\n  result: {promise_text(operation.promise)}; backends: {', '.join(operation.backends)}")


def _coloured(outcome: str, width: int) -> str:
    return click.style(f"{outcome:>{width}}", fg=_COLOURS.get(outcome))


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    text = str(value)
    return text[:12] if len(text) == 64 and " " not in text else text
