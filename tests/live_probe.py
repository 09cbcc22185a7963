"""A program that asks a service whether it is live until its standard input ends, and prints the seconds.

It is a process of its own, so that it does not wait for other threads of the test.
"""

import sys
import threading
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

PAUSE = 0.01


def live(connection: HTTPConnection) -> bytes:
    """The answer. Raises HTTPException if the process that was asked has died."""
    connection.request("GET", "/live")
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise HTTPException(text)
    return text


def main(port: int) -> None:
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    while not ends.wait(PAUSE):
        began = time.monotonic()
        try:
            answer = live(connection)
        except (OSError, HTTPException):
            connection.close()
            answer = live(connection)
        print(time.monotonic() - began, flush=True)
        assert answer == b"live", answer


if __name__ == "__main__":
    main(int(sys.argv[1]))
