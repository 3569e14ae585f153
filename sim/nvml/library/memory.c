/* Memory: of the card, or of the MIG device in its place. */
#include "state.h"

enum { MIB_BITS = 20 };

static unsigned long long bytes(unsigned mib) {
    return (unsigned long long)mib << MIB_BITS;
}

/* Of a card in MIG mode it is the sum of all instances, which the driver tells to privileged callers only. */
static bool hidden(const struct target *target) {
    return config->unprivileged && target->handle->kind == DEVICE && target->card->mig_mode == 1;
}

/* Total, reserved by the driver, used; a MIG device has its profile's memory and none of it used. */
static nvmlMemory_v2_t memory_of(const struct target *target) {
    const bool mig = target->handle->kind == MIG_DEVICE && target->profile != NULL;
    nvmlMemory_v2_t found = {
        .total = bytes(mig ? target->profile->memory_mib : target->card->memory_mib),
        .reserved = bytes(mig ? 0 : target->card->reserved_mib),
        .used = bytes(mig ? 0 : target->card->used_mib),
    };
    const unsigned long long taken = found.reserved + found.used;
    found.free = taken < found.total ? found.total - taken : 0;
    return found;
}

/* The first version knows no `reserved` and counts it as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (memory == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (hidden(&target)) {
        return leave(NVML_ERROR_NO_PERMISSION);
    }
    const nvmlMemory_v2_t found = memory_of(&target);
    *memory = (nvmlMemory_t){.total = found.total, .free = found.free, .used = found.used + found.reserved};
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (memory == NULL || memory->version != VERSIONED(nvmlMemory_v2_t, 2)) {
        return leave(memory == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    if (hidden(&target)) {
        return leave(NVML_ERROR_NO_PERMISSION);
    }
    *memory = memory_of(&target);
    memory->version = VERSIONED(nvmlMemory_v2_t, 2);
    return leave(NVML_SUCCESS);
}
