"""The thread that reads requests, when a client goes away."""

import asyncio
import gc
from threading import Event

from parser.service.short_pauses import LARGE, SMALL, ReadingThreads


async def test_a_fault_in_the_text_of_a_client_that_has_gone_is_not_logged():
    """The message of the fault may quote the text."""
    begun, gone, logged = Event(), Event(), []

    def read():
        begun.set()
        gone.wait(60)
        raise ValueError("the user's text")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    thread = ReadingThreads()
    reading = asyncio.create_task(thread.run(SMALL + 1, read))
    await asyncio.to_thread(begun.wait, 60)
    reading.cancel()
    await asyncio.sleep(0)
    gone.set()
    await asyncio.wait([reading])
    thread.close()
    assert reading.cancelled()
    del reading
    gc.collect()
    assert not logged


async def test_short_requests_do_not_wait_for_long_ones():
    begun, ends = Event(), Event()

    def read_long():
        begun.set()
        ends.wait(60)
        return "long"

    threads = ReadingThreads()
    long = asyncio.create_task(threads.run(LARGE, read_long))
    await asyncio.to_thread(begun.wait, 60)
    assert await threads.run(LARGE - 1, lambda: "short") == "short"
    ends.set()
    assert await long == "long"
    threads.close()
