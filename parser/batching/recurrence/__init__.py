"""Recurrent networks as graphs of layers, of which only the cycles run frame by frame (Hwang & Sung 2015).

`graph` says what a network is, `components` what of it is sequential, `weights` keeps its parameters,
`unrolled` runs it over streams; `examples` has some well-known networks.
"""
