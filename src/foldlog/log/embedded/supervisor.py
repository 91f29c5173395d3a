"""The process that owns a nats-server: starts it, restarts it, stops it after the last member.

A script, not a module of the package: it is run by path with ``python -I -S``, imports little, and
is told everything on its command line, so that it is up in milliseconds and needs no site-packages:

    supervisor.py DIRECTORY BINARY CONFIG PID_FILE DESCRIPTION LIFECYCLE MEMBERS SUPERVISOR SERVER

The first five are paths, the last four inherited file descriptors of lock files. SUPERVISOR and
SERVER arrive locked: the kernel frees SUPERVISOR when this process ends, and SERVER, which
nats-server inherits, when both have ended. One byte or the end of standard input says that the
server has been seen ready. What is printed goes to the server's log.

The supervisor is the parent of two processes and waits for whichever ends first: nats-server, and
a copy of itself that ends once no member is left. So there is no thread, with which forking would
be unsafe, and no polling. The two signals that matter are blocked and waited for, so that none
interrupts anything or comes too early to be seen: SIGCHLD, and SIGTERM, which stops the server in
order. On Linux the kernel kills both children when the supervisor dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

STOP_GRACE = 5.0
"""Seconds that nats-server has to end by itself before it is killed. With fsync nothing is lost."""

HEALTHY_AFTER = 10.0
"""A server that ran this many seconds is restarted at once when it dies."""

AWAITED = {signal.SIGCHLD, signal.SIGTERM}

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds before the second restart of a server that keeps dying; doubled up to the longest."""


def say(message: str) -> None:
    """Write one line to the log, in the form of nats-server's own lines."""
    stamp = time.strftime("%Y/%m/%d %H:%M:%S")
    print(f"[{os.getpid()}] {stamp} [SUP] {message}", file=sys.stderr, flush=True)  # noqa: T201


def load_prctl() -> Callable[[int, int], object]:
    """Return prctl(2) on Linux, elsewhere a function that does nothing."""
    if sys.platform != "linux":
        return lambda option, value: None
    import ctypes  # loaded before any fork: a child should not import

    return ctypes.CDLL(None).prctl


def fork(prctl: Callable[[int, int], object], body: Callable[[], None]) -> int:
    """Run `body` in a child that dies with this process (on Linux); return the child's pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 127
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # a SIGTERM since the fork acts now
        pr_set_pdeathsig = 1
        prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() == parent:  # else it died before the call above, which then came too late
            body()
            code = 0
    except OSError as error:
        say(f"{error.strerror}: {error.filename}")
    finally:
        os._exit(code)


def ended(pid: int) -> int | None:
    """Reap the child if it has ended: its exit code, negative for a signal; else None."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


class Supervisor:
    """One nats-server and the watch over its members; `run` returns the exit code."""

    def __init__(
        self, argv: list[str], pid_file: str, lifecycle: int, members: int, own: tuple[int, int]
    ) -> None:
        self._argv = argv
        self._pid_file = pid_file
        self._lifecycle = lifecycle
        self._members = members
        self._own = own
        self._prctl = load_prctl()
        self._server = self._watch = 0  # pids; 0 when there is none
        self._started = 0.0
        self._pause = 0.0
        self._confirmed = False

    def run(self) -> int:
        """Keep the server running until no member is left, or its first start fails."""
        try:
            self._start_server()
            self._start_watch()
            while signal.sigwait(AWAITED) != signal.SIGTERM:
                if (code := ended(self._watch)) is not None:
                    self._watch = 0
                    if code == 0:
                        return 0
                    say(f"the watch over the members ended with {code}; starting another")
                    self._start_watch()
                if (code := ended(self._server)) is not None:
                    self._forget_server()
                    if code >= 0 and self._starting():  # one that was killed may have been ready
                        say(f"nats-server ended with {code} before it was ready")
                        return 1
                    self._restart_server(code)
            return 0
        finally:
            self._stop()

    # --- the server ---------------------------------------------------------------------------

    def _start_server(self) -> None:
        def become_server() -> None:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execv(self._argv[0], self._argv)

        self._started = time.monotonic()
        self._server = fork(self._prctl, become_server)
        try:
            with open(self._pid_file + ".new", "w", encoding="ascii") as file:
                file.write(f"{self._server}\n")
            os.replace(self._pid_file + ".new", self._pid_file)
        except OSError as error:  # a full disk: the server matters more than the note
            say(f"{error.strerror}: {self._pid_file}")

    def _restart_server(self, code: int) -> None:
        if time.monotonic() - self._started >= HEALTHY_AFTER:
            self._pause = 0.0
        say(f"nats-server ended with {code}; starting it again in {self._pause:g} s")
        time.sleep(self._pause)
        self._pause = min(self._pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
        self._start_server()

    def _starting(self) -> bool:
        """Whether nobody has seen the server ready yet: its end is then a failed start."""
        if not self._confirmed:
            os.set_blocking(0, False)
            try:
                os.read(0, 1)
            except BlockingIOError:
                os.close(0)  # from here on the starter cannot believe that it was heard
                return True
            self._confirmed = True
        return False

    def _forget_server(self) -> None:
        self._server = 0
        with suppress(FileNotFoundError):
            os.unlink(self._pid_file)

    def _stop(self) -> None:
        if self._watch:
            os.kill(self._watch, signal.SIGKILL)
            os.waitpid(self._watch, 0)
        if self._server:
            os.kill(self._server, signal.SIGTERM)
            deadline = time.monotonic() + STOP_GRACE
            while ended(self._server) is None:
                if time.monotonic() >= deadline:
                    say(f"nats-server did not stop within {STOP_GRACE:g} s and is killed")
                    os.kill(self._server, signal.SIGKILL)
                    os.waitpid(self._server, 0)
                    break
                time.sleep(0.002)
            self._forget_server()

    # --- the members --------------------------------------------------------------------------

    def _start_watch(self) -> None:
        # The watch locks open file descriptions that it shares with this process, so that its
        # locks outlive it. One that was killed may have left them behind.
        fcntl.flock(self._members, fcntl.LOCK_UN)
        fcntl.flock(self._lifecycle, fcntl.LOCK_UN)
        self._watch = fork(self._prctl, self._wait_for_members_to_end)

    def _wait_for_members_to_end(self) -> None:
        """Return with both locks held once no member is alive and none can join any more."""
        for lock in self._own:
            os.close(
                lock
            )  # where nothing kills this child with its parent, they must not outlive it
        while True:
            fcntl.flock(self._members, fcntl.LOCK_EX)  # granted when the last member is gone
            fcntl.flock(self._members, fcntl.LOCK_UN)
            fcntl.flock(self._lifecycle, fcntl.LOCK_EX)  # nobody joins from here on
            try:
                fcntl.flock(self._members, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody joined in between
                fcntl.flock(self._lifecycle, fcntl.LOCK_UN)
            else:
                return


def main(argv: list[str]) -> int:
    """Detach from the starter, supervise, and leave nothing but the log and the data behind."""
    if os.fork():
        os._exit(0)  # the starter waits for this one; the other is nobody's zombie
    directory, binary, config, pid_file, description = argv[:5]
    lifecycle, members, supervisor_lock, server_lock = map(int, argv[5:])
    for private in (lifecycle, members, supervisor_lock):
        os.set_inheritable(private, False)  # nats-server inherits its own lock only
    os.chdir(directory)
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, AWAITED)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems drop it while it has no handler
    try:
        own = (supervisor_lock, server_lock)
        return Supervisor([binary, "-c", config], pid_file, lifecycle, members, own).run()
    finally:
        with suppress(FileNotFoundError):
            os.unlink(description)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
