"""Processor time and peak memory of a run."""

import ctypes
import multiprocessing
import subprocess
import sys
import time
import traceback

LINUX = sys.platform == "linux"
# A small process that starts the command and waits for it. If the driver waited for it, its peak would be at least that of
# the driver, because Linux counts the memory of a process before `exec` as its own.
LAUNCHER = """
import os, sys
child = os.fork() or os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(child, 0)
print(f"\\n{used.ru_utime + used.ru_stime} {used.ru_maxrss}", end="", file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


def run(command):
    """A command that has ended, its seconds of processor time, and the peak memory of its whole process in MB."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER]
    done = subprocess.run([*launcher, *command], capture_output=True, text=True, check=False)
    done.stderr, _, used = done.stderr.rpartition("\n")
    seconds, peak = used.split()
    return done, float(seconds), megabytes(int(peak)) if LINUX else None


def alone(work):
    """What `work` returns in a forked child. Its memory is its own there, and it leaves none to the next run."""

    def target():
        try:
            writer.send(work())
        except Exception as failure:
            failure.add_note(traceback.format_exc())
            writer.send(failure)

    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=target)
    child.start()
    writer.close()
    try:
        found = reader.recv()
    finally:
        child.join()
    if isinstance(found, Exception):
        raise found
    return found


class Meter:
    """Adds up the processor time that is spent inside `with`, and keeps the peak of the memory there.

    Memory is counted above what the process had when the meter was made: neither the interpreter, nor libraries, nor the
    records of the world. Pages of files are left out, because they are those of libraries.
    """

    def __init__(self):
        self.seconds = 0.0
        self.least = self.most = settled()["RssAnon"] if LINUX else None

    def __enter__(self):
        if LINUX:
            settled()
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # The peak is the present from here on.
        self.begin = time.process_time()

    def __exit__(self, *_):
        self.seconds += time.process_time() - self.begin
        if LINUX:
            now = status()
            self.most = max(self.most, now["RssAnon"], now["VmHWM"] - now["RssFile"] - now["RssShmem"])

    def used(self):
        """The fields of a result."""
        return {"cpu": self.seconds, "mb": megabytes(self.most - self.least) if LINUX else None}


def settled():
    """The status after freed memory was given back, as far as the C library can do so."""
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)
    return status()


def status():
    """Sizes of this process in units of 1,024 bytes."""
    with open("/proc/self/status") as file:
        fields = [line.split() for line in file]
    return {name.rstrip(":"): int(rest[0]) for name, *rest in fields if rest[-1:] == ["kB"]}


def megabytes(kibibytes):
    return kibibytes * 1024 / 1e6


LIBC = ctypes.CDLL(None)
