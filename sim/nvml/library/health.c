/* What is measured: temperature, utilization, clocks; and errors of memory with what was done about them. */
#include <stddef.h>

#include "state.h"

enum { SENSOR_GPU = 0 };
enum { CORRECTED = 0, UNCORRECTED = 1, ERROR_TYPES = 2, COUNTERS = 2 };
enum { LOCATION_DRAM = 2, LOCATIONS = 8 };
enum { THRESHOLD_SHUTDOWN = 0, THRESHOLD_SLOWDOWN = 1, THRESHOLDS = 8 };
enum { CLOCK_GRAPHICS = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2, CLOCK_TYPES = 4 };

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

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (temperature == NULL || temperature->version != VERSIONED(nvmlTemperature_v1_t, 1)) {
        return leave(temperature == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    if (temperature->sensorType != SENSOR_GPU) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    temperature->temperature = (int)card->temperature;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold, unsigned *temperature) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (temperature == NULL || threshold >= THRESHOLDS) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (threshold > THRESHOLD_SLOWDOWN) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *temperature = threshold == THRESHOLD_SHUTDOWN ? card->shutdown : card->slowdown;
    return leave(NVML_SUCCESS);
}

/* Not supported on a card in MIG mode, as its documentation says. */
API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (utilization == NULL || card->mig_mode == 1) {
        return leave(utilization == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED);
    }
    *utilization = (nvmlUtilization_t){.gpu = card->utilization_gpu, .memory = card->utilization_memory};
    return leave(NVML_SUCCESS);
}

static nvmlReturn_t clock_of(const char *function, nvmlDevice_t device, unsigned type, bool max, unsigned *mhz) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(function, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (mhz == NULL || type >= CLOCK_TYPES) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (type > CLOCK_MEMORY || card->clock_sm_max == 0) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    const unsigned memory = max ? card->clock_memory_max : card->clock_memory;
    *mhz = type == CLOCK_MEMORY ? memory : max ? card->clock_sm_max : card->clock_sm;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz) {
    return clock_of(__func__, device, type, false, mhz);
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz) {
    return clock_of(__func__, device, type, true, mhz);
}

static nvmlReturn_t reasons(const char *function, nvmlDevice_t device, bool supported, unsigned long long *into) {
    enum { ALL_REASONS = 0x1ff };
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(function, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (into == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *into = supported ? ALL_REASONS : card->throttle;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *into) {
    return reasons(__func__, device, false, into);
}

API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *into) {
    return reasons(__func__, device, false, into);
}

API nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *into) {
    return reasons(__func__, device, true, into);
}

API nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *into) {
    return reasons(__func__, device, true, into);
}

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (current == NULL || pending == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (card->ecc_mode == NOT_GIVEN) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *current = (unsigned)card->ecc_mode;
    *pending = (unsigned)(card->ecc_pending == NOT_GIVEN ? card->ecc_mode : card->ecc_pending);
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

/* All errors are in the card's memory (DRAM); the other places have none. */
API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                 unsigned location, unsigned long long *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const nvmlReturn_t answer = location >= LOCATIONS ? NVML_ERROR_INVALID_ARGUMENT : errors(card, type, counter, into);
    if (answer == NVML_SUCCESS && location != LOCATION_DRAM) {
        *into = 0;
    }
    return leave(answer);
}

API nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                                nvmlEccErrorCounts_t *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    unsigned long long count = 0;
    const nvmlReturn_t answer = errors(card, type, counter, into == NULL ? NULL : &count);
    if (answer == NVML_SUCCESS) {
        *into = (nvmlEccErrorCounts_t){.deviceMemory = count};
    }
    return leave(answer);
}
