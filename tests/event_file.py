"""Event files of TensorBoard, read in plain Python by the formats' definitions: TFRecord (a length of 8 bytes and the bytes,
each with a masked CRC-32C), protobuf's wire format, and the fields of event.proto and summary.proto."""
import struct


def crc32c(data):
    """Castagnoli's polynomial, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of the CRC's catalogue


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(crc32c(data[at:at + 8])), f"the length at {at} is damaged"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"the record at {at} is torn"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(crc32c(body)), f"the record at {at} is damaged"
        yield body
        at += 16 + length


def fields(message):
    """(number, value) of each: an integer, bytes, or a float of 4 or 8 bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        head = varint()
        number, wire = head >> 3, head & 7
        if wire == 0:
            value = varint()
        elif wire == 2:
            length = varint()
            value = message[at:at + length]
            assert len(value) == length
            at += length
        else:
            form, length = {1: ("<d", 8), 5: ("<f", 4)}[wire]
            value, = struct.unpack_from(form, message, at)
            at += length
        yield number, value


def events(data):
    """A dict of each: wall_time, step, and version, start (True) or scalars ({tag: value})."""
    for record in records(data):
        event = {"step": 0}
        for number, value in fields(record):
            if number == 1:
                event["wall_time"] = value
            elif number == 2:
                event["step"] = value
            elif number == 3:
                event["version"] = value.decode()
            elif number == 5:
                scalars = event.setdefault("scalars", {})
                for summary_number, summary in fields(value):
                    assert summary_number == 1
                    found = dict(fields(summary))
                    assert set(found) == {1, 2}
                    scalars[found[1].decode()] = found[2]
            elif number == 7:
                event["start"] = dict(fields(value)) == {1: 1}
            else:
                raise AssertionError(f"an event has no field {number} that is expected")
        yield event
