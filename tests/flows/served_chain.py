"""Serves `run_chain` from a deployment, as somebody would: `python served_chain.py`."""

from __future__ import annotations

from prefect.flows import EntrypointType

from geocairn.flows.run_chain import run_chain

if __name__ == "__main__":
    run_chain.serve(name="asks", print_starting_message=False, entrypoint_type=EntrypointType.MODULE_PATH)
