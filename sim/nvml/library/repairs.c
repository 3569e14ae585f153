/* What a card did about bad memory: rows remapped (since Ampere) or pages retired (before). */
#include <stddef.h>

#include "state.h"

enum { CAUSES = 2, DOUBLE_BIT = 1 };

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable, unsigned *uncorrectable,
                                           unsigned *pending, unsigned *failure) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (correctable == NULL || uncorrectable == NULL || pending == NULL || failure == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->remapped_correctable < 0) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *correctable = (unsigned)card->remapped_correctable;
    *uncorrectable = card->remapped_uncorrectable < 0 ? 0 : (unsigned)card->remapped_uncorrectable;
    *pending = (unsigned)card->remap_pending;
    *failure = (unsigned)card->remap_failure;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL || card->remapped_correctable < 0) {
        return leave(into == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED);
    }
    *into = (nvmlRowRemapperHistogramValues_t){.max = card->row_banks};
    return leave(NVML_SUCCESS);
}

/* Retired pages have the cause of an uncorrectable error, and addresses that only tell them apart. */
static nvmlReturn_t pages(const char *function, nvmlDevice_t device, unsigned cause, unsigned *count,
                          unsigned long long *addresses, unsigned long long *times) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(function, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (count == NULL || cause >= CAUSES) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->retired_pages < 0) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    const unsigned retired = cause == DOUBLE_BIT ? (unsigned)card->retired_pages : 0;
    const unsigned room = *count;
    *count = retired;
    if (room < retired || (retired > 0 && addresses == NULL)) {
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    for (unsigned i = 0; i < retired; i++) {
        addresses[i] = (unsigned long long)(i + 1) << 16U;
        if (times != NULL) {
            times[i] = 0;
        }
    }
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                           unsigned long long *addresses) {
    return pages(__func__, device, cause, count, addresses, NULL);
}

API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                              unsigned long long *addresses, unsigned long long *times) {
    return pages(__func__, device, cause, count, addresses, times);
}
