"""The exporter's text, as it is in the field and as it is when something is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.bootstrap.health.dcgm_parser import MAX_SERIES, CardSample, DcgmParser, parse
from tests.data.text import exported, listed

A100 = "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e"
T4 = ("GPU-7a2e92f2-be71-d37e-a744-541600ffc722", "GPU-5f587dd4-6505-0873-c6db-8324dbfe5ba9")


def line(field: str, value: object, *, card: str = "GPU-1", more: str = "") -> bytes:
    return f'DCGM_FI_DEV_{field}{{gpu="0",UUID="{card}"{more}}} {value}\n'.encode()


ONE_CARD = b"""# HELP DCGM_FI_DEV_GPU_UTIL in percent
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="node"} 12

DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1"} 48

DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0",UUID="GPU-1",err_msg="",pci_bus_id="00000000:17:00.0"} 1
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-1"} 9223372036854775794
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{gpu="0",gpu_uuid="GPU-1",nvlink="1"} 4
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",GPU_I_ID="2",GPU_I_PROFILE="1g.10gb"} 30
go_gc_duration_seconds{quantile="0.5"} 0.001
"""
"""Series with different label sets, blank lines, a value that means "not known", and another program's series."""


@pytest.mark.parametrize(
    ("name", "temperature"),
    [
        ("fgo-A100-mig-active-1g.prom.txt", 37),
        ("fgo-A100-mig-idle-1g.prom.txt", 32),
        ("fgo-A100-mig-active-2x1g+2g.prom.txt", 37),
    ],
)
def test_a_card_with_instances_is_one_card(name, temperature):
    assert parse(exported(f"dcgm/{name}")) == (
        CardSample(A100, None, device="nvidia0", temperature=temperature, xids=()),
    )


def test_cards_whose_pods_are_named_are_told_apart():
    found = parse(exported("dcgm/fgo-T4-fraction.prom.txt"))
    assert [(card.uuid, card.device, card.temperature, card.xids) for card in found] == [
        (T4[0], "nvidia0", 55, ()),
        (T4[1], "nvidia1", 52, ()),
    ]


def test_series_of_one_card_with_different_labels_are_one_card():
    (card,) = parse(ONE_CARD)
    assert (card.uuid, card.xids, card.remap_failed) == ("GPU-1", (48,), True)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia_gpu_exporter-linux-x86_64__nvidia-l40s__595.80__idle.metrics",
        "docs-dcgm-old-format.txt",
        "gpu-monitoring-tools-readme.txt",
    ],
)
def test_a_text_without_what_health_reads_has_no_cards(name):
    assert parse(exported(f"dcgm/{name}")) == ()


def test_a_list_of_fields_has_no_cards():
    text = listed("dcgm/dcgm-exporter-default-counters.csv")
    assert b"DCGM_FI_DEV_GPU_TEMP, gauge" in text
    assert parse(text) == ()


def test_the_old_spelling_is_read():
    text = (
        b'# HELP first\n# TYPE first gauge\n...\ndcgm_gpu_temp{gpu="0", uuid="GPU-1"} 41\n\n'
        b'dcgm_xid_errors{gpu="0", uuid="GPU-1"} 79\ndcgm_ecc_dbe_volatile_total{gpu="0", uuid="GPU-1"} 2\n'
    )
    (card,) = parse(text)
    assert (card.temperature, card.xids, card.ecc_volatile) == (41, (79,), 2)


@pytest.mark.parametrize(
    ("old", "new", "read", "value"),
    [
        ("GPU_TEMP", "GPU_TEMP_CELSIUS", "temperature", 71),
        ("XID_ERRORS", "XID_ERROR", "xids", 79),
        ("ROW_REMAP_FAILURE", "ROW_REMAP_FAILED", "remap_failed", 1),
    ],
)
def test_a_list_with_the_names_of_dcgm_4_6_is_read_as_one_with_the_old(old, new, read, value):
    # Fields of which a new name begins with the old one, and beside them what a list of that version has too.
    rest = line("ECC_DBE_VOL_TOTAL", 0) + line("GPU_TEMP_SLOWDOWN_CELSIUS", 90) + line("GPU_TEMP_LIMIT", 5)
    (before,), (after,) = parse(line(old, value) + rest), parse(line(new, value) + rest)
    assert before == after
    assert getattr(after, read) not in (None, (), False)


