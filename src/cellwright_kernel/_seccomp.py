"""A filter of system calls, assembled here for x86_64 and aarch64.

Denied is what reaches the kernel's own machinery and no notebook needs: namespaces, mounts, tracing, keys, BPF,
io_uring, clocks, modules; and System V's memory, messages and semaphores and POSIX's queues, which count against no
limit of a process, outlive it, and without an IPC namespace are those of the user's other programs. A denied call
fails with an error that code can catch; it does not end the process.

In a sandbox one call about namespaces is left to whoever is traced, ``setns``: a fork of a kernel goes into a sandbox below with it
(see ``_nested_sandboxes``), where it has every power at first, and the tracer lets go of it once it has none.
What powers could be used for is denied to all the same: mounts and more namespaces above, the network's own machinery
below.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from cellwright_kernel._syscalls import ARCHITECTURE, UnsupportedArchitecture, invoke

__all__ = ["install", "program"]

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000

# Name, x86_64, aarch64; -1 where an architecture never had it. From 424 on both have the same.
DENIED = """
unshare 272 97|mount 165 40|umount2 166 39|pivot_root 155 41|chroot 161 51|ptrace 101 117
process_vm_readv 310 270|process_vm_writev 311 271|kcmp 312 272|bpf 321 280|perf_event_open 298 241
userfaultfd 323 282|keyctl 250 219|add_key 248 217|request_key 249 218|kexec_load 246 104
kexec_file_load 320 294|init_module 175 105|finit_module 313 273|delete_module 176 106|create_module 174 -1
open_by_handle_at 304 265|name_to_handle_at 303 264|quotactl 179 60|swapon 167 224|swapoff 168 225
reboot 169 142|settimeofday 164 170|clock_settime 227 112|adjtimex 159 171|clock_adjtime 305 266
acct 163 89|fanotify_init 300 262|syslog 103 116|vhangup 153 58|sethostname 170 161|setdomainname 171 162
mknod 133 -1|mknodat 259 33|iopl 172 -1|ioperm 173 -1|modify_ldt 154 -1|uselib 134 -1|ustat 136 -1
sysfs 139 -1|_sysctl 156 -1|nfsservctl 180 42|lookup_dcookie 212 18|move_pages 279 239
migrate_pages 256 238|vmsplice 278 75|memfd_create 319 279
shmget 29 194|shmat 30 196|shmctl 31 195|shmdt 67 197|semget 64 190|semop 65 193|semctl 66 191|semtimedop 220 192
msgget 68 186|msgsnd 69 189|msgrcv 70 188|msgctl 71 187|mq_open 240 180|mq_unlink 241 181
io_uring_setup 425 425|io_uring_enter 426 426|io_uring_register 427 427|open_tree 428 428
move_mount 429 429|fsopen 430 430|fsconfig 431 431|fsmount 432 432|fspick 433 433|pidfd_getfd 438 438
process_madvise 440 440|mount_setattr 442 442|quotactl_fd 443 443|memfd_secret 447 447
statmount 457 457|listmount 458 458|open_tree_attr 467 467
"""
SETNS = (308, 268)
# Calls whose arguments decide, each with its number on both.
EXAMINED = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "mmap": (9, 222),
    "ioctl": (16, 29),
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "personality": (135, 92),
    "fallocate": (285, 47),
    "setsockopt": (54, 208),
    "getsockopt": (55, 209),
}
SOL_IP, SOL_TCP, SOL_IPV6 = 0, 6, 41
# Options that only the network's owner may use: filters (from 64 on in version 4), IPsec's policies, repairing.
OWNERS_OPTIONS = {SOL_IP: (16, 17), SOL_TCP: (19,), SOL_IPV6: (34, 35, 64, 65, 68, 69)}
FILTERS = 64
# Requests about routes and devices, and those among them that only ask: fine where the network is one's own.
FIRST_DEVICE_REQUEST, AFTER_DEVICE_REQUESTS = 0x890B, 0x8A00
ASKING = (0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D, 0x8921, 0x8927, 0x8933, 0x8942)
# Without a mount namespace: calls by path that Landlock does not see. They succeed and change nothing, because a copy
# that cannot set a time would fail altogether. What goes by descriptor works, and outside no file can be opened.
WITHOUT_EFFECT = """
chmod 90 -1|fchmodat 268 53|fchmodat2 452 452|chown 92 -1|lchown 94 -1|fchownat 260 54
utime 132 -1|utimes 235 -1|futimesat 261 -1
"""
UNSUPPORTED = "setxattr 188 5|lsetxattr 189 6|removexattr 197 14|lremovexattr 198 15|setxattrat 463 463|removexattrat 466 466|file_setattr 469 469"
# Without a pid namespace: calls that name a process, where only one's own (0) is nobody else's; the argument's place.
NAMING_A_PROCESS = {
    "prlimit64": (302, 261, 0),
    "setpriority": (141, 140, 1),
    "ioprio_set": (251, 30, 1),
    "sched_setaffinity": (203, 122, 0),
    "sched_setscheduler": (144, 119, 0),
    "sched_setparam": (142, 118, 0),
    "sched_setattr": (314, 274, 0),
}
UTIMENSAT = (280, 88)
# Landlock sees neither: watching a directory is no opening, and a name that is no path has no directory.
WATCHING = "inotify_init 253 -1|inotify_init1 294 26"
LISTENING = "bind 49 200|listen 50 201"
PIDFD_OPEN = (434, 434)
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN, AND = 0x20, 0x15, 0x45, 0x35, 0x06, 0x54
ALLOW, ASK_TRACER, KILL = 0x7FFF0000, 0x7FF00000, 0x80000000
NUMBER, ARCH, ARGUMENTS = 0, 4, 16
NAMESPACE_FLAGS = 0x7E020000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SET_ID_BITS = 0o6000
SHARED_ANONYMOUS = 0x21
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_TYPE_MASK = 1, 2, 3, 0xF
SECCOMP_SET_MODE_FILTER, TSYNC = 1, 1

Instruction = tuple[int, int, int, int]


def install(*, local_network: bool, listens: bool = True, shares_memory: bool = True) -> None:
    """Filter every system call of this process and of whatever it starts, for good."""
    code = program(ARCHITECTURE, local_network=local_network, listens=listens, shares_memory=shares_memory)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    invoke("seccomp", SECCOMP_SET_MODE_FILTER, TSYNC, ctypes.create_string_buffer(header, len(header)))


def program(
    architecture: str, *, local_network: bool, listens: bool = True, shares_memory: bool = True
) -> bytes:
    """The filter in the kernel's own code.

    With ``local_network`` the process has a network namespace, in which it may do as it likes; without, it may only
    have unix stream sockets and may connect to nothing, and unless it ``listens`` nobody outside connects to it. Unless it
    ``shares_memory`` it shares none but that of files: what is in no file and not mapped just now no process has, for
    whoever counts from outside.
    """
    if architecture not in AUDIT:
        raise UnsupportedArchitecture(f"no system call filter for {architecture}")
    column = list(AUDIT).index(architecture)
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCH),
        (EQUAL, 1, 0, AUDIT[architecture]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if architecture == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), _error(errno.ENOSYS)]
    code += _refused(DENIED, column, errno.EPERM)
    # Where nobody traces the caller there is no such call.
    code += _on(SETNS[column], [(RETURN, 0, 0, ASK_TRACER) if local_network else _error(errno.EPERM)])
    if not local_network:
        code += _among_others(column)
        code += _refused("" if listens else LISTENING, column, errno.EPERM)
    examined = {name: numbers[column] for name, numbers in EXAMINED.items()}
    code += _examinations(examined, local_network=local_network)
    if not shares_memory:
        unnamed = [(AND, 0, 0, SHARED_ANONYMOUS), (EQUAL, 0, 1, SHARED_ANONYMOUS), _error(errno.EPERM)]
        code += _on(examined["mmap"], _argument(3, unnamed))
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _among_others(column: int) -> list[Instruction]:
    """What takes the place of the namespaces that there are not."""
    code = _refused(WITHOUT_EFFECT, column, 0)
    code += _refused(UNSUPPORTED, column, errno.EOPNOTSUPP)
    code += _refused(WATCHING, column, errno.EPERM)
    # As on a system that has none: libraries then wait for their children in another way.
    code += _on(PIDFD_OPEN[column], [_error(errno.ENOSYS)])
    # Without a path (both halves of the pointer zero) it is about a descriptor.
    path = ARGUMENTS + 8
    by_path = [(LOAD, 0, 0, path), (EQUAL, 0, 2, 0), (LOAD, 0, 0, path + 4), (EQUAL, 1, 0, 0), _error(0)]
    code += _on(UTIMENSAT[column], [*by_path, (LOAD, 0, 0, NUMBER)])
    for name, numbers in NAMING_A_PROCESS.items():
        # libzmq ends the process when scheduling its threads is refused: it is told that it was done.
        own = [(EQUAL, 1, 0, 0), _error(0 if name.startswith("sched_") else errno.EPERM)]
        code += _on(numbers[column], _argument(numbers[2], own))
    return code


def _examinations(numbers: dict[str, int], *, local_network: bool) -> list[Instruction]:
    # clone3 keeps its flags behind a pointer that a filter cannot follow; without it the C library uses clone.
    code = _on(numbers["clone3"], [_error(errno.ENOSYS)])
    code += _on(numbers["clone"], _argument(0, [(ANY_BIT, 0, 1, NAMESPACE_FLAGS), _error(errno.EPERM)]))
    code += _on(numbers["socket"], _socket(local_network=local_network))
    if not local_network:
        code += _on(numbers["connect"], [_error(errno.EPERM)])
        # A datagram socket of a pair can still send to any socket that has a path.
        pair = [(AND, 0, 0, SOCK_TYPE_MASK), (EQUAL, 0, 1, SOCK_DGRAM), _error(errno.EPERM)]
        code += _on(numbers["socketpair"], _argument(1, pair))
    else:
        for name in ("setsockopt", "getsockopt"):
            code += _on(numbers[name], _owners_options())
    typing = [(EQUAL, 1, 0, TIOCSTI), (EQUAL, 0, 1, TIOCLINUX), _error(errno.EPERM)]
    code += _on(numbers["ioctl"], _argument(1, [*typing, *_device_requests(ASKING if local_network else ())]))
    for name, position in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        code += _on(numbers[name], _argument(position, [(ANY_BIT, 0, 1, SET_ID_BITS), _error(errno.EPERM)]))
    # Reserving takes no time, so that a watched quota would come too late; libraries then write instead.
    code += _on(numbers["fallocate"], [_error(errno.EOPNOTSUPP)])
    # Asking which personality (all ones) and the plain one are fine; others switch protections off.
    asked = [(EQUAL, 2, 0, 0xFFFFFFFF), (EQUAL, 1, 0, 0), _error(errno.EPERM)]
    return code + _on(numbers["personality"], _argument(0, asked))


def _owners_options() -> list[Instruction]:
    body: list[Instruction] = []
    for level, options in OWNERS_OPTIONS.items():
        denied: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS + 16)]
        for option in options:
            denied += [(EQUAL, 0, 1, option), _error(errno.EPERM)]
        if level == SOL_IP:
            denied += [(AT_LEAST, 0, 1, FILTERS), _error(errno.EPERM)]
        body += [(LOAD, 0, 0, ARGUMENTS + 8), (EQUAL, 0, len(denied), level), *denied]
    return [*body, (LOAD, 0, 0, NUMBER)]


def _device_requests(allowed: tuple[int, ...]) -> list[Instruction]:
    """Refuse requests about network devices: any socket passes them on, one of a pair too."""
    asking: list[Instruction] = [
        (EQUAL, len(allowed) - place, 0, request) for place, request in enumerate(allowed)
    ]
    # What a device without the feature would answer.
    body: list[Instruction] = [*asking, _error(errno.EOPNOTSUPP)]
    body = [(AT_LEAST, len(body), 0, AFTER_DEVICE_REQUESTS), *body]
    return [(AT_LEAST, 0, len(body), FIRST_DEVICE_REQUEST), *body]


def _socket(*, local_network: bool) -> list[Instruction]:
    families = (AF_UNIX, AF_INET, AF_INET6) if local_network else (AF_UNIX,)
    body: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS)]
    body += [(EQUAL, len(families) - place, 0, family) for place, family in enumerate(families)]
    # libzmq ends the process on any other answer when it looks for network devices.
    body.append(_error(errno.EOPNOTSUPP))
    body += [(LOAD, 0, 0, ARGUMENTS + 8), (AND, 0, 0, SOCK_TYPE_MASK)]
    if local_network:
        body += [(EQUAL, 0, 1, SOCK_RAW), _error(errno.EPERM)]
    else:
        body += [(EQUAL, 1, 0, SOCK_STREAM), _error(errno.EPERM)]
    return [*body, (LOAD, 0, 0, NUMBER)]


def _argument(position: int, body: list[Instruction]) -> list[Instruction]:
    return [(LOAD, 0, 0, ARGUMENTS + 8 * position), *body, (LOAD, 0, 0, NUMBER)]


def _refused(calls: str, column: int, code: int) -> list[Instruction]:
    found: list[Instruction] = []
    for line in filter(None, calls.replace("\n", "|").split("|")):
        found += _on(int(line.split()[1 + column]), [_error(code)])
    return found


def _on(number: int, body: list[Instruction]) -> list[Instruction]:
    return [(EQUAL, 0, len(body), number), *body] if number >= 0 else []


def _error(code: int) -> Instruction:
    return (RETURN, 0, 0, 0x00050000 | code)
