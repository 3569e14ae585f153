/* Which devices there are, their handles, and by what names they are known. */
#include <stdio.h>
#include <string.h>

#include "state.h"

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *into) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *into = listed_count();
    return leave(NVML_SUCCESS);
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

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (device == NULL || index >= listed_count()) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    return give(__func__, listed(index), device);
}

/* The card or MIG device of that uuid; NULL where there is none. */
static struct handle *with_uuid(const char *uuid) {
    for (unsigned i = 0; i < listed_count(); i++) {
        const struct card *card = card_at(&listed(i)->address);
        if (card == NULL) {
            continue;
        }
        if (strcmp(card->uuid, uuid) == 0) {
            return listed(i);
        }
        for (unsigned n = 0; n < card->n_compute_instances; n++) {
            const struct compute_instance *instance = &card->compute_instances[n];
            if (strcmp(instance->uuid, uuid) == 0) {
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
    return give(__func__, with_uuid(uuid), device);
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
