/* Processes on the cards: none, as nothing runs on a simulated card; and single values by number of a field. */
#include <stddef.h>
#include <time.h>

#include "state.h"

/* The structures of the three versions differ; with no process there is none to fill in. */
static nvmlReturn_t none(const char *function, nvmlDevice_t device, unsigned *count) {
    struct target target;
    const nvmlReturn_t refused = enter_device(function, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (count == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *count = 0;
    return leave(NVML_SUCCESS);
}

#define NO_PROCESSES(function)                                                          \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned *count, void *processes) {  \
        (void)processes;                                                                \
        return none(__func__, device, count);                                           \
    }

NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

enum { VALUE_UNSIGNED = 1, VALUE_UNSIGNED_LONG_LONG = 3 };

/* The fields that collectors ask for and this file knows, by NVML's numbers; false for any other. */
static bool field(const struct card *card, nvmlFieldValue_t *value) {
    enum { ECC_CURRENT = 1, ECC_SBE_VOL_TOTAL = 3, ECC_DBE_VOL_TOTAL = 4, REMAPPED_COR = 142, REMAPPED_UNC = 143,
           REMAPPED_PENDING = 144, REMAPPED_FAILURE = 145, LINK_COUNT = 91, POWER_INSTANT = 186 };
    value->valueType = VALUE_UNSIGNED;
    const bool rows = card->remapped_correctable >= 0;
    switch (value->fieldId) {
    case ECC_CURRENT:
        value->value.uiVal = (unsigned)card->ecc_mode;
        return card->ecc_mode != NOT_GIVEN;
    case ECC_SBE_VOL_TOTAL:
    case ECC_DBE_VOL_TOTAL:
        value->valueType = VALUE_UNSIGNED_LONG_LONG;
        value->value.ullVal = value->fieldId == ECC_SBE_VOL_TOTAL ? card->ecc_correctable : card->ecc_uncorrectable;
        return card->ecc_mode == 1;
    case LINK_COUNT:
        value->value.uiVal = card->n_links;
        return card->n_links > 0;
    case REMAPPED_COR:
        value->value.uiVal = (unsigned)card->remapped_correctable;
        return rows;
    case REMAPPED_UNC:
        value->value.uiVal = card->remapped_uncorrectable < 0 ? 0 : (unsigned)card->remapped_uncorrectable;
        return rows;
    case REMAPPED_PENDING:
        value->value.uiVal = (unsigned)card->remap_pending;
        return rows;
    case REMAPPED_FAILURE:
        value->value.uiVal = (unsigned)card->remap_failure;
        return rows;
    case POWER_INSTANT:
        value->value.uiVal = (unsigned)card->power_mw;
        return card->power_mw >= 0;
    default:
        return false;
    }
}

/* The call succeeds as such; what each field answered stands beside it. */
API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (count < 0 || values == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = field(card, &values[i]) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    }
    return leave(NVML_SUCCESS);
}
