"""The process that owns a nats-server: it starts one, and stops it after the last member.

A script, run by path with ``python -I -S`` so that it is up in milliseconds:
``supervisor.py DIRECTORY BINARY LIFECYCLE MEMBERS SUPERVISOR SERVER``.
"""

# The last four arguments are file descriptors of lock files. SUPERVISOR and SERVER arrive locked:
# the kernel frees SUPERVISOR when this process ends, and SERVER, which nats-server inherits, when
# both have ended. Standard error is the server's log.
#
# Three signals are blocked and waited for, so that none comes too early:
#
# 1. SIGTERM, from outside or from the thread that waits for the last member: stop the server.
# 2. SIGCHLD, nats-server ended: end too. The next member that notices starts both again.
# 3. SIGALRM, every second: look for two faults that nats-server does not recover from by itself.
#    a. The data directory was removed: kill the server, which would go on in deleted files.
#    b. The disk was full, or failed once, and takes writes again: stop the server, which goes on
#       refusing them; the members start another.
#
# server.json and server.pid are removed at the end, unless members shall start the same server
# again: after 2, if it was killed, and after 3b.

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

STOP_GRACE = 5.0
"""Seconds that nats-server has to end by itself before it is killed. With fsync nothing is lost."""

LOOK_EVERY = 1.0
"""Seconds between two looks for the faults that nats-server does not recover from."""

SPACE_NEEDED = 8 * 1024 * 1024
"""Bytes that a disk must take again before the server is restarted: the largest message."""

DISK_FAILS = [
    os.strerror(code).lower().encode() for code in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
]
"""How nats-server's log says that a write failed, once for each append that it refuses."""

AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM}


def say(message: str) -> None:
    """Write one line to the log, in the form of nats-server's own lines."""
    stamp = time.strftime("%Y/%m/%d %H:%M:%S")
    with suppress(OSError):  # a full disk
        os.write(2, f"[{os.getpid()}] {stamp} [SUP] {message}\n".encode())


def start_server(argv: list[str]) -> int:
    """Run nats-server in a child that dies with this process (on Linux); return its pid."""
    prctl: Callable[[int, int], object] | None = None
    if sys.platform == "linux":
        import ctypes  # loaded before the fork: a child should not import

        prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # a SIGTERM since the fork acts now
        pr_set_pdeathsig = 1
        if prctl is not None:
            prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() == parent:  # else it died before the call above, which then came too late
            write_pid()
            os.execv(argv[0], argv)
    except OSError as error:
        say(f"{error.strerror}: {error.filename}")
    finally:
        os._exit(127)


def write_pid() -> None:
    """Write this process's id to ``server.pid``."""
    try:
        with open("server.pid.new", "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        os.replace("server.pid.new", "server.pid")
    except OSError as error:  # a full disk: the server matters more than the note
        say(f"{error.strerror}: server.pid")


def disk_takes_writes() -> bool:
    """Whether the largest message could be stored now. By trying: quotas count, too."""
    try:
        fd = os.open("space.probe", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            block = bytes(1024 * 1024)
            written = sum(os.write(fd, block) for _ in range(SPACE_NEEDED // len(block)))
            os.fsync(fd)
        finally:
            os.close(fd)
            os.unlink("space.probe")
    except OSError:
        return False
    return written == SPACE_NEEDED


def wait_for_members_to_end(lifecycle: int, members: int) -> None:
    """Wait until no member is alive and none can join any more, then send this process SIGTERM.

    Both locks stay taken until the process has ended.
    """
    while True:
        fcntl.flock(members, fcntl.LOCK_EX)  # granted when the last member is gone
        fcntl.flock(members, fcntl.LOCK_UN)
        fcntl.flock(lifecycle, fcntl.LOCK_EX)  # nobody joins from here on
        try:
            fcntl.flock(members, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a member joined in between
            fcntl.flock(lifecycle, fcntl.LOCK_UN)
        else:
            os.kill(os.getpid(), signal.SIGTERM)
            return


class Supervisor:
    """The parent of one nats-server. `members` is the lock file that members hold."""

    def __init__(self, server: int, members: int) -> None:
        self._server = server  # the pid; 0 once it has ended
        self._members = members
        self._comes_again = False
        self._log_read_to = os.fstat(2).st_size
        self._disk_failed = False

    def run(self) -> None:
        """Keep the server running until one of the ends above."""
        signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
        while (number := signal.sigwait(AWAITED)) != signal.SIGTERM:
            if (code := self._exit_code()) is not None:
                say(f"nats-server ended with {code}")
                self._comes_again = code < 0
                return
            if number == signal.SIGALRM and self._directory_was_removed():
                say("the data directory was removed; nats-server is killed")
                os.kill(self._server, signal.SIGKILL)
                return
            if number == signal.SIGALRM and self._disk_takes_writes_again():
                say("the disk takes writes again; nats-server is started anew")
                self._comes_again = True
                return

    def stop(self) -> None:
        """Stop the server, if it runs, and remove the files that say how to reach it."""
        if self._server:
            os.kill(self._server, signal.SIGTERM)
            deadline = time.monotonic() + STOP_GRACE
            while self._exit_code() is None:
                if time.monotonic() >= deadline:
                    say(f"nats-server did not stop within {STOP_GRACE:g} s and is killed")
                    os.kill(self._server, signal.SIGKILL)
                    os.waitpid(self._server, 0)
                    break
                time.sleep(0.002)
        if not self._comes_again and not self._directory_was_removed():
            for name in ("server.pid", "server.json"):
                with suppress(FileNotFoundError):
                    os.unlink(name)

    def _exit_code(self) -> int | None:
        """Reap the server if it has ended: its exit code, negative for a signal; else None."""
        done, status = os.waitpid(self._server, os.WNOHANG)
        if not done:
            return None
        self._server = 0
        return os.waitstatus_to_exitcode(status)

    def _disk_takes_writes_again(self) -> bool:
        """Whether the log says that a write failed, and the disk takes writes now."""
        size = os.fstat(2).st_size
        if size != self._log_read_to:
            tail = os.pread(2, 65536, max(self._log_read_to, size - 65536)).lower()
            self._disk_failed = self._disk_failed or any(text in tail for text in DISK_FAILS)
            self._log_read_to = size
        return self._disk_failed and disk_takes_writes()

    def _directory_was_removed(self) -> bool:
        """Whether the lock files are deleted; there may be another directory of the same name."""
        return os.fstat(self._members).st_nlink == 0


def main(argv: list[str]) -> None:
    """Detach from the starter and supervise."""
    if os.fork():
        os._exit(0)  # the starter waits for this one; init reaps the other
    directory, binary = argv[:2]
    lifecycle, members, supervisor_lock, _ = map(int, argv[2:])
    for private in (lifecycle, members, supervisor_lock):
        os.set_inheritable(private, False)  # nats-server inherits the server's lock only
    os.chdir(directory)
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, AWAITED)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems drop it while it has no handler
    supervisor = Supervisor(start_server([binary, "-c", "nats.conf"]), members)
    try:
        # Not before the fork, which would be unsafe with a second thread.
        _thread.start_new_thread(wait_for_members_to_end, (lifecycle, members))
        supervisor.run()
    finally:
        supervisor.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
