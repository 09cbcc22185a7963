"""On-the-fly operation batching (Neubig, Goldberg & Dyer 2017).

The computation of single examples is recorded with `Graph`, one operation or one template at a time, and runs
in batches, by depth or by agenda. `StaticComputation` runs what is known in advance by level.
"""

from parser.batching.operations.cells import CellOperation
from parser.batching.operations.elementary_operations import Module
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
)
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticApplications, StaticComputation
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Values, Writer

__all__ = [
    "CellOperation",
    "Graph",
    "Module",
    "Operation",
    "OperationBatch",
    "OperationGradients",
    "ParameterGradients",
    "StaticApplications",
    "StaticComputation",
    "Template",
    "Value",
    "Values",
    "Writer",
    "concatenate_kept",
]
