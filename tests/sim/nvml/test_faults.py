"""Faults that the file asks for, and a file that changes under a client."""

import pytest

from sim.hardware.shape import card_uuid

ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, LOST = ({"error": code} for code in (2, 3, 4, 6, 15))
UNKNOWN = {"error": 999}
FIRST, SECOND = "0000:19:00.0", "0000:3b:00.0"


@pytest.mark.parametrize(
    ("line", "error"), [("driver_not_loaded", 9), ("version_mismatch", 18), ("unknown nvmlInit", 999)]
)
def test_initialisation_fails(told, h100, line, error):
    out = told(h100.also(line), "out = [ask(n.nvmlInit), ask(n.nvmlDeviceGetCount)]", init=False)
    assert out == [{"error": error}, {"error": 1}]


EVERY_KIND = """
def kinds(i):
    return [ask(n.nvmlDeviceGetName, h[i]), ask(n.nvmlDeviceGetNvLinkState, h[i], 0), ask(n.nvmlDeviceGetMigMode, h[i]),
            ask(n.nvmlDeviceGetTotalEccErrors, h[i], 0, 0), ask(n.nvmlDeviceGetHandleByIndex, i),
            ask(n.nvmlDeviceGetHandleByUUID, uuid[i]), ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h[i], 0)]
"""


@pytest.mark.parametrize("how", ["lost", "fallen_off_bus", "pulled"])
def test_a_card_that_goes_while_its_handle_is_held(told, h100, how):
    after = h100.without(FIRST) if how == "pulled" else h100.card(FIRST, how)
    out = told(
        h100,
        f"""
        h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(3)]
        uuid = [n.nvmlDeviceGetUUID(x) for x in h]
        {EVERY_KIND.replace(chr(10), chr(10) + " " * 8)}
        before = [isinstance(answer, dict) for answer in kinds(0)]
        replace({after.text()!r})
        out = [before, kinds(0), [isinstance(answer, dict) for answer in kinds(1)], n.nvmlDeviceGetCount(),
               n.nvmlDeviceGetMinorNumber(h[2])]
        n.nvmlShutdown()
        n.nvmlInit()
        out += [n.nvmlDeviceGetCount(), ask(lambda: n.nvmlDeviceGetPciInfo(n.nvmlDeviceGetHandleByIndex(0)).bus)]
        replace({h100.text()!r})
        n.nvmlShutdown()
        n.nvmlInit()
        out += [n.nvmlDeviceGetCount(), n.nvmlDeviceGetMinorNumber(h[0])]
        """,
    )
    counted = how == "lost"
    gone = [LOST] * 7 if how != "pulled" else [*[LOST] * 5, NOT_FOUND, LOST]
    assert out == [[False] * 7, gone, [False] * 7, 8, 2, 8 if counted else 7, LOST if counted else 0x3B, 8, 0]


def test_faults_of_functions(told, h100):
    faulty = h100.card(FIRST, "not_supported nvmlDeviceGetPowerUsage", "unknown nvmlDeviceGetMemoryInfo_v2",
                       "no_permission nvmlDeviceGetPciInfo")  # fmt: skip
    out = told(
        faulty,
        """
        out = [everywhere(f)[:2] for f in (n.nvmlDeviceGetPowerUsage, n.nvmlDeviceGetPciInfo, n.nvmlDeviceGetMemoryInfo,
            lambda h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2), n.nvmlDeviceGetMinorNumber)]
        out = [[a if isinstance(a, dict) else "fine" for a in answers] for answers in out]
        """,
    )
    fine = "fine"
    assert out == [[NOT_SUPPORTED, fine], [NO_PERMISSION, fine], [fine, fine], [UNKNOWN, fine], [fine, fine]]


def test_a_handle_that_may_not_be_had_is_still_counted(told, h100):
    faulty = h100.card(FIRST, "no_permission nvmlDeviceGetHandleByIndex")
    out = told(
        faulty,
        f"""
        uuid = {card_uuid("gpu-1", FIRST)!r}
        out = [n.nvmlDeviceGetCount(), ask(n.nvmlDeviceGetHandleByIndex, 0),
               n.nvmlDeviceGetMinorNumber(n.nvmlDeviceGetHandleByUUID(uuid))]
        """,
    )
    assert out == [8, NO_PERMISSION, 0]


