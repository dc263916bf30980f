"""How errors are classed, by what is known of them: no kernel is asked here.

For errors of real kernels see ``tests.kernel.plans.test_failures``.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from cellwright.engine import Diagnosis
from cellwright.engine.introspection import Raised
from cellwright.kernels.processes import explain_exit
from cellwright.plans.error_classes import ERROR_CLASSES, ErrorClass, classify
from cellwright.plans.failures import Failure, Surroundings
from cellwright.sandbox import exit_reasons
from cellwright.sandbox.policy import Policy

POLICY = Policy(memory_bytes=1 << 30)


def raised(error: BaseException, **details: Any) -> Raised:
    """As a kernel would tell it."""
    kinds = [kind for kind in type(error).__mro__ if kind is not object]
    bases = tuple(
        kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        for kind in kinds
    )
    if isinstance(error, OSError) and error.errno is not None:
        details["errno"] = error.errno
    return Raised(type(error).__name__, str(error), bases, details)


def known(*roots: Raised, top: Raised | None = None, chain: tuple[Raised, ...] = (), **more: Any) -> Failure:
    reached = top or roots[0]
    diagnosis = Diagnosis(roots=roots, raised=reached, chain=chain)
    return Failure("code", "error", reached.type, reached.message, diagnosis=diagnosis, **more)


def bare(error_type: str, message: str = "a message", *, state: str = "error", **more: Any) -> Failure:
    return Failure("code", state, error_type, message, **more)


def named(failure: Failure) -> tuple[str, str]:
    verdict = classify(failure)
    assert verdict.suggestion
    assert "{" not in verdict.suggestion
    return verdict.name, verdict.kind


RECOVERABLE = [
    (NameError("name 'x' is not defined"), "name"),
    (UnboundLocalError("x"), "name"),
    (ImportError("cannot import name"), "import"),
    (ModuleNotFoundError("No module named 'x'"), "import"),
    (IndexError("list index out of range"), "index"),
    (KeyError("x"), "key"),
    (AttributeError("no attribute"), "attribute"),
    (TypeError("unsupported operand"), "type"),
    (ValueError("invalid literal for int()"), "value"),
    (FileNotFoundError(errno.ENOENT, "No such file"), "file"),
    (SyntaxError("invalid syntax"), "syntax"),
    (IndentationError("unexpected indent"), "syntax"),
    (TabError("inconsistent"), "syntax"),
    (ZeroDivisionError("division by zero"), "zero_division"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "encoding"),
    (AssertionError("the frame has no rows"), "assertion"),
    (RuntimeError("something else"), "other"),
]


@pytest.mark.parametrize(("error", "name"), RECOVERABLE, ids=lambda value: repr(value)[:40])
def test_what_code_can_mend_is_recoverable_whether_the_kernel_told_it_or_not(
    error: Exception, name: str
) -> None:
    assert named(known(raised(error))) == (name, "recoverable")
    assert named(bare(type(error).__name__, str(error))) == (name, "recoverable")


UNRECOVERABLE = [
    (MemoryError(), "memory"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
    (PermissionError(errno.EACCES, "Permission denied"), "refused"),
    (OSError(errno.EROFS, "Read-only file system"), "refused"),
    (OSError(errno.ENOSPC, "No space left on device"), "disk"),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk"),
    (SystemExit(1), "exit"),
    (KeyboardInterrupt(), "exit"),
    (ValueError(""), "unclear"),
    (RuntimeError("No API key found; set the variable"), "credentials"),
    (ValueError("Invalid credentials"), "credentials"),
    (RuntimeError("STOP: the totals do not agree"), "stop"),
]


@pytest.mark.parametrize(("error", "name"), UNRECOVERABLE, ids=lambda value: repr(value)[:40])
def test_what_no_code_can_mend_stops(error: BaseException, name: str) -> None:
    assert named(known(raised(error))) == (name, "unrecoverable")
    assert named(bare(type(error).__name__, str(error))) == (name, "unrecoverable")


@pytest.mark.parametrize("message", ["STOP", "STOP: look", "we must STOP here", "(STOP)", "'STOP'"])
def test_the_marker_stops_as_a_word_of_its_own(message: str) -> None:
    assert named(bare("ValueError", message)) == ("stop", "unrecoverable")


@pytest.mark.parametrize("message", ["stop", "STOPPED", "NONSTOP", "STOP_LOSS is 3", "NON-STOP", "Stop"])
def test_other_words_are_no_marker(message: str) -> None:
    assert named(bare("ValueError", message)) == ("value", "recoverable")


def test_the_marker_stops_wherever_it_is_in_the_chain() -> None:
    key, stop = raised(KeyError("x")), raised(ValueError("STOP"))
    assert named(known(key, chain=(stop,))) == ("stop", "unrecoverable")
    assert named(known(key, top=stop)) == ("stop", "unrecoverable")
    assert named(bare("KeyboardInterrupt", "STOP", state="timeout"))[0] == "stop"


def test_what_happened_on_the_way_counts_for_nothing_else() -> None:
    refused = raised(PermissionError(errno.EACCES, "Permission denied"))
    assert named(known(raised(KeyError("x")), chain=(refused,))) == ("key", "recoverable")
    assert named(known(raised(KeyError("x")), top=refused)) == ("key", "recoverable")


def test_of_several_roots_the_worst_decides() -> None:
    key, broken = raised(KeyError("x")), raised(ConnectionResetError("reset"))
    refused = raised(PermissionError(errno.EACCES, "Permission denied"))
    assert named(known(key, broken)) == ("network", "network")
    assert named(known(key, broken, refused)) == ("refused", "unrecoverable")
    assert named(known(refused, broken, key)) == ("refused", "unrecoverable")


NETWORK = [
    (("ConnectionRefusedError", "ConnectionError", "OSError"), "[Errno 111] Connection refused"),
    (("TimeoutError", "OSError"), "timed out"),
    (("socket.gaierror", "OSError"), "[Errno -2] Name or service not known"),
    (("urllib.error.URLError", "OSError"), "<urlopen error [Errno 111] Connection refused>"),
    (("http.client.IncompleteRead", "http.client.HTTPException"), "IncompleteRead(0 bytes read)"),
    (("ssl.SSLError", "OSError"), "UNEXPECTED_EOF_WHILE_READING"),
    (("requests.exceptions.ConnectTimeout", "requests.exceptions.ConnectionError"), "timed out"),
    (("httpx.ConnectError", "httpx.NetworkError", "httpx.TransportError"), "failed"),
    (("aiohttp.client_exceptions.ServerTimeoutError", "TimeoutError"), "timeout"),
    (("urllib3.exceptions.MaxRetryError", "urllib3.exceptions.HTTPError"), "Max retries exceeded"),
    (("urllib.error.HTTPError", "urllib.error.URLError"), "HTTP Error 503: Service Unavailable"),
    (("psycopg.OperationalError",), "connection to server failed: Connection refused"),
    (("OSError",), "[Errno 101] Network is unreachable"),
]


@pytest.mark.parametrize(("bases", "message"), NETWORK, ids=[bases[0] for bases, _ in NETWORK])
def test_the_network_is_tried_again(bases: tuple[str, ...], message: str) -> None:
    told = Raised(bases[0].rpartition(".")[2], message, (*bases, "Exception"))
    assert classify(known(told)).kind == "network"


def test_a_server_that_answers_is_not_the_network() -> None:
    bases = ("requests.exceptions.HTTPError", "requests.exceptions.RequestException", "OSError")
    missing = Raised("HTTPError", "404 Client Error: Not Found for url: http://a/", bases)
    assert named(known(missing)) == ("http", "recoverable")
    forbidden = Raised("HTTPError", "403 Client Error: Forbidden for url: http://a/", bases)
    assert named(known(forbidden)) == ("credentials", "unrecoverable")
    address = Raised(
        "URLError", "<urlopen error unknown url type: htp>", ("urllib.error.URLError", "OSError")
    )
    assert classify(known(address)).kind == "recoverable"


@pytest.mark.parametrize(
    ("key", "library", "name"), [("API_KEY", "os", "credentials"), ("API_KEY", None, "key")]
)
def test_a_secret_that_no_variable_holds_needs_a_person(key: str, library: str | None, name: str) -> None:
    told = Raised("KeyError", repr(key), ("KeyError", "LookupError"), {"key": key}, library=library)
    assert named(known(told))[0] == name


def test_plain_mistakes_may_quote_anything() -> None:
    for error in (
        NameError("name 'api_key' is not defined: invalid credentials"),
        KeyError("no credentials"),
    ):
        assert classify(known(raised(error))).kind == "recoverable"


def test_a_timeout_is_recoverable_whatever_interrupted_it() -> None:
    interrupt = raised(KeyboardInterrupt())
    diagnosis = Diagnosis(roots=(interrupt,), raised=interrupt)
    timed_out = bare("KeyboardInterrupt", "", state="timeout", diagnosis=diagnosis)
    assert named(timed_out) == ("timeout", "recoverable")
    refused = raised(PermissionError(errno.EACCES, "Permission denied"))
    in_the_end = Diagnosis(roots=(refused,), raised=refused)
    assert named(bare("timeout", "", state="timeout", diagnosis=in_the_end)) == ("timeout", "recoverable")


def test_a_failed_check_is_recoverable_and_other_errors_in_it_are_what_they_are() -> None:
    assert named(bare("AssertionError", "", state="rejected")) == ("check", "recoverable")
    assert named(bare("AcceptanceError", "no such output", state="rejected")) == ("check", "recoverable")
    assert named(bare("NameError", "name 'df'", state="rejected")) == ("name", "recoverable")
    assert named(bare("SystemExit", "", state="rejected")) == ("exit", "unrecoverable")
    assert named(bare("ERROR", "x > 1 is not TRUE", state="rejected", language="r")) == (
        "check",
        "recoverable",
    )


def test_a_dead_kernel_is_recoverable_only_where_there_is_a_checkpoint() -> None:
    crash = explain_exit(-11, killed_by_us=None, oom_kills_seen=False).message
    with_one = bare("died", crash, state="died", reason=crash)
    assert named(with_one) == ("kernel_died", "recoverable")
    without = Surroundings(has_checkpoint=False)
    alone = bare("died", crash, state="died", reason=crash, surroundings=without)
    assert named(alone) == ("kernel_lost", "unrecoverable")


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (str(exit_reasons.over_memory(POLICY, 2 << 30)), "memory"),
        (str(exit_reasons.out_of_memory(POLICY)), "memory"),
        (explain_exit(-9, killed_by_us=None, oom_kills_seen=True).message, "memory"),
        (str(exit_reasons.over_disk(POLICY, 2 << 30)), "disk"),
        (str(exit_reasons.over_files(POLICY, 2 << 30)), "disk"),
        (str(exit_reasons.over_processes(POLICY, 9)), "limit"),
        (str(exit_reasons.out_of_processes(POLICY, 9)), "limit"),
    ],
    ids=[
        "over memory",
        "out of memory",
        "killed for memory",
        "disk",
        "files",
        "processes",
        "refused processes",
    ],
)
def test_a_kernel_that_a_limit_ended_is_lost_also_with_a_checkpoint(reason: str, name: str) -> None:
    assert named(bare("died", reason, state="died", reason=reason)) == (name, "unrecoverable")


def test_a_network_that_the_policy_refuses_is_not_tried_again() -> None:
    error = raised(OSError(-3, "Temporary failure in name resolution"))
    reason = exit_reasons.explain_error("gaierror", "[Errno -3] Temporary failure in name resolution", POLICY)
    assert reason is not None
    assert classify(known(error)).kind == "network"
    assert named(known(error, reason=reason)) == ("refused_network", "unrecoverable")
    told = Raised("OSError", "Tunnel connection failed: 403 Forbidden", ("OSError",))
    assert named(known(told)) == ("refused_network", "unrecoverable")


@pytest.mark.parametrize(
    ("language", "error_type", "message", "name"),
    [
        ("r", "ERROR", "Error in eval(expr): object 'x' not found", "name"),
        ("r", "ERROR", "Error in library(dplyrr): there is no package called 'dplyrr'", "import"),
        ("r", "ERROR", 'Error in file(file, "rt"): cannot open the connection', "file"),
        ("r", "ERROR", "Error in x[[5]]: subscript out of bounds", "index"),
        ("r", "ERROR", "Error: cannot allocate vector of size 8.0 Gb", "memory"),
        ("r", "ERROR", "Error: STOP", "stop"),
        ("javascript", "ReferenceError", "x is not defined", "name"),
        ("javascript", "TypeError", "x.map is not a function", "attribute"),
        ("javascript", "SyntaxError", "Unexpected token", "syntax"),
        ("typescript", "NotFound", "No such file or directory (os error 2)", "file"),
        ("typescript", "NotCapable", 'Requires read access to "/etc"', "refused"),
        ("typescript", "PermissionDenied", "Permission denied (os error 13)", "refused"),
    ],
)
def test_other_languages_are_classed_by_what_they_say(
    language: str, error_type: str, message: str, name: str
) -> None:
    assert named(bare(error_type, message, language=language))[0] == name


def test_a_reason_that_is_the_message_is_not_said_twice() -> None:
    lost = bare("died", "The host went away", state="died", reason="The host went away")
    assert "The host went away" not in classify(lost).suggestion
    reached = bare("MemoryError", "", reason="It may use 512 MB (max_session_memory)")
    assert classify(reached).suggestion.endswith("It may use 512 MB (max_session_memory)")


def test_a_table_of_ones_own_decides() -> None:
    ours = ErrorClass("ours", "unrecoverable", "Ours", "Ask us about {what}", types=("KeyError",))
    verdict = classify(known(raised(KeyError("x"), key="x")), (ours, *ERROR_CLASSES))
    assert (verdict.name, verdict.suggestion) == ("ours", "Ask us about x")
    assert classify(known(raised(RuntimeError("x"))), (ours,)).name == "other"
