"""How does a function run in another process?

One process serves one function, sent once; each call sends an argument and waits for the result. Arrays travel as raw
bytes beside the pickle, without a copy on the way in. An exception comes back with the user's own traceback as its
cause. A process that dies is noticed at once, and every wait has a deadline.

Processes are spawned: they inherit no lock, no thread and no open file of the training process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from headrace.errors import DeadlineError, InputError, WorkerError
from headrace.runtime.work import RemoteTraceback, sendable

OTHERWISE = (
    "use workers_kind='threads' if several threads may call it at once, or work in the loop (workers=0, or "
    "num_workers=0 of torch's DataLoader)"
)


def pack(function: Callable[[Any], Any], *, what: str) -> bytes:
    """A function as bytes for another process."""
    try:
        return pickle.dumps(function, protocol=5)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({error}): define it at the top of a module (no lambda, no "
            f"local function, nothing that holds an open file), or {OTHERWISE}"
        ) from error


class Remote:
    """One worker process that serves one packed function."""

    def __init__(self, packed: bytes, *, method: str = "spawn") -> None:
        context: Any = multiprocessing.get_context(method)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="headrace-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._packed: bytes | None = packed

    def call(self, argument: Any, *, timeout: float, what: str) -> Any:
        """The function's result for this argument; raises what it raised."""
        try:
            if self._packed is not None:
                self._connection.send_bytes(self._packed)
                self._packed = None
            _send(self._connection, _encode(argument))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._died(what) from error
        self._wait(timeout, what)
        try:
            kind, value, text = _receive(self._connection)
        except (EOFError, ConnectionResetError) as error:
            raise self._died(what) from error
        if kind == "value":
            return value
        value.__cause__ = RemoteTraceback(text)
        raise value

    def _wait(self, timeout: float, what: str) -> None:
        ready = wait([self._connection, self._process.sentinel], timeout)
        if self._connection in ready:
            return
        if ready:
            raise self._died(what)
        raise DeadlineError(f"worker process {self._process.pid} did not finish {what} within timeout={timeout:g} s")

    def _died(self, what: str) -> WorkerError:
        self._process.join(1.0)
        code = self._process.exitcode
        how = "ended" if code is None else f"was killed by {_signal(-code)}" if code < 0 else f"exited with code {code}"
        return WorkerError(
            f"worker process {self._process.pid} {how} during {what}; it may have run out of memory (dmesg), or the "
            "script lacks `if __name__ == '__main__':` around its start, which processes need"
        )

    def close(self) -> None:
        """End the process; safe to call from any thread and more than once."""
        self._process.kill()

    def join(self, timeout: float) -> bool:
        """Reap the process; False if it did not end in time."""
        self._process.join(timeout)
        if self._process.is_alive():
            return False
        self._connection.close()
        return True


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _encode(value: Any) -> list[Any]:
    """A value as messages: the sizes of its arrays, its pickle, and the arrays' own bytes."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    return [pickle.dumps([raw.nbytes for raw in raws]), head, *(raw for raw in raws if raw.nbytes)]


def _send(connection: Connection, messages: list[Any]) -> None:
    for message in messages:
        connection.send_bytes(message)


def _receive(connection: Connection) -> Any:
    sizes = pickle.loads(connection.recv_bytes())
    head = connection.recv_bytes()
    buffers = [np.empty(size, np.uint8) for size in sizes]
    for buffer in buffers:
        if len(buffer):
            connection.recv_bytes_into(buffer)
    return pickle.loads(head, buffers=buffers)


def _serve(connection: Connection) -> None:
    # Ctrl-C goes to the whole process group; the training process decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    function: Any
    try:
        function = pickle.loads(connection.recv_bytes())
    except EOFError:
        return
    except Exception as error:
        function = InputError(
            f"what was sent to the worker process cannot be loaded there ({type(error).__name__}: {error}): define it "
            f"in a module that can be imported (not in a notebook or at a prompt), or {OTHERWISE}"
        )
    # Either end may go first: the training process is killed, or it closed this worker.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            _send(connection, _answer(function, _receive(connection)))


def _answer(function: Any, argument: Any) -> list[Any]:
    try:
        if isinstance(function, Exception):
            raise function
        return _encode(("value", function(argument), ""))
    except Exception as error:
        return _encode(("error", sendable(error), traceback.format_exc()))
