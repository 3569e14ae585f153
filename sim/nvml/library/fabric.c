/* The NVLink fabric, of which the cards are told by the fabric manager: registered or not; one clique, no cluster. */
#include <stddef.h>

#include "state.h"

enum { NO_FABRIC = 0 };

static nvmlReturn_t enter_fabric(const char *function, nvmlDevice_t device, const struct card **card) {
    const nvmlReturn_t refused = enter_card(function, device, card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    return (*card)->fabric == NO_FABRIC ? leave(NVML_ERROR_NOT_SUPPORTED) : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_fabric(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *info = (nvmlGpuFabricInfo_t){.status = card->fabric_status, .state = card->fabric};
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_fabric(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (info->version == VERSIONED(nvmlGpuFabricInfo_v2_t, 2)) {
        *info = (nvmlGpuFabricInfo_v2_t){.version = info->version, .status = card->fabric_status, .state = card->fabric};
        return leave(NVML_SUCCESS);
    }
    if (info->version == VERSIONED(nvmlGpuFabricInfo_v3_t, 3)) {
        *(nvmlGpuFabricInfo_v3_t *)(void *)info =
            (nvmlGpuFabricInfo_v3_t){.version = info->version, .status = card->fabric_status, .state = card->fabric};
        return leave(NVML_SUCCESS);
    }
    return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}
