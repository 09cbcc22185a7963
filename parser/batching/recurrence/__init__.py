"""Recurrent networks as graphs of layers, in which only cycles run frame by frame (Hwang & Sung 2015).

`layer_graph` defines networks, `components` finds their sequential parts, `weights` holds the parameters,
`unrolled` runs a network over streams, and `examples` has well-known networks. Errors are gradients of the
loss with respect to the values of layers, as in the paper.
"""
