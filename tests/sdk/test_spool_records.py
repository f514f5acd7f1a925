import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collapsewatch.spool.records import (
    HEADER_BYTES,
    MAGIC,
    MAX_BODY_BYTES,
    MAX_SEQ,
    Found,
    Header,
    ReadAt,
    Record,
    RecordKind,
    decode_header,
    encode_header,
    find_record,
    header_of,
    read_body,
    records_in_row,
)

json_bodies = st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
)


@st.composite
def records(draw: st.DrawFn, bodies: st.SearchStrategy[bytes] = json_bodies) -> Record:
    return Record(
        draw(st.sampled_from(RecordKind)),
        draw(bodies),
        num_items=draw(st.integers(0, 2**32 - 1)),
        logged_at=draw(st.floats(0, 2**40)),
        seq=draw(st.integers(0, MAX_SEQ - 1)),
    )


def encoded(record: Record) -> bytes:
    return encode_header(header_of(record)) + record.body


def reader(data: bytes) -> ReadAt:
    def read(offset: int, count: int) -> bytes:
        assert offset >= 0
        assert count >= 0
        return data[offset : offset + count]

    return read


def found_in(data: bytes) -> tuple[list[Record], bool]:
    """All sound records, and whether there was damage."""
    out: list[Record] = []
    read, offset, has_damage = reader(data), 0, False
    while True:
        found = find_record(read, offset, len(data))
        has_damage |= found.is_after_damage
        if found.header is None:
            return out, has_damage
        header, body = found.header, read_body(read, found)
        if body is None:
            has_damage, offset = True, found.offset + 1
        else:
            out.append(Record(header.kind, body, header.num_items, header.logged_at, header.seq))
            offset = found.offset + header.num_bytes


@settings(deadline=None)
@given(st.lists(records(bodies=st.binary(max_size=50)), max_size=5))
def test_what_was_written_is_read(written: list[Record]) -> None:
    assert found_in(b"".join(map(encoded, written))) == (written, False)


@settings(deadline=None)
@given(st.lists(records(), max_size=6), st.integers(0, 2**40), st.data())
def test_a_row_ends_where_a_number_is_missing_or_a_byte_was_changed(
    written: list[Record], seq: int, data: st.DataObject
) -> None:
    row = [record._replace(seq=seq + place) for place, record in enumerate(written)]
    raw = b"".join(map(encoded, row))
    assert records_in_row(raw, seq) == row
    assert records_in_row(raw, seq + 1) == []
    broken = data.draw(st.integers(0, len(row)))
    gap = [*row[:broken], *(record._replace(seq=record.seq + 1) for record in row[broken:])]
    assert records_in_row(b"".join(map(encoded, gap)), seq) == row[:broken]
    if broken < len(row):
        place = sum(record.num_bytes for record in row[:broken])
        place += data.draw(st.integers(0, row[broken].num_bytes - 1))
        changed = bytearray(raw)
        changed[place] ^= 1
        assert records_in_row(bytes(changed), seq) == row[:broken]
    cut = data.draw(st.integers(0, len(raw)))
    whole = [record for record in row if sum(r.num_bytes for r in row[: record.seq - seq + 1]) <= cut]
    assert records_in_row(raw[:cut], seq) == whole


@settings(deadline=None)
@given(st.lists(records(), min_size=1, max_size=5), st.data())
def test_a_cut_costs_the_record_that_it_goes_through_and_is_no_damage(
    written: list[Record], data: st.DataObject
) -> None:
    whole = b"".join(map(encoded, written))
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(len(encoded(record)) for record in written[: count + 1]) for count in range(len(written))]
    num_whole = sum(end <= cut for end in ends)
    assert found_in(whole[:cut]) == (written[:num_whole], False)


@settings(deadline=None)
@given(st.lists(records(), min_size=1, max_size=6), st.data())
def test_changed_bytes_cost_the_records_they_are_in_and_no_other(
    written: list[Record], data: st.DataObject
) -> None:
    raw = bytearray(b"".join(map(encoded, written)))
    start = data.draw(st.integers(0, len(raw) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=min(60, len(raw) - start)))
    raw[start : start + len(junk)] = junk
    expected, offset = [], 0
    for record in written:
        raw_record = encoded(record)
        if raw[offset : offset + len(raw_record)] == raw_record:
            expected.append(record)
        offset += len(raw_record)
    found, has_damage = found_in(bytes(raw))
    assert found == expected
    if len(expected) < len(written) - 1:
        assert has_damage


@settings(deadline=None)
@given(st.lists(records(), min_size=1, max_size=6), st.data())
def test_bytes_put_in_or_taken_out_never_make_up_a_record(written: list[Record], data: st.DataObject) -> None:
    raw = b"".join(map(encoded, written))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, len(raw)))
        raw = raw[:start] + data.draw(st.binary(max_size=50)) + raw[end:]
    found, _ = found_in(raw)
    assert all(record in written for record in found)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_no_record(noise: bytes) -> None:
    assert found_in(noise)[0] == []


@settings(deadline=None)
@given(records(), st.binary(max_size=200).filter(lambda noise: MAGIC not in noise))
def test_a_record_is_found_behind_noise(record: Record, noise: bytes) -> None:
    assert found_in(noise + encoded(record)) == ([record], bool(noise))


def test_a_magic_across_two_search_steps_is_found() -> None:
    record = Record(RecordKind.batch, b"{}", 1, 1.0, 1)
    for num_bytes in range(2 * HEADER_BYTES - 8, 2 * HEADER_BYTES + 8):
        assert found_in(b"x" * num_bytes + encoded(record)) == ([record], True)


def test_a_file_of_nothing_but_magics_is_read_in_linear_time() -> None:
    data, num_read = MAGIC * 50_000, 0

    def read(offset: int, count: int) -> bytes:
        nonlocal num_read
        num_read += count
        return data[offset : offset + count]

    assert find_record(read, 0, len(data)) == Found(None, len(data), is_after_damage=True)
    assert num_read < 100 * len(data)


def test_a_json_body_cannot_hold_the_magic() -> None:
    with pytest.raises(UnicodeDecodeError):
        MAGIC.decode()


def test_a_header_that_claims_a_huge_body_is_none() -> None:
    header = Header(RecordKind.batch, 1, 1.0, 1, MAX_BODY_BYTES + 1, 0)
    with pytest.raises(ValueError, match="at most"):
        encode_header(header)


def test_a_number_that_does_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_header(Header(RecordKind.batch, 1, 1.0, -1, 0, 0))


def test_a_sequence_number_that_no_reader_takes_is_not_written() -> None:
    with pytest.raises(ValueError, match="sequence number"):
        encode_header(Header(RecordKind.batch, MAX_SEQ, 1.0, 1, 0, 0))


def test_a_short_header_is_none() -> None:
    raw = encode_header(Header(RecordKind.batch, 1, 1.0, 1, 0, 0))
    assert decode_header(raw) is not None
    assert decode_header(raw[:-1]) is None
