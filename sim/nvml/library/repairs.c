/* What a card did about bad memory: rows remapped. */
#include <stddef.h>

#include "state.h"

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
