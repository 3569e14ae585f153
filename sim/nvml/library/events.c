/* Events: XIDs and memory errors that appear in the file, told to the sets that were registered before.
 *
 * A line `xid 79` that a test adds is an event for whoever waits; one with `at=2.5` happens that many
 * seconds after initialisation. A growing number of errors is an event too. The file is looked at
 * every few milliseconds while a client waits. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "state.h"

enum { SINGLE_BIT = 0x1, DOUBLE_BIT = 0x2, PSTATE = 0x4, XID = 0x8, CLOCK = 0x10 };
enum { EVERYTHING = 0xffff, NO_INSTANCE = 0xffffffff };
enum { LOOK_EVERY_NS = 5000000 };

/* One device in a set: what of its card was there before, so that only news is told. */
struct registration {
    struct registration *next;
    struct handle *device;
    unsigned long long types;
    bool told[MAX_XIDS];
    unsigned correctable, uncorrectable;
};

struct event_set {
    struct event_set *next;
    struct registration *devices;
};

static struct event_set *sets;

static bool set_known(const struct event_set *set) {
    const struct event_set *known = sets;
    while (known != NULL && known != set) {
        known = known->next;
    }
    return set != NULL && known != NULL;
}

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (set == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    struct event_set *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return leave(NVML_ERROR_MEMORY);
    }
    made->next = sets;
    sets = made;
    *set = made;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (!set_known(set)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    struct event_set **place = &sets;
    while (*place != set) {
        place = &(*place)->next;
    }
    *place = set->next;
    while (set->devices != NULL) {
        struct registration *gone = set->devices;
        set->devices = gone->next;
        free(gone);
    }
    free(set);
    return leave(NVML_SUCCESS);
}

static unsigned long long supported(const struct card *card) {
    return XID | PSTATE | CLOCK | (card->ecc_mode == 1 ? SINGLE_BIT | DOUBLE_BIT : 0);
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (types == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *types = supported(card);
    return leave(NVML_SUCCESS);
}

static bool happened(const struct xid *xid) {
    return xid->at <= since_start();
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (!set_known(set) || types > EVERYTHING) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if ((types & ~supported(card)) != 0) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    struct registration *made = set->devices;
    while (made != NULL && made->device != device) {
        made = made->next;
    }
    if (made != NULL) { /* again: further types, and what was there before stays told */
        made->types |= types;
        return leave(NVML_SUCCESS);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return leave(NVML_ERROR_MEMORY);
    }
    *made = (struct registration){.next = set->devices, .device = device, .types = types,
                                  .correctable = card->ecc_correctable, .uncorrectable = card->ecc_uncorrectable};
    for (unsigned i = 0; i < card->n_xids; i++) {
        made->told[i] = happened(&card->xids[i]);
    }
    set->devices = made;
    return leave(NVML_SUCCESS);
}

/* The first piece of news of a device since the last call; marks it told. */
static bool news(struct registration *device, const struct card *card, nvmlEventData_t *event) {
    *event = (nvmlEventData_t){
        .device = device->device, .gpuInstanceId = NO_INSTANCE, .computeInstanceId = NO_INSTANCE};
    for (unsigned i = card->n_xids; i < MAX_XIDS; i++) {
        device->told[i] = false; /* lines that were removed may come again */
    }
    for (unsigned i = 0; i < card->n_xids; i++) {
        if (!device->told[i] && happened(&card->xids[i])) {
            device->told[i] = true;
            event->eventType = XID;
            event->eventData = card->xids[i].code;
            if ((device->types & XID) != 0) {
                return true;
            }
        }
    }
    const bool worse = card->ecc_uncorrectable > device->uncorrectable;
    const bool bad = card->ecc_correctable > device->correctable;
    device->uncorrectable = card->ecc_uncorrectable;
    if (worse && (device->types & DOUBLE_BIT) != 0) {
        event->eventType = DOUBLE_BIT;
        return true;
    }
    device->correctable = card->ecc_correctable;
    event->eventType = SINGLE_BIT;
    return bad && (device->types & SINGLE_BIT) != 0;
}

static bool card_lost(const struct handle *device) {
    const struct card *card = card_at(&device->address);
    return card == NULL || ((card->lost || card->fallen_off_bus) && device->calls >= card->after_calls);
}

/* What a set has to tell now: an event, then that a card is lost, else NVML_ERROR_TIMEOUT. */
static nvmlReturn_t look(struct event_set *set, nvmlEventData_t *event) {
    bool lost = false;
    for (struct registration *device = set->devices; device != NULL; device = device->next) {
        const struct card *card = card_at(&device->device->address);
        if (card != NULL && news(device, card, event)) {
            return NVML_SUCCESS;
        }
        lost = lost || card_lost(device->device);
    }
    return lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
}

static nvmlReturn_t wait_for(const char *function, nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms) {
    nvmlReturn_t answer = enter(function);
    if (answer != NVML_SUCCESS) {
        return answer;
    }
    const double until = since_start() + timeout_ms / 1000.0;
    for (;;) {
        if (event == NULL || !set_known(set)) {
            return leave(NVML_ERROR_INVALID_ARGUMENT);
        }
        answer = look(set, event);
        if (answer != NVML_ERROR_TIMEOUT || since_start() >= until) {
            return leave(answer);
        }
        release();
        nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_NS}, NULL);
        answer = enter(function); /* reads a file that changed */
        if (answer != NVML_SUCCESS) {
            return answer;
        }
    }
}

API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms) {
    return wait_for(__func__, set, event, timeout_ms);
}

API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms) {
    return wait_for(__func__, set, event, timeout_ms);
}
