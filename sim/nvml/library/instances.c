/* GPU instances: what the card offers, and which exist. */
#include <stdio.h>

#include "state.h"

enum { KINDS = 18 }; /* NVML_GPU_INSTANCE_PROFILE_COUNT of this interface */

/* The card's profile of that kind; past the end of the kinds the argument is wrong, a hole is not supported. */
static nvmlReturn_t profile_of(const struct card *card, unsigned index, const struct profile **into) {
    for (unsigned i = 0; i < card->n_profiles; i++) {
        if (card->profiles[i].index == index) {
            *into = &card->profiles[i];
            return NVML_SUCCESS;
        }
    }
    return index < KINDS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

/* With a name, `MIG 1g.10gb` as nvidia-smi shows it. */
API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned index,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL || info->version != VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2)) {
        return leave(info == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    const struct profile *profile = NULL;
    const nvmlReturn_t found = profile_of(card, index, &profile);
    if (found == NVML_SUCCESS) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){
            .version = info->version, .id = profile->id, .isP2pSupported = profile->p2p,
            .sliceCount = profile->slices, .instanceCount = profile->instances, .multiprocessorCount = profile->sm,
            .copyEngineCount = profile->copy, .decoderCount = profile->decoder, .encoderCount = profile->encoder,
            .jpegCount = profile->jpeg, .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib,
        };
        snprintf(info->name, sizeof info->name, "MIG %.90s", profile->name);
    }
    return leave(found);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned index,
                                                     nvmlGpuInstanceProfileInfo_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const struct profile *profile = NULL;
    const nvmlReturn_t found = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : profile_of(card, index, &profile);
    if (found != NVML_SUCCESS) {
        return leave(found);
    }
    *info = (nvmlGpuInstanceProfileInfo_t){
        .id = profile->id, .isP2pSupported = profile->p2p, .sliceCount = profile->slices,
        .instanceCount = profile->instances, .multiprocessorCount = profile->sm, .copyEngineCount = profile->copy,
        .decoderCount = profile->decoder, .encoderCount = profile->encoder, .jpegCount = profile->jpeg,
        .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib,
    };
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL || card->mig_mode != 1) {
        return leave(into == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED);
    }
    if (config->unprivileged) {
        return leave(NVML_ERROR_NO_PERMISSION);
    }
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        if (card->gpu_instances[i].id == id) {
            *into = handle_of(GPU_INSTANCE, &card->address, id, 0);
            return leave(*into == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info) {
    struct target target;
    const nvmlReturn_t refused = enter_kind(__func__, instance, GPU_INSTANCE, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *info = (nvmlGpuInstanceInfo_t){
        .device = handle_of(DEVICE, &instance->address, 0, 0),
        .id = target.gpu_instance->id,
        .profileId = target.gpu_instance->profile,
        .placement = {.start = target.gpu_instance->start, .size = target.profile == NULL ? 0 : target.profile->size},
    };
    return leave(NVML_SUCCESS);
}
