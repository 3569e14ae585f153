/* Compute instances inside a GPU instance: what it offers, and which exist. */
#include "state.h"

enum { KINDS = 9, ENGINES_SHARED = 0 }; /* NVML_COMPUTE_INSTANCE_PROFILE_COUNT of this interface */

static nvmlReturn_t offered(const struct target *target, unsigned profile, unsigned engines, unsigned *slices) {
    if (profile >= KINDS || engines != ENGINES_SHARED) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *slices = compute_slices(profile);
    const bool fits = target->profile != NULL && *slices > 0 && *slices <= target->profile->slices;
    return fits ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned profile,
                                                              unsigned engines,
                                                              nvmlComputeInstanceProfileInfo_t *info) {
    struct target target;
    const nvmlReturn_t refused = enter_kind(__func__, instance, GPU_INSTANCE, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    unsigned slices = 0;
    const nvmlReturn_t found = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : offered(&target, profile, engines, &slices);
    if (found != NVML_SUCCESS) {
        return leave(found);
    }
    *info = (nvmlComputeInstanceProfileInfo_t){
        .id = profile, .sliceCount = slices, .instanceCount = target.profile->slices / slices,
        .multiprocessorCount = target.profile->sm * slices / target.profile->slices,
        .sharedCopyEngineCount = target.profile->copy, .sharedDecoderCount = target.profile->decoder,
        .sharedEncoderCount = target.profile->encoder, .sharedJpegCount = target.profile->jpeg,
        .sharedOfaCount = target.profile->ofa,
    };
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned id,
                                                       nvmlComputeInstance_t *into) {
    struct target target;
    const nvmlReturn_t refused = enter_kind(__func__, instance, GPU_INSTANCE, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    for (unsigned i = 0; i < target.card->n_compute_instances; i++) {
        const struct compute_instance *there = &target.card->compute_instances[i];
        if (there->gpu_instance == instance->gpu_instance && there->id == id) {
            *into = handle_of(COMPUTE_INSTANCE, &instance->address, there->gpu_instance, id);
            return leave(*into == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

/* The first version has no placement; clients of today ask for the second. */
API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *info) {
    struct target target;
    const nvmlReturn_t refused = enter_kind(__func__, instance, COMPUTE_INSTANCE, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    unsigned start = 0; /* instances lie one behind the other in the order of the file */
    for (unsigned i = 0; i < target.card->n_compute_instances; i++) {
        const struct compute_instance *before = &target.card->compute_instances[i];
        if (before == target.compute_instance) {
            break;
        }
        start += before->gpu_instance == instance->gpu_instance ? compute_slices(before->profile) : 0;
    }
    *info = (nvmlComputeInstanceInfo_t){
        .device = handle_of(DEVICE, &instance->address, 0, 0),
        .gpuInstance = handle_of(GPU_INSTANCE, &instance->address, instance->gpu_instance, 0),
        .id = target.compute_instance->id,
        .profileId = target.compute_instance->profile,
        .placement = {.start = start, .size = compute_slices(target.compute_instance->profile)},
    };
    return leave(NVML_SUCCESS);
}
