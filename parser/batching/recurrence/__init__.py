"""Recurrent networks as graphs of layers, in which only cycles run frame by frame (Hwang & Sung 2015).

`layer_graph` defines networks and finds their sequential parts, `weights` holds the parameters, `unrolled`
runs a network over streams, and `examples` contains well-known networks. As in the paper, errors are
gradients of the loss with respect to the values of layers.
"""

from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph, components
from parser.batching.recurrence.unrolled import Unrolled
from parser.batching.recurrence.weights import Weights

__all__ = ["Connection", "Layer", "LayerGraph", "Unrolled", "Weights", "components"]
