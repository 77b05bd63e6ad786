"""Places for work: no more of it at a time than there are, each in its turn, and more as soon as there are more."""

import threading
from collections.abc import Callable

import pytest

from mirror.places import Places
from tests.processes import until


def at_work(places: Places, done: list[int], number: int) -> tuple[threading.Thread, Callable[[], None]]:
    """A thread that works in its place until it is told to leave."""
    leave = threading.Event()

    def work() -> None:
        with places:
            done.append(number)
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, leave.set


def test_work_begins_in_the_order_of_asking_one_at_a_time() -> None:
    places, begun = Places(lambda: 1), list[int]()
    workers = []
    for number in range(4):
        workers.append(at_work(places, begun, number))
        until(lambda: len(places._waiting) + len(begun) == len(workers))
    assert begun == [0]
    for number, (thread, leave) in enumerate(workers):
        assert len(begun) <= number + 1
        leave()
        thread.join(10)
    assert begun == [0, 1, 2, 3]


def test_who_gives_up_waiting_holds_up_nobody() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    size, begun = [interrupted], list[int]()
    places = Places(lambda: size[0]())
    with pytest.raises(KeyboardInterrupt), places:
        pass
    size[0] = lambda: 1
    thread, leave = at_work(places, begun, 1)
    leave()
    thread.join(10)
    assert begun == [1]


def test_who_waits_gets_a_place_that_the_moment_adds() -> None:
    most, begun = [1], list[int]()
    places = Places(lambda: most[0])
    workers = [at_work(places, begun, number) for number in range(3)]
    until(lambda: len(places._waiting) == 2)
    most[0] = 3
    until(lambda: len(begun) == 3)
    most[0] = 1
    for thread, leave in workers:
        leave()
        thread.join(10)
    with places:
        assert places._taken == 1
