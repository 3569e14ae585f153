/* Reads every file named on the command line as a configuration and asks all that it can of what it finds.
 * Built together with the library under sanitizers: what is tested is that nothing is read or written astray. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t, nvmlPciInfo_t *);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t, unsigned *);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t, unsigned, nvmlGpuInstanceProfileInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t, nvmlDeviceAttributes_t *);
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t, unsigned, nvmlGpuInstance_t *);
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t, nvmlGpuInstanceInfo_t *);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t, unsigned, unsigned,
                                                          nvmlComputeInstanceProfileInfo_t *);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, nvmlPciInfo_t *);

static void ask_mig(nvmlDevice_t device) {
    unsigned most = 0;
    nvmlDeviceGetMaxMigDeviceCount(device, &most);
    for (unsigned i = 0; i < 32; i++) {
        nvmlDevice_t mig = NULL;
        char text[400];
        if (nvmlDeviceGetMigDeviceHandleByIndex(device, i, &mig) == NVML_SUCCESS) {
            nvmlDeviceAttributes_t attributes;
            nvmlDeviceGetAttributes_v2(mig, &attributes);
            nvmlDeviceGetName(mig, text, sizeof text);
            nvmlDeviceGetUUID(mig, text, sizeof text);
        }
        nvmlGpuInstanceProfileInfo_v2_t info = {.version = VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2)};
        nvmlDeviceGetGpuInstanceProfileInfoV(device, i, &info);
        nvmlGpuInstance_t instance = NULL;
        nvmlGpuInstanceInfo_t place;
        nvmlComputeInstanceProfileInfo_t offer;
        if (nvmlDeviceGetGpuInstanceById(device, i, &instance) == NVML_SUCCESS) {
            nvmlGpuInstanceGetInfo(instance, &place);
            for (unsigned profile = 0; profile < 10; profile++) {
                nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, 0, &offer);
            }
        }
    }
}

static void ask(unsigned index) {
    nvmlDevice_t device = NULL;
    if (nvmlDeviceGetHandleByIndex_v2(index, &device) != NVML_SUCCESS) {
        return;
    }
    char text[400];
    nvmlPciInfo_t pci;
    nvmlDeviceGetName(device, text, sizeof text);
    nvmlDeviceGetUUID(device, text, sizeof text);
    nvmlDeviceGetPciInfo_v3(device, &pci);
    for (unsigned link = 0; link < 40; link++) {
        nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &pci);
    }
    ask_mig(device);
}

int main(int count, char **paths) {
    unsigned good = 0;
    for (int i = 1; i < count; i++) {
        setenv("FAKE_NVML_CONFIG", paths[i], 1);
        if (nvmlInit_v2() != NVML_SUCCESS) {
            continue;
        }
        good++;
        unsigned cards = 0;
        nvmlDeviceGetCount_v2(&cards);
        for (unsigned card = 0; card < cards; card++) {
            ask(card);
        }
        /* The next file takes the place of this one under the handles. */
        setenv("FAKE_NVML_CONFIG", paths[i + 1 < count ? i + 1 : 1], 1);
        for (unsigned card = 0; card < cards; card++) {
            ask(card);
        }
        nvmlShutdown();
    }
    printf("%u of %d\n", good, count - 1);
    return 0;
}
