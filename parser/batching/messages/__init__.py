"""Asynchronous model-parallel training (AMPNet, Gaunt et al. 2017): a static graph of nodes with messages.

Messages carry states that determine the control flow: a loop is a back edge, a branch is a node that routes
by the state. Many instances are in flight at the same time. Nothing here depends on the application.
"""
