"""What an error of the geometry engine (GEOS, as shapely raises it) means: the data is at fault, or memory ran out.

What always holds: running out of memory is never laid at the data's door, so that recovery goes on to another backend
and nobody is asked to mend what is sound.
"""

from __future__ import annotations

from geocairn.failure import CapabilityFailure, Failure, InputFailure

_OUT_OF_MEMORY = "bad_alloc"


def engine_failure(error: Exception, what: str, where: str = "", remedy: str = "") -> Failure:
    """Return the failure that an error of the engine stands for.

    Parameters
    ----------
    error : as the engine raised it.
    what, where, remedy : of the input failure, if it is one.
    """
    if _OUT_OF_MEMORY in str(error):
        return CapabilityFailure(
            f"the geometry engine ran out of memory ({error})",
            where=where,
            remedy="give the process more memory, or use a backend that computes batch by batch (duckdb)",
        )
    return InputFailure(what, where, remedy)
