"""Events: what appears in the file is told to who was registered before, once."""

import pynvml

FIRST, SECOND = "0000:19:00.0", "0000:3b:00.0"
TIMEOUT, LOST, ARGUMENT, NOT_SUPPORTED = ({"error": code} for code in (10, 15, 2, 3))
SETUP = """
h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
WANTED = n.nvmlEventTypeXidCriticalError | n.nvmlEventTypeDoubleBitEccError | n.nvmlEventTypeSingleBitEccError
def registered(types=WANTED):
    made = n.nvmlEventSetCreate()
    for device in h:
        n.nvmlDeviceRegisterEvents(device, types, made)
    return made
def wait(of, milliseconds=0):
    event = ask(n.nvmlEventSetWait_v2, of, milliseconds)
    if isinstance(event, dict):
        return event
    return [n.nvmlDeviceGetIndex(event.device), event.eventType, event.eventData, event.gpuInstanceId]
"""
XID, DOUBLE, SINGLE = 8, 2, 1
NO_INSTANCE = 0xFFFFFFFF


def script(text):
    return SETUP + text


def test_an_xid_wakes_who_waits(told, h100):
    later = h100.card(SECOND, "xid 79")
    out = told(
        h100.card(FIRST, "xid 13"),
        script(f"""
events, got = registered(), []
out = [wait(events)]
waiting = threading.Thread(target=lambda: got.append(wait(events, 20000)))
waiting.start()
replace({later.card(FIRST, "xid 13").text()!r})
waiting.join()
out += [*got, wait(events)]
"""),
    )
    # What was there before the registration is past; what is told is not told again.
    assert out == [TIMEOUT, [1, XID, 79, NO_INSTANCE], TIMEOUT]


def test_each_set_is_told_and_each_line_is_an_event(told, h100):
    out = told(
        h100,
        script(f"""
first, second = registered(), registered()
replace({h100.card(FIRST, "xid 31", "xid 31", "xid 48").text()!r})
out = [[wait(events)[2] for _ in range(3)] for events in (first, second)]
"""),
    )
    assert out == [[31, 31, 48]] * 2


def test_an_event_on_a_schedule(told, h100):
    out = told(
        h100.card(FIRST, "xid 94 at=0.2", "xid 95 at=3600"),
        script("events = registered()\nout = [wait(events, 20000), wait(events)]"),
    )
    assert out == [[0, XID, 94, NO_INSTANCE], TIMEOUT]


def test_more_memory_errors_are_events(told, h100):
    worse = h100.card(FIRST, "ecc_uncorrectable 1", "ecc_correctable 5")
    out = told(
        h100,
        script(f"""
events, only = registered(), registered(n.nvmlEventTypeXidCriticalError)
replace({worse.text()!r})
out = [wait(events), wait(events), wait(events), wait(only)]
"""),
    )
    assert [event[:2] for event in out[:2]] == [[0, DOUBLE], [0, SINGLE]]
    assert out[2:] == [TIMEOUT, TIMEOUT]


def test_an_event_comes_before_the_loss_of_its_card(told, h100):
    out = told(
        h100,
        script(f"""
events = registered()
replace({h100.card(FIRST, "xid 79", "lost").text()!r})
event = n.nvmlEventSetWait_v2(events, 0)
out = [[event.eventType, event.eventData], wait(events)]
replace({h100.without(FIRST).text()!r})
out.append(wait(events))
"""),
    )
    assert out == [[XID, 79], LOST, LOST]


def test_wrong_requests(told, h100):
    plain = "[card]\naddress 0:1:0.0\nuuid GPU-a\n[card]\naddress 0:2:0.0\nuuid GPU-b"
    code = script("""
events = n.nvmlEventSetCreate()
out = [n.nvmlDeviceGetSupportedEventTypes(h[0]), ask(n.nvmlDeviceRegisterEvents, h[0], WANTED, events),
       ask(n.nvmlDeviceRegisterEvents, h[0], n.nvmlEventMigConfigChange, events),
       ask(n.nvmlDeviceRegisterEvents, h[0], 1 << 40, events), ask(wait, events), ask(n.nvmlEventSetFree, events)]
spare = n.nvmlEventSetCreate()
n.nvmlEventSetFree(spare)
out += [ask(n.nvmlEventSetWait_v2, spare, 0), ask(n.nvmlEventSetFree, spare)]
""")
    all_types = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypePState | pynvml.nvmlEventTypeClock | 3
    rest = [NOT_SUPPORTED, ARGUMENT, TIMEOUT, None, ARGUMENT, ARGUMENT]
    assert told(h100, code) == [all_types, None, *rest]
    # Without error correction there are no events of it.
    assert told(plain, code) == [all_types & ~3, NOT_SUPPORTED, *rest]


def test_registering_again_adds_types(told, h100):
    out = told(
        h100,
        script(f"""
events = registered(n.nvmlEventTypeSingleBitEccError)
n.nvmlDeviceRegisterEvents(h[0], n.nvmlEventTypeXidCriticalError, events)
replace({h100.card(FIRST, "xid 43").card(SECOND, "xid 43").text()!r})
out = [wait(events), wait(events)]
"""),
    )
    assert out == [[0, XID, 43, NO_INSTANCE], TIMEOUT]


def test_a_wait_ends_with_the_client(told, h100):
    out = told(
        h100,
        script("""
events, got, started = registered(), [], threading.Event()
def waits():
    started.set()
    got.append(ask(n.nvmlEventSetWait_v2, events, 20000))
waiting = threading.Thread(target=waits)
waiting.start()
started.wait()
n.nvmlShutdown()
waiting.join()
out = got
"""),
    )
    assert out == [{"error": 1}]
