/* Which devices there are, their handles, and by what names they are known. */
#include <stdio.h>
#include <string.h>

#include "state.h"

static nvmlReturn_t count(const char *function, unsigned *into) {
    const nvmlReturn_t refused = enter(function);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *into = listed_count();
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned *into) {
    return count(__func__, into);
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *into) {
    return count(__func__, into);
}

/* Hand out a device's handle, past the faults of its card; call with the lock held. */
static nvmlReturn_t give(const char *function, struct handle *device, nvmlDevice_t *into) {
    if (device == NULL) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    struct target target;
    const nvmlReturn_t refused = proceed(function, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    *into = device;
    return leave(NVML_SUCCESS);
}

static nvmlReturn_t by_index(const char *function, unsigned index, nvmlDevice_t *device) {
    const nvmlReturn_t refused = enter(function);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (device == NULL || index >= listed_count()) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    return give(function, listed(index), device);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return by_index(__func__, index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    return by_index(__func__, index, device);
}

/* The device whose card has that text, or the MIG device of that uuid; NULL where there is none. */
static struct handle *with_text(const char *text, size_t offset) {
    for (unsigned i = 0; i < listed_count(); i++) {
        const struct card *card = card_at(&listed(i)->address);
        if (card == NULL) {
            continue;
        }
        if (strcmp((const char *)card + offset, text) == 0) {
            return listed(i);
        }
        for (unsigned n = 0; offset == offsetof(struct card, uuid) && n < card->n_compute_instances; n++) {
            const struct compute_instance *instance = &card->compute_instances[n];
            if (strcmp(instance->uuid, text) == 0) {
                return handle_of(MIG_DEVICE, &card->address, instance->gpu_instance, instance->id);
            }
        }
    }
    return NULL;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (uuid == NULL || device == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    return give(__func__, with_text(uuid, offsetof(struct card, uuid)), device);
}

API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (serial == NULL || device == NULL || *serial == '\0') {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    return give(__func__, with_text(serial, offsetof(struct card, serial)), device);
}

static nvmlReturn_t by_bus_id(const char *function, const char *bus_id, nvmlDevice_t *device) {
    const nvmlReturn_t refused = enter(function);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    struct address address;
    if (bus_id == NULL || device == NULL || !address_parse(bus_id, &address)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    struct handle *found = NULL;
    for (unsigned i = 0; i < listed_count() && found == NULL; i++) {
        found = address_compare(&listed(i)->address, &address) == 0 ? listed(i) : NULL;
    }
    return give(function, found, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device) {
    return by_bus_id(__func__, bus_id, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    return by_bus_id(__func__, bus_id, device);
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    char text[3 * TEXT];
    mig_name(&target, text);
    return leave(text_out(name, length, text));
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const bool mig = device->kind == MIG_DEVICE;
    return leave(text_out(uuid, length, mig ? target.compute_instance->uuid : target.card->uuid));
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    for (unsigned i = 0; index != NULL && i < listed_count(); i++) {
        if (listed(i) == device) {
            *index = i;
            return leave(NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_INVALID_ARGUMENT);
}
