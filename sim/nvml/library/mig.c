/* MIG as it is configured: the mode, and the devices that clients see in place of the card.
 *
 * Only what exists is told here. Changing it (mode, creation, destruction) needs a state that several
 * processes share and is not served: those functions are not exported, and a client finds them missing. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* The slices of a compute instance, by NVML's numbers of their profiles. */
unsigned compute_slices(unsigned profile) {
    static const unsigned slices[] = {1, 2, 3, 4, 7, 8, 6};
    return profile < sizeof slices / sizeof *slices ? slices[profile] : 0;
}

/* `NVIDIA H100 80GB HBM3 MIG 1g.10gb`; an instance that has a part of its slices is named `1c.3g.40gb`. */
void mig_name(const struct target *target, char into[3 * TEXT]) {
    if (target->handle->kind != MIG_DEVICE || target->profile == NULL) {
        snprintf(into, 3 * TEXT, "%s", target->card->name);
        return;
    }
    const unsigned slices = compute_slices(target->compute_instance->profile);
    char part[16] = "";
    if (slices < target->profile->slices) {
        snprintf(part, sizeof part, "%uc.", slices);
    }
    snprintf(into, 3 * TEXT, "%s MIG %s%s", target->card->name, part, target->profile->name);
}

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (current == NULL || pending == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->mig_mode == NOT_GIVEN) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *current = (unsigned)card->mig_mode;
    *pending = (unsigned)(card->mig_pending == NOT_GIVEN ? card->mig_mode : card->mig_pending);
    return leave(NVML_SUCCESS);
}

/* How many MIG devices the card could hold at most; 0 where it is not in MIG mode. */
API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (count == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *count = 0;
    for (unsigned i = 0; card->mig_mode == 1 && i < card->n_profiles; i++) {
        const unsigned instances = card->profiles[i].instances;
        *count = instances > *count ? instances : *count;
    }
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (mig == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->mig_mode == NOT_GIVEN) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (card->mig_mode == 0 || index >= card->n_compute_instances) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    const struct compute_instance *instance = &card->compute_instances[index];
    *mig = handle_of(MIG_DEVICE, &card->address, instance->gpu_instance, instance->id);
    return leave(*mig == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
}

static nvmlReturn_t instance_id(const char *function, nvmlDevice_t mig, bool compute, unsigned *id) {
    struct target target;
    const nvmlReturn_t refused = enter_device(function, mig, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (id == NULL || mig->kind != MIG_DEVICE) {
        return leave(id == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED);
    }
    *id = compute ? mig->compute_instance : mig->gpu_instance;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned *id) {
    return instance_id(__func__, mig, false, id);
}

API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned *id) {
    return instance_id(__func__, mig, true, id);
}

API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (is == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *is = device->kind == MIG_DEVICE;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
    struct target target;
    const nvmlReturn_t refused = enter_kind(__func__, mig, MIG_DEVICE, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (device == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *device = handle_of(DEVICE, &mig->address, 0, 0);
    return leave(*device == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *into) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL || device->kind != MIG_DEVICE || target.profile == NULL) {
        return leave(into == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED);
    }
    const struct profile *profile = target.profile;
    const unsigned slices = compute_slices(target.compute_instance->profile);
    *into = (nvmlDeviceAttributes_t){
        .multiprocessorCount = profile->slices == 0 ? 0 : profile->sm * slices / profile->slices,
        .sharedCopyEngineCount = profile->copy,
        .sharedDecoderCount = profile->decoder,
        .sharedEncoderCount = profile->encoder,
        .sharedJpegCount = profile->jpeg,
        .sharedOfaCount = profile->ofa,
        .gpuInstanceSliceCount = profile->slices,
        .computeInstanceSliceCount = slices,
        .memorySizeMB = profile->memory_mib,
    };
    return leave(NVML_SUCCESS);
}
