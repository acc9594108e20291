"""The threads that all sessions of the process share, if they were asked for."""

from __future__ import annotations

_sizes: list[int] = []


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Let sessions share this number of threads; they must not ask for threads of their own.

    Args:
        intra_op_num_threads: Threads that work on one node; 0 is one for each core.
        inter_op_num_threads: Threads that work on different nodes; here there is one.

    Raises:
        ValueError: A number is negative.
    """
    if intra_op_num_threads < 0 or inter_op_num_threads < 0:
        raise ValueError(
            f"{min(intra_op_num_threads, inter_op_num_threads)} threads; expected at least 0"
        )
    _sizes[:] = [intra_op_num_threads]


def size() -> int:
    """The number of shared threads; 0 if sessions have their own, or one for each core."""
    return _sizes[0] if _sizes else 0


def expect_agreement(per_session: bool) -> None:
    """Refuse a session that asks for its own threads where they are shared, or the other way round.

    Raises:
        RuntimeError: It does.
    """
    if per_session and _sizes:
        raise RuntimeError(
            "sessions share threads since set_global_thread_pool_sizes; "
            "set use_per_session_threads = False in the options of the session"
        )
    if not per_session and not _sizes:
        raise RuntimeError(
            "use_per_session_threads is False; call set_global_thread_pool_sizes first"
        )