def test_an_address_stands_for_a_card():
    text = line("GPU_TEMP", 40, card="", more=',pci_bus_id="00000000:9B:00.0"')
    assert parse(text) == (CardSample(None, "0000:9b:00.0", temperature=40),)


@pytest.mark.parametrize(
    "value",
    [
        *range(0x7FFFFFF0, 0x7FFFFFF4),
        *range(0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF4),
        "140737488355328.000000",
        "140737488355330.0",
        "NaN",
        "+Inf",
        "-Inf",
        -1,
        "N/A",
    ],
)
def test_what_dcgm_does_not_know_is_absent(value):
    (card,) = parse(line("GPU_TEMP", 40) + line("XID_ERRORS", value) + line("ECC_DBE_VOL_TOTAL", value))
    assert (card.temperature, card.xids, card.ecc_volatile) == (40, None, None)


def test_of_two_scrapes_in_one_text_the_later_counts():
    text = line("GPU_TEMP", 90) + line("GPU_TEMP", 40)
    assert parse(text)[0].temperature == 40


def test_instances_that_differ_are_all_told():
    text = b"".join(
        line(field, value, more=f',GPU_I_PROFILE="1g.5gb",GPU_I_ID="{instance}"')
        for instance, xid in (("7", 31), ("9", 0), ("5", 94))
        for field, value in (("XID_ERRORS", xid), ("CLOCKS_EVENT_REASONS", 0x40 if instance == "9" else 0))
    )
    (card,) = parse(text)
    assert (card.xids, card.throttle) == ((31, 94), 0x40)


def test_a_label_cannot_pass_for_another():
    more = ',err_msg="GPU-2} 1 # \\"x\\" UUID=\\"GPU-3\\"",pod="DCGM_FI_DEV_GPU_TEMP{",uuid="GPU-4",UUID="GPU-5"'
    (card,) = parse(line("GPU_TEMP", 40, more=more))
    assert (card.uuid, card.temperature) == ("GPU-1", 40)


def test_time_stamps_and_carriage_returns_are_passed_over():
    text = line("GPU_TEMP", "40 1700000000000") + line("XID_ERRORS", "79\r")
    assert (parse(text)[0].temperature, parse(text)[0].xids) == (40, (79,))


def test_a_cut_line_is_not_read():
    text = line("GPU_TEMP", 40) + line("XID_ERRORS", 79)
    assert parse(text[:-2])[0].xids is None
    assert parse(text[:-1])[0].xids is None
    assert parse(text)[0].xids == (79,)


def test_a_flood_of_series_is_bounded():
    text = b"".join(line("GPU_TEMP", 40, card=f"GPU-{number}") for number in range(3 * MAX_SERIES))
    assert len(parse(text)) == MAX_SERIES


def test_a_line_without_end_is_forgotten_and_its_end_not_misread():
    reader = DcgmParser()
    for _ in range(40):
        reader.parse(b"x" * 60_000)
    assert len(reader._tail) < 130_000
    reader.parse(line("GPU_TEMP", 99) + line("XID_ERRORS", 79))
    (card,) = reader.cards()
    assert (card.temperature, card.xids) == (None, (79,))


@given(st.lists(st.integers(1, 400), max_size=30))
def test_pieces_may_end_anywhere(ends):
    text = b"".join(line(f, v, card=c) for c in ("GPU-1", "GPU-2") for f, v in (("GPU_TEMP", 41), ("XID_ERRORS", 31)))
    text = b"A title\n\n# HELP x y\n" + text
    reader, at = DcgmParser(), 0
    for size in ends:
        reader.parse(text[at : at + size])
        at += size
    reader.parse(text[at:])
    assert reader.cards() == parse(text)
    assert len(reader.cards()) == 2


@given(
    st.binary(max_size=2000) | st.text(alphabet='DCGM_FI_DEV_GPU_TEMP{}"\\, =\nUuid-1', max_size=400).map(str.encode)
)
def test_nothing_makes_it_fail(text):
    parse(text)
    parse(b"\nDCGM_FI_DEV_GPU_TEMP{" + text + b"\n")
