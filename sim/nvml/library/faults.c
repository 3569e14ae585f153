/* Which of a configuration's faults a call meets. */
#include <math.h>
#include <string.h>

#include "state.h"

/* `nvmlDeviceGetName` of the configuration names every version of the function, `…_v2` only that one. */
static bool names(const char *written, const char *function) {
    const size_t length = strlen(written);
    if (strcmp(written, "*") == 0 || strcmp(written, function) == 0) {
        return true;
    }
    return strncmp(written, function, length) == 0 && function[length] == '_' && function[length + 1] == 'v';
}

nvmlReturn_t fault_of(const char *function, const struct fault *faults, unsigned count, double *seconds) {
    nvmlReturn_t code = NVML_SUCCESS;
    for (unsigned i = 0; i < count; i++) {
        if (names(faults[i].function, function)) {
            code = faults[i].code != NVML_SUCCESS ? faults[i].code : code;
            *seconds = fmax(*seconds, faults[i].seconds);
        }
    }
    return code;
}
