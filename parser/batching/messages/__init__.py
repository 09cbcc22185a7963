"""Asynchronous model-parallel training (AMPNet, Gaunt et al. 2017): a static graph of nodes with messages.

Control flow is in the messages' states: a loop is an edge back, a branch a node that routes by the state, and
many instances are on their way at the same time. Nothing here knows what a graph is for.
"""
