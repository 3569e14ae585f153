/* Threads that ask for everything while the file changes under them; built with ThreadSanitizer.
 * Usage: threads CONFIG ONE OTHER: the first becomes each of the others in turn. Prints how many calls were answered. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "state.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);

enum { THREADS = 4, ROUNDS = 300 };

static atomic_uint answered;

static void *client(void *nothing) {
    (void)nothing;
    nvmlInit_v2();
    for (unsigned round = 0; round < ROUNDS; round++) {
        nvmlDevice_t device = NULL;
        char name[96];
        nvmlMemory_t memory;
        nvmlDeviceGetHandleByIndex_v2(round % 4, &device);
        answered += nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS;
        answered += nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS;
    }
    nvmlShutdown();
    return NULL;
}

int main(int count, char **paths) {
    if (count != 4) {
        return 2;
    }
    setenv("FAKE_NVML_CONFIG", paths[1], 1);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, client, NULL);
    }
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.aside", paths[1]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (link(paths[2 + round % 2], aside) != 0 || rename(aside, paths[1]) != 0) {
            return 3;
        }
        usleep(100);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%u\n", answered);
    return 0;
}
