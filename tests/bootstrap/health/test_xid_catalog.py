"""The table of errors is whole, and says what its sources say."""

from __future__ import annotations

import pytest

from controllers.bootstrap.health.xid_catalog import TABLE, read

GOOD = """
[sources]
a = "a book"
[xid]
79 = {name = "n", effect = "fault", do = "d", source = ["a"]}
[ecc]
double_bit = {effect = "fault", do = "d", source = ["a"]}
[remap]
failure = {effect = "fault", do = "d", source = ["a"]}
pending = {effect = "warn", do = "d", source = ["a"]}
[throttle]
hw = {bit = 8, source = ["a"]}
"""


def effects(effect: str) -> set[int]:
    return {number for number, meaning in TABLE.xids.items() if meaning.effect == effect}


def test_errors_of_programs_never_fault():
    assert {13, 31, 43, 45, 68} <= effects("app")


def test_errors_that_ask_for_a_reset_or_a_reboot_fault():
    assert {46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158} <= effects("fault")
    assert {63, 92, 94, 109} <= effects("warn")
    assert TABLE.xid(9999).effect == "warn"


def test_slow_for_power_or_idleness_is_no_throttling():
    assert sum(TABLE.throttle.values()) == 0x08 | 0x20 | 0x40 | 0x80


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"n", effect = "fault"', '"n", effect = "kill"', "xid 79: effect 'kill'"),
        ('name = "n"', 'name = ""', "xid 79: name and do"),
        ('name = "n"', 'name = "n", color = "red"', "xid 79: unknown key color"),
        ("bit = 8", "bit = 9", "hw: 0x9 is not one bit"),
        ('bit = 8, source = ["a"]', 'bit = 8, source = ["b"]', "hw: source"),
        ("[throttle]", "[other]", "'throttle' is missing"),
        ("[sources]", "[sources", "not TOML"),
        ("79 =", "seventy =", "seventy"),
    ],
)
def test_a_slip_in_the_file_is_named(old, new, message):
    assert old in GOOD
    with pytest.raises(ValueError, match=r"^xid_catalog\.toml: ") as error:
        read(GOOD.replace(old, new))
    assert message in str(error.value)
    assert read(GOOD).xids[79].source == ("a book",)
