/* GPU instances: what the card offers, where each may be placed, and which exist. */
#include <stdio.h>
#include <string.h>

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

/* The versioned forms carry a name, `MIG 1g.10gb` as nvidia-smi shows it; both have one size. */
static void versioned(const struct profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info) {
    if (info->version == VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2)) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){
            .version = info->version, .id = profile->id, .isP2pSupported = profile->p2p,
            .sliceCount = profile->slices, .instanceCount = profile->instances, .multiprocessorCount = profile->sm,
            .copyEngineCount = profile->copy, .decoderCount = profile->decoder, .encoderCount = profile->encoder,
            .jpegCount = profile->jpeg, .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib,
        };
        snprintf(info->name, sizeof info->name, "MIG %.90s", profile->name);
        return;
    }
    nvmlGpuInstanceProfileInfo_v3_t *third = (nvmlGpuInstanceProfileInfo_v3_t *)(void *)info;
    *third = (nvmlGpuInstanceProfileInfo_v3_t){
        .version = info->version, .id = profile->id, .sliceCount = profile->slices,
        .instanceCount = profile->instances, .multiprocessorCount = profile->sm, .copyEngineCount = profile->copy,
        .decoderCount = profile->decoder, .encoderCount = profile->encoder, .jpegCount = profile->jpeg,
        .ofaCount = profile->ofa, .memorySizeMB = profile->memory_mib, .capabilities = profile->p2p,
    };
    snprintf(third->name, sizeof third->name, "MIG %.90s", profile->name);
}

static bool version_served(unsigned version) {
    return version == VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2) ||
           version == VERSIONED(nvmlGpuInstanceProfileInfo_v3_t, 3);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned index,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL || !version_served(info->version)) {
        return leave(info == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    const struct profile *profile = NULL;
    const nvmlReturn_t found = profile_of(card, index, &profile);
    if (found == NVML_SUCCESS) {
        versioned(profile, info);
    }
    return leave(found);
}

/* The same by the driver's id, which instances carry. */
API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned id,
                                                          nvmlGpuInstanceProfileInfo_v2_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL || !version_served(info->version)) {
        return leave(info == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    const struct profile *profile = profile_by_id(card, id);
    if (profile != NULL) {
        versioned(profile, info);
    }
    return leave(profile != NULL ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}

/* A client asks with no array for the number, then with one of that room. */
static nvmlReturn_t placements(const char *function, nvmlDevice_t device, unsigned id,
                               nvmlGpuInstancePlacement_t *into, unsigned *count) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(function, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const struct profile *profile = profile_by_id(card, id);
    if (count == NULL || (card->mig_mode == 1 && profile == NULL)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->mig_mode != 1) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (into != NULL && *count < profile->places) {
        *count = profile->places;
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    for (unsigned i = 0; into != NULL && i < profile->places; i++) {
        into[i] = (nvmlGpuInstancePlacement_t){.start = profile->starts[i], .size = profile->size};
    }
    *count = profile->places;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned id,
                                                            nvmlGpuInstancePlacement_t *into, unsigned *count) {
    return placements(__func__, device, id, into, count);
}

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                               nvmlGpuInstancePlacement_t *into, unsigned *count) {
    return placements(__func__, device, id, into, count);
}

/* Whether a new instance of `profile` at `start` would lie on one that exists. */
static bool taken(const struct card *card, const struct profile *profile, unsigned start) {
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        const struct gpu_instance *there = &card->gpu_instances[i];
        const struct profile *its = profile_by_id(card, there->profile);
        if (its != NULL && start < there->start + its->size && there->start < start + profile->size) {
            return true;
        }
    }
    return false;
}

/* Free slices of compute, which a placement in memory alone does not tell: 7 in all, 4 on a card of 4. */
static unsigned slices_left(const struct card *card) {
    unsigned all = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < card->n_profiles; i++) {
        all = card->profiles[i].slices > all ? card->profiles[i].slices : all;
    }
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        const struct profile *its = profile_by_id(card, card->gpu_instances[i].profile);
        used += its == NULL ? 0 : its->slices;
    }
    return used < all ? all - used : 0;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned id, unsigned *count) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const struct profile *profile = profile_by_id(card, id);
    if (count == NULL || profile == NULL || profile->slices == 0) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->mig_mode != 1) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    unsigned limit = profile->instances;
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        limit -= card->gpu_instances[i].profile == id && limit > 0;
    }
    const unsigned by_slices = slices_left(card) / profile->slices;
    limit = by_slices < limit ? by_slices : limit;
    unsigned places = 0;
    unsigned end = 0; /* where the last counted placement ends: places must not lie on each other */
    for (unsigned i = 0; i < profile->places; i++) {
        if (profile->starts[i] >= end && !taken(card, profile, profile->starts[i])) {
            end = profile->starts[i] + profile->size;
            places++;
        }
    }
    *count = places < limit ? places : limit;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *into,
                                           unsigned *count) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL || count == NULL || (card->mig_mode == 1 && profile_by_id(card, id) == NULL)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->mig_mode != 1) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (config->unprivileged) {
        return leave(NVML_ERROR_NO_PERMISSION);
    }
    *count = 0; /* the client's array has room for as many as the profile allows */
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        if (card->gpu_instances[i].profile == id) {
            into[(*count)++] = handle_of(GPU_INSTANCE, &card->address, card->gpu_instances[i].id, 0);
        }
    }
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
