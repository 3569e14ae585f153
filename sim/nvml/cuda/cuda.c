/* libcuda.so.1: of CUDA's driver interface what a program needs that tries a card: contexts, memory, copies.
 *
 * It reads the file of the fake NVML, once, at cuInit. Devices are those that CUDA_VISIBLE_DEVICES names by uuid, up to
 * the first that is not there, and of a card in MIG mode one instance a process: what CUDA itself shows. "Memory of the
 * card" is the process's own. Every context is noted, by uuid, at the end of the file that FAKE_CUDA_LOG names. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../library/state.h"

typedef unsigned CUresult;
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,
};
enum { EXCLUSIVE_PROCESS = 3, CONTEXT_MIB = 300 };

/* What a process sees as one device: a card, or a MIG device of it; a context is the device that it is made on. */
struct seen {
    const struct card *card;
    const char *uuid;
    bool mig;
};

static struct config *machine;
static struct seen devices[MAX_CARDS];
static int count;
static struct seen *current;

static const struct {
    CUresult code;
    const char *name;
} names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
};

/* A fault that the file gives a function, of the system or of a card; one that hangs does so here. */
static CUresult fault(const char *function, const struct card *card) {
    double seconds = 0;
    const CUresult code = card == NULL ? fault_of(function, machine->faults, machine->n_faults, &seconds)
                                       : fault_of(function, card->faults, card->n_faults, &seconds);
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (seconds > 0 && nanosleep(&left, &left) != 0) {
    }
    return code;
}

/* How a call begins: initialised, and without a fault of the system's or of the card's. */
static CUresult begin(const char *function, const struct card *card) {
    if (machine == NULL) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    const CUresult code = fault(function, NULL);
    return code != CUDA_SUCCESS || card == NULL ? code : fault(function, card);
}

static bool show(const struct card *card, const char *uuid, bool mig) {
    if (count < MAX_CARDS) {
        devices[count++] = (struct seen){card, uuid, mig};
    }
    return true;
}

static bool first_instance(const struct card *card) {
    return card->n_compute_instances > 0 && show(card, card->compute_instances[0].uuid, true);
}

/* Show what a word of CUDA_VISIBLE_DEVICES names; false where there is no such thing. */
static bool named(const char *word) {
    for (unsigned i = 0; i < machine->n_cards; i++) {
        const struct card *card = &machine->cards[i];
        if (card->lost || card->fallen_off_bus) {
            continue;
        }
        if (strcmp(card->uuid, word) == 0) {
            return card->mig_mode == 1 ? first_instance(card) : show(card, card->uuid, false);
        }
        for (unsigned j = 0; j < card->n_compute_instances; j++) {
            if (strcmp(card->compute_instances[j].uuid, word) == 0) {
                return show(card, card->compute_instances[j].uuid, true);
            }
        }
    }
    return false;
}

static void look(void) {
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    if (wanted == NULL) {
        for (unsigned i = 0; i < machine->n_cards; i++) {
            if (machine->cards[i].mig_mode != 1) {
                named(machine->cards[i].uuid);
            }
        }
        for (unsigned i = 0; count == 0 && i < machine->n_cards; i++) {
            first_instance(&machine->cards[i]);
        }
        return;
    }
    char *words = strdup(wanted), *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word != NULL && named(word); word = strtok_r(NULL, ",", &rest)) {
    }
    free(words);
}

API CUresult cuInit(unsigned flags) {
    const char *path = getenv("FAKE_NVML_CONFIG");
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (machine != NULL) {
        return CUDA_SUCCESS;
    }
    struct config *found = path == NULL ? NULL : config_read(path);
    if (found == NULL || found->driver_not_loaded) {
        return found == NULL ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_NO_DEVICE;
    }
    if (found->version_mismatch) {
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
    machine = found;
    look();
    CUresult code = begin(__func__, NULL);
    for (int i = 0; code == CUDA_SUCCESS && i < count; i++) {
        code = fault(__func__, devices[i].card);
    }
    if (code == CUDA_SUCCESS && count == 0) {
        code = CUDA_ERROR_NO_DEVICE;
    }
    machine = code == CUDA_SUCCESS ? machine : NULL;
    return code;
}

API CUresult cuDriverGetVersion(int *version) {
    const CUresult refused = begin(__func__, NULL);
    if (refused == CUDA_SUCCESS) {
        *version = (int)(1000 * machine->cuda_major + 10 * machine->cuda_minor);
    }
    return refused;
}

API CUresult cuDeviceGetCount(int *into) {
    const CUresult refused = begin(__func__, NULL);
    if (refused == CUDA_SUCCESS) {
        *into = count;
    }
    return refused;
}

API CUresult cuDeviceGet(int *device, int ordinal) {
    const CUresult refused = begin(__func__, NULL);
    if (refused == CUDA_SUCCESS && (ordinal < 0 || ordinal >= count)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (refused == CUDA_SUCCESS) {
        *device = ordinal;
    }
    return refused;
}

static void note(const char *uuid) {
    const char *path = getenv("FAKE_CUDA_LOG");
    const int file = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0) {
        dprintf(file, "%s\n", uuid);
        close(file);
    }
}

/* A card that one process has for itself, or whose memory is taken, has no room for another's context. */
static CUresult room(const struct seen *device) {
    const struct card *card = device->card;
    if (card->compute_mode == EXCLUSIVE_PROCESS && card->used_mib > 0) {
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
    const bool full = !device->mig && card->reserved_mib + card->used_mib + CONTEXT_MIB > card->memory_mib;
    return full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v2(struct seen **context, unsigned flags, int device) {
    (void)flags;
    if (machine != NULL && (device < 0 || device >= count)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    CUresult code = begin(__func__, machine == NULL ? NULL : devices[device].card);
    code = code == CUDA_SUCCESS ? room(&devices[device]) : code;
    if (code == CUDA_SUCCESS) {
        *context = current = &devices[device];
        note(current->uuid);
    }
    return code;
}

API CUresult cuCtxDestroy_v2(struct seen *context) {
    const CUresult refused = begin(__func__, NULL);
    if (refused == CUDA_SUCCESS && (context == NULL || context != current)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    current = refused == CUDA_SUCCESS ? NULL : current;
    return refused;
}

/* A call in the current context. */
static CUresult within(const char *function) {
    const CUresult refused = begin(function, current == NULL ? NULL : current->card);
    return refused == CUDA_SUCCESS && current == NULL ? CUDA_ERROR_INVALID_CONTEXT : refused;
}

API CUresult cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    const CUresult refused = within(__func__);
    if (refused == CUDA_SUCCESS) {
        *pointer = (unsigned long long)(uintptr_t)malloc(bytes);
    }
    return refused;
}

API CUresult cuMemFree_v2(unsigned long long pointer) {
    const CUresult refused = within(__func__);
    if (refused == CUDA_SUCCESS) {
        free((void *)(uintptr_t)pointer);
    }
    return refused;
}

API CUresult cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) {
    const CUresult refused = within(__func__);
    if (refused == CUDA_SUCCESS) {
        memcpy((void *)(uintptr_t)to, from, bytes);
    }
    return refused;
}

API CUresult cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
    const CUresult refused = within(__func__);
    if (refused == CUDA_SUCCESS) {
        memcpy(to, (const void *)(uintptr_t)from, bytes);
        if (current->card->corrupts && bytes > 0) {
            ((unsigned char *)to)[bytes / 2] ^= 1;
        }
    }
    return refused;
}

API CUresult cuGetErrorName(CUresult code, const char **name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code == code) {
            *name = names[i].name;
            return CUDA_SUCCESS;
        }
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
