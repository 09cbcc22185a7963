"""Clients of the service's typed protocol, for programs on other machines. Needs the extra `client` alone.

Programs use the names below, see docs/service.md. `messages` has the types of requests and answers.
"""

from parser.system.version import naming_missing

with naming_missing("parser.client", "client"):
    from parser.client.clients import AsyncClient, Client
    from parser.client.errors import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
