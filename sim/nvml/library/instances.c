/* GPU instances: what the card offers. */
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
