/* What is asked of the whole machine: versions, and the words for numbers of errors. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* A text into a client's buffer, or the answer that the buffer is too small for it. */
nvmlReturn_t text_out(char *into, unsigned length, const char *text) {
    if (into == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (strlen(text) >= length) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    strcpy(into, text);
    return NVML_SUCCESS;
}

/* Serves a client that did not initialise, as the only function of the library. */
API const char *nvmlErrorString(nvmlReturn_t result) {
    static const char *const words[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
        "vGPU ECC not supported", "Insufficient resources", "Frequency not supported", "Argument version mismatch",
        "Deprecated", "Not ready", "GPU not found", "Invalid state", "Reset type not supported",
    };
    return result < sizeof words / sizeof *words ? words[result] : "Unknown Error";
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    const nvmlReturn_t refused = enter(__func__);
    return refused != NVML_SUCCESS ? refused : leave(text_out(version, length, config->driver_version));
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    const nvmlReturn_t refused = enter(__func__);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (version == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *version = (int)(config->cuda_major * 1000 + config->cuda_minor * 10);
    return leave(NVML_SUCCESS);
}
