/* What is measured: temperature, why clocks are held down, errors of memory. */
#include <stddef.h>

#include "state.h"

enum { SENSOR_GPU = 0 };
enum { CORRECTED = 0, UNCORRECTED = 1, ERROR_TYPES = 2, COUNTERS = 2 };

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *temperature) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (temperature == NULL || sensor != SENSOR_GPU) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *temperature = card->temperature;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *into = card->throttle;
    return leave(NVML_SUCCESS);
}

/* Errors are counted where error correction is on; one number serves both counters, as on a machine just started. */
static nvmlReturn_t errors(const struct card *card, unsigned type, unsigned counter, unsigned long long *into) {
    if (into == NULL || type >= ERROR_TYPES || counter >= COUNTERS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (card->ecc_mode != 1) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *into = type == CORRECTED ? card->ecc_correctable : card->ecc_uncorrectable;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                             unsigned long long *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    return refused != NVML_SUCCESS ? refused : leave(errors(card, type, counter, into));
}
