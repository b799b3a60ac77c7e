"""The catalogue of operations: contracts and pure functions, layer in, layer out, by theme.

`operations` maps each name to its operation; third parties add theirs by the entry point group `geocairn.operations`.
Importing this package loads neither geopandas nor shapely.
"""

from geocairn.operations.contract import Operation, Promise, Role, implements, operation
from geocairn.operations.registry import operations

__all__ = ["Operation", "Promise", "Role", "implements", "operation", "operations"]
