from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.hosts import _event_log
from cellwright.hosts._event_log import EventLog, read_events
from cellwright.hosts.connection import FrameReader, frame
from cellwright.hosts.protocol import Finished, Output, decode_event


def output(size: int) -> Output:
    return Output("x", "stream", b"o" * size)


def follow(log: EventLog, since: int) -> list[int]:
    cursor, reader, seqs = log.cursor(since), FrameReader(), []
    while data := log.read(cursor):
        seqs += [decode_event(payload).seq for payload in reader.feed(data)]
    return seqs


@given(sizes=st.lists(st.integers(0, 2_000), max_size=60), since=st.integers(0, 70))
@settings(max_examples=30)
def test_a_follower_gets_every_event_after_its_place_across_segments(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], since: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_event_log, "SEGMENT_BYTES", 4_000)
        log = EventLog(directory)
        for size in sizes:
            log.append("k", output(size), time=0.0)
    expected = list(range(since + 1, len(sizes) + 1))
    assert follow(log, since) == expected
    log.close()
    assert [event.seq for event in read_events(directory, since=since)] == expected


def test_events_larger_than_a_read_arrive_whole(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log")
    log.append("k", output(3_000_000), time=0.0)
    log.append("k", output(5), time=0.0)
    assert follow(log, 0) == [1, 2]
    log.close()


def test_forgetting_removes_only_segments_that_are_wholly_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_event_log, "SEGMENT_BYTES", 1_000)
    log = EventLog(tmp_path / "log")
    for _ in range(20):
        log.append("k", output(300), time=0.0)
    before = len(list((tmp_path / "log").iterdir()))
    log.forget(10)
    assert len(list((tmp_path / "log").iterdir())) < before
    assert follow(log, 10) == list(range(11, 21))
    log.close()


def test_forgetting_leaves_what_a_slow_follower_has_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_event_log, "SEGMENT_BYTES", 1_000)
    log = EventLog(tmp_path / "log")
    for _ in range(20):
        log.append("k", output(300), time=0.0)
    cursor = log.cursor(0)
    log.forget(20, keep=cursor)
    reader, seqs = FrameReader(), []
    while data := log.read(cursor):
        seqs += [decode_event(payload).seq for payload in reader.feed(data)]
    assert seqs == list(range(1, 21))
    log.close()


def test_a_torn_last_frame_of_a_killed_host_is_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log")
    log.append("k", output(10), time=0.0)
    log.close()
    segment = next((tmp_path / "log").iterdir())
    segment.write_bytes(segment.read_bytes() + segment.read_bytes()[:-3])
    assert [found.seq for found in read_events(tmp_path / "log")] == [1]


def test_a_full_disk_delays_events_and_tears_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(tmp_path / "log")
    log.append("k", output(100), time=0.0)
    with files_of_at_most(200):
        log.append("k", output(300), time=0.0)
        log.append("k", Finished("x", "ok", 1.0), time=0.0)
        assert follow(log, 0) == [1]
        assert "journal_not_written" in caplog.text
        assert not log.retry()
    assert log.retry()
    assert follow(log, 0) == [1, 2, 3]
    log.close()


def test_output_that_cannot_be_written_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log")
    with files_of_at_most(10):
        for _ in range(100):
            log.append("k", output(1_000_000), time=0.0)
        log.append("k", Finished("x", "ok", 1.0), time=0.0)
    assert log.dropped_outputs == 100 - _event_log.MAX_WAITING_BYTES // 1_000_000
    log.retry()
    assert [type(event.body) for event in read_events(tmp_path / "log")][-1] is Finished
    log.close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have the system refuse larger files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 50))
def test_frames_survive_being_cut_anywhere(contents: list[bytes], step: int) -> None:
    messages = [Output("x", "stream", content) for content in contents]
    stream = b"".join(frame(message) for message in messages)
    reader = FrameReader()
    payloads = [
        payload for at in range(0, len(stream), step) for payload in reader.feed(stream[at : at + step])
    ]
    assert [frame(message)[4:] for message in messages] == payloads


def test_an_absurd_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="over the protocol's"):
        FrameReader().feed(b"\xff\xff\xff\xff")
