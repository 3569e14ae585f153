/* What a card tells in one number each: identity that never changes, then settings.
 *
 * One line a function: its name, the structure's field, and whether this card has it at all. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* A function that answers one unsigned number of a card, or NOT_SUPPORTED where `supported` is false. */
#define NUMBER_OF_CARD(function, supported, value)                            \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned *into) {          \
        const struct card *card = NULL;                                       \
        const nvmlReturn_t refused = enter_card(__func__, device, &card);     \
        if (refused != NVML_SUCCESS) {                                        \
            return refused;                                                   \
        }                                                                     \
        if (into == NULL) {                                                   \
            return leave(NVML_ERROR_INVALID_ARGUMENT);                        \
        }                                                                     \
        if (!(supported)) {                                                   \
            return leave(NVML_ERROR_NOT_SUPPORTED);                           \
        }                                                                     \
        *into = (unsigned)(value);                                            \
        return leave(NVML_SUCCESS);                                           \
    }

NUMBER_OF_CARD(nvmlDeviceGetMinorNumber, true, card->minor)
NUMBER_OF_CARD(nvmlDeviceGetPersistenceMode, true, card->persistence)
NUMBER_OF_CARD(nvmlDeviceGetPowerUsage, card->power_mw >= 0, card->power_mw)

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct target target;
    const nvmlReturn_t refused = enter_device(__func__, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (major == NULL || minor == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *major = (int)target.card->compute_major;
    *minor = (int)target.card->compute_minor;
    return leave(NVML_SUCCESS);
}
