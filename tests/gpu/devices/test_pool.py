"""The pool of freed memory, over a runtime that only counts."""

import pytest

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.pool import Pool, size_text


class Memory:
    def __init__(self, room=1 << 20):
        self.room = room
        self.taken = {}
        self.next = 1

    def take(self, size):
        if size + sum(self.taken.values()) > self.room:
            return None
        self.next += 1
        self.taken[self.next] = size
        return self.next

    def give(self, memory):
        del self.taken[memory]


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def pool(memory):
    return Pool("test:0", memory.take, memory.give, total=memory.room)


def test_what_is_freed_is_used_again(pool, memory):
    first = pool.allocate(1000)
    pool.free(first)
    assert pool.allocate(900).memory == first.memory
    assert len(memory.taken) == 1


def test_a_much_smaller_buffer_takes_memory_of_its_own(pool, memory):
    pool.free(pool.allocate(100_000))
    pool.allocate(1000)
    assert len(memory.taken) == 2


def test_the_buffer_that_fits_best_is_used(pool):
    sizes = (10_240, 11_264, 9_216)
    buffers = [pool.allocate(size) for size in sizes]
    for buffer in buffers:
        pool.free(buffer)
    assert pool.allocate(10_000).memory == buffers[0].memory
    assert pool.allocate(10_000).memory == buffers[1].memory


def test_bytes_in_use_are_those_asked_for(pool):
    a, b = pool.allocate(10), pool.allocate(0)
    assert (pool.in_use, pool.count, pool.taken) == (10, 2, 512)
    pool.free(a)
    pool.free(b)
    assert (pool.in_use, pool.count, pool.taken) == (0, 0, 512)
    pool.trim()
    assert pool.taken == 0


def test_idle_memory_makes_room(pool, memory):
    pool.free(pool.allocate(600_000))
    pool.allocate(900_000)
    assert len(memory.taken) == 1


def test_a_full_device_says_what_it_has(pool):
    pool.allocate(700_000)
    with pytest.raises(
        DeviceError,
        match=r"test:0 is out of memory: 488 KiB asked for, with 684 KiB in use in 1 buffer; "
        r"the device has 1 MiB\. Free builds",
    ):
        pool.allocate(500_000)
    assert pool.in_use == 700_000


def test_no_more_is_taken_than_may_be(memory):
    pool = Pool("test:0", memory.take, memory.give, capacity=1024)
    pool.allocate(800)
    with pytest.raises(DeviceError, match="the device has 1 KiB"):
        pool.allocate(300)


@pytest.mark.parametrize(
    ("bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (3 << 30, "3 GiB"),
        (1 << 44, "16 TiB"),
    ],
)
def test_sizes_are_written_for_people(bytes, text):
    assert size_text(bytes) == text


def test_a_negative_size_is_refused(pool):
    with pytest.raises(DeviceError, match="cannot allocate -1 bytes"):
        pool.allocate(-1)


def test_a_finalizer_may_free_while_memory_is_taken(memory):
    def take(size):
        if taken:
            pool.free(taken.pop())
        return memory.take(size)

    taken = []
    pool = Pool("test:0", take, memory.give, total=memory.room)
    taken.append(pool.allocate(1000))
    pool.allocate(5000)
    assert (pool.in_use, pool.count) == (5000, 1)
    assert pool.allocate(1000).memory == 2