def test_faults_of_the_system(told, h100):
    faulty = h100.also("unknown nvmlSystemGetDriverVersion", "not_supported nvmlDeviceGetName")
    code = "out = [ask(n.nvmlSystemGetDriverVersion), *everywhere(n.nvmlDeviceGetName)]"
    assert told(faulty, code) == [UNKNOWN, *[NOT_SUPPORTED] * 8]


def test_all_functions_of_a_card(told, h100):
    out = told(
        h100.card(FIRST, "unknown *"),
        "out = [ask(n.nvmlDeviceGetHandleByIndex, 0), n.nvmlDeviceGetMinorNumber(n.nvmlDeviceGetHandleByIndex(1))]",
    )
    assert out == [UNKNOWN, 1]


def test_faults_begin_after_a_number_of_calls(told, h100):
    out = told(
        h100.card(FIRST, "lost", "after_calls 3"),
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [ask(n.nvmlDeviceGetMinorNumber, h) for _ in range(4)]
        n.nvmlShutdown()
        n.nvmlInit()
        out.append(n.nvmlDeviceGetMinorNumber(h))
        """,
    )
    assert out == [0, 0, LOST, LOST, 0]


def test_a_call_that_hangs_holds_up_nobody_else(told, h100):
    """The order of events is the proof: the other thread's answers come before the hanging call's."""
    out = told(
        h100.card(FIRST, "hang nvmlDeviceGetName 1.5"),
        """
        h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
        order = []
        def name(i):
            n.nvmlDeviceGetName(h[i])
            order.append(i)
        waiting = threading.Thread(target=name, args=(0,))
        waiting.start()
        name(1)
        n.nvmlDeviceGetMinorNumber(h[0])
        order.append("quick")
        waiting.join()
        out = order
        """,
    )
    assert out == [1, "quick", 0]


def test_a_card_that_is_pulled_while_a_call_hangs_is_lost(told, h100):
    out = told(
        h100.card(FIRST, "hang nvmlDeviceGetName 1"),
        f"""
        h, got = n.nvmlDeviceGetHandleByIndex(0), []
        waiting = threading.Thread(target=lambda: got.append(ask(n.nvmlDeviceGetName, h)))
        waiting.start()
        n.nvmlDeviceGetMinorNumber(h)
        replace({h100.without(FIRST).text()!r})
        waiting.join()
        out = got
        """,
    )
    assert out == [LOST]


def test_initialisation_hangs(told, h100):
    code = """
        begun = time.monotonic()
        n.nvmlInit()
        out = time.monotonic() - begun
        """
    assert told(h100.also("hang nvmlInit 0.3"), code, init=False) >= 0.3


def test_values_change_with_the_file(told, h100):
    hot = h100.card(FIRST, "temperature 95", "power_mw 88")
    out = told(
        h100,
        f"""
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [n.nvmlDeviceGetTemperature(h, 0)]
        replace({hot.text()!r})
        out += [n.nvmlDeviceGetTemperature(h, 0), n.nvmlDeviceGetPowerUsage(h)]
        """,
    )
    assert out == [29, 95, 88]


def test_a_bad_change_is_told_once_and_the_last_good_state_stays(ask, h100):
    out, errors = ask(
        h100,
        f"""
        h = n.nvmlDeviceGetHandleByIndex(0)
        replace({h100.text()!r} + "temperature hot\\n")
        out = [n.nvmlDeviceGetTemperature(h, 0) for _ in range(3)]
        config.unlink()
        out.append(n.nvmlDeviceGetTemperature(h, 0))
        """,
    )
    assert out == [29] * 4
    assert len(errors.splitlines()) == 1
    assert f"cards.conf:{len(h100.text().splitlines()) + 1}: found 'hot', expected a number" in errors
