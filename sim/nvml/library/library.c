/* Initialisation, the lock around every call, and the faults that a call meets on its way in. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "state.h"

struct config *config;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users; /* initialisations without their shutdown */
static struct stat seen;

static void hold(void) {
    pthread_mutex_lock(&lock);
}

static void release(void) {
    pthread_mutex_unlock(&lock);
}

nvmlReturn_t leave(nvmlReturn_t answer) {
    release();
    return answer;
}

static bool changed(const struct stat *now) {
    return now->st_mtim.tv_sec != seen.st_mtim.tv_sec || now->st_mtim.tv_nsec != seen.st_mtim.tv_nsec ||
           now->st_ino != seen.st_ino || now->st_size != seen.st_size;
}

/* Read the file again where it changed; false where the last good one stays although it should not. */
static bool refresh(void) {
    const char *path = getenv("FAKE_NVML_CONFIG");
    struct stat now;
    if (path == NULL || stat(path, &now) != 0) {
        return false;
    }
    if (config != NULL && !changed(&now)) {
        return true;
    }
    struct config *fresh = config_read(path);
    seen = now; /* a bad file is told once, not at every call */
    if (fresh == NULL) {
        return false;
    }
    free(config);
    config = fresh;
    return true;
}

static void hang(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    release();
    while (nanosleep(&left, &left) != 0) {
    }
    hold();
}

nvmlReturn_t enter(const char *function) {
    hold();
    if (users == 0) {
        return leave(NVML_ERROR_UNINITIALIZED);
    }
    refresh();
    double seconds = 0;
    const nvmlReturn_t code = fault_of(function, config->faults, config->n_faults, &seconds);
    if (seconds > 0) {
        hang(seconds);
        if (users == 0) {
            return leave(NVML_ERROR_UNINITIALIZED);
        }
    }
    return code == NVML_SUCCESS ? NVML_SUCCESS : leave(code);
}

/* The card's own faults, once it has answered as often as `after_calls` lets it. */
static nvmlReturn_t card_fault(const char *function, struct target *target, double *seconds) {
    struct handle *device = handle_of(DEVICE, &target->handle->address, 0, 0);
    if (device == NULL || device->calls++ < target->card->after_calls) {
        return NVML_SUCCESS;
    }
    if (target->card->lost || target->card->fallen_off_bus) {
        return NVML_ERROR_GPU_IS_LOST;
    }
    return fault_of(function, target->card->faults, target->card->n_faults, seconds);
}

static nvmlReturn_t gone(const struct target *target) {
    /* A card that left is lost; an instance that was destroyed is a handle that is none any more. */
    return target->card == NULL ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t proceed(const char *function, struct handle *handle, struct target *target) {
    if (!handle_known(handle)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!resolve(handle, target)) {
        return leave(gone(target));
    }
    double seconds = 0;
    const nvmlReturn_t code = card_fault(function, target, &seconds);
    if (seconds > 0) {
        hang(seconds);
        refresh();
        if (users == 0 || !resolve(handle, target)) {
            return leave(users == 0 ? NVML_ERROR_UNINITIALIZED : gone(target));
        }
    }
    return code == NVML_SUCCESS ? NVML_SUCCESS : leave(code);
}

static nvmlReturn_t enter_handle(const char *function, struct handle *handle, struct target *target) {
    const nvmlReturn_t refused = enter(function);
    return refused != NVML_SUCCESS ? refused : proceed(function, handle, target);
}

nvmlReturn_t enter_kind(const char *function, struct handle *handle, enum kind kind, struct target *target) {
    const nvmlReturn_t refused = enter_handle(function, handle, target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    return handle->kind == kind ? NVML_SUCCESS : leave(NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, struct target *target) {
    const nvmlReturn_t refused = enter_handle(function, device, target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    const bool fits = device->kind == DEVICE || device->kind == MIG_DEVICE;
    return fits ? NVML_SUCCESS : leave(NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t enter_card(const char *function, nvmlDevice_t device, const struct card **card) {
    struct target target;
    const nvmlReturn_t refused = enter_device(function, device, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    *card = target.card;
    return device->kind == DEVICE ? NVML_SUCCESS : leave(NVML_ERROR_NOT_SUPPORTED);
}

static nvmlReturn_t start(void) {
    free(config);
    config = NULL;
    const char *path = getenv("FAKE_NVML_CONFIG");
    struct stat now;
    if (path == NULL || stat(path, &now) != 0) {
        fprintf(stderr, "fake NVML: %s\n", path == NULL ? "FAKE_NVML_CONFIG names no file" : "no such file: no driver");
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (!refresh()) {
        return NVML_ERROR_UNKNOWN;
    }
    if (config->driver_not_loaded || config->version_mismatch) {
        return config->driver_not_loaded ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    handles_restart();
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags; /* a machine without cards is no failure here, so NO_GPUS has nothing to change */
    hold();
    nvmlReturn_t answer = users == 0 ? start() : NVML_SUCCESS;
    double seconds = 0;
    if (answer == NVML_SUCCESS) {
        answer = fault_of("nvmlInit", config->faults, config->n_faults, &seconds);
    }
    users += answer == NVML_SUCCESS;
    if (seconds > 0) {
        hang(seconds);
    }
    return leave(answer);
}

API nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

API nvmlReturn_t nvmlShutdown(void) {
    hold();
    if (users == 0) {
        return leave(NVML_ERROR_UNINITIALIZED);
    }
    users--;
    return leave(NVML_SUCCESS);
}
