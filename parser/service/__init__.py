"""A service that parses over HTTP: UDPipe's REST protocol, and a typed one. Needs the extra `serve`."""
