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

/* A function that answers one text of a card. */
#define TEXT_OF_CARD(function, text)                                                   \
    API nvmlReturn_t function(nvmlDevice_t device, char *into, unsigned length) {      \
        const struct card *card = NULL;                                                \
        const nvmlReturn_t refused = enter_card(__func__, device, &card);              \
        if (refused != NVML_SUCCESS) {                                                 \
            return refused;                                                            \
        }                                                                              \
        return leave((text)[0] == '\0' ? NVML_ERROR_NOT_SUPPORTED : text_out(into, length, text)); \
    }

/* NVML's numbers of brands; cards made for data centres are `tesla` up to Turing and `nvidia` since Ampere. */
static unsigned brand_number(const char *brand) {
    static const struct {
        const char *name;
        unsigned number;
    } brands[] = {{"quadro", 1}, {"tesla", 2}, {"grid", 4}, {"geforce", 5}, {"titan", 6}, {"quadro_rtx", 12},
                  {"nvidia_rtx", 13}, {"nvidia", 14}, {"geforce_rtx", 15}};
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++) {
        if (strcmp(brands[i].name, brand) == 0) {
            return brands[i].number;
        }
    }
    return 0;
}

/* NVML's numbers of architectures, which the compute capability tells. */
static unsigned architecture(const struct card *card) {
    const unsigned capability = card->compute_major * 10 + card->compute_minor;
    static const struct {
        unsigned from, number;
    } known[] = {{100, 10}, {90, 9}, {89, 8}, {80, 7}, {75, 6}, {70, 5}, {60, 4}, {50, 3}, {30, 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (capability >= known[i].from) {
            return known[i].number;
        }
    }
    return 0xffffffff;
}

/* The board's number: domain, bus and device in one, as nvidia-smi shows it (0x5300 for bus 53). */
static unsigned board_id(const struct card *card) {
    return card->address.domain << 16U | card->address.bus << 8U | card->address.device;
}

NUMBER_OF_CARD(nvmlDeviceGetMinorNumber, true, card->minor)
NUMBER_OF_CARD(nvmlDeviceGetModuleId, card->module > 0, card->module)
NUMBER_OF_CARD(nvmlDeviceGetBoardId, true, board_id(card))
NUMBER_OF_CARD(nvmlDeviceGetMultiGpuBoard, true, 0)
NUMBER_OF_CARD(nvmlDeviceGetBrand, true, brand_number(card->brand))
NUMBER_OF_CARD(nvmlDeviceGetArchitecture, card->compute_major > 0, architecture(card))
NUMBER_OF_CARD(nvmlDeviceGetPersistenceMode, true, card->persistence)
NUMBER_OF_CARD(nvmlDeviceGetComputeMode, true, card->compute_mode)
NUMBER_OF_CARD(nvmlDeviceGetDisplayMode, true, card->display)
NUMBER_OF_CARD(nvmlDeviceGetDisplayActive, true, card->display)
NUMBER_OF_CARD(nvmlDeviceGetPerformanceState, true, card->pstate)
NUMBER_OF_CARD(nvmlDeviceGetPowerState, true, card->pstate)
NUMBER_OF_CARD(nvmlDeviceGetPowerManagementMode, card->power_limit_mw >= 0, 1)
NUMBER_OF_CARD(nvmlDeviceGetPowerUsage, card->power_mw >= 0, card->power_mw)
NUMBER_OF_CARD(nvmlDeviceGetPowerManagementLimit, card->power_limit_mw >= 0, card->power_limit_mw)
NUMBER_OF_CARD(nvmlDeviceGetPowerManagementDefaultLimit, card->power_limit_mw >= 0, card->power_limit_mw)
NUMBER_OF_CARD(nvmlDeviceGetEnforcedPowerLimit, card->power_limit_mw >= 0, card->power_limit_mw)
NUMBER_OF_CARD(nvmlDeviceGetFanSpeed, card->fan >= 0, card->fan)
NUMBER_OF_CARD(nvmlDeviceGetRetiredPagesPendingStatus, card->retired_pages >= 0, card->retired_pending)
NUMBER_OF_CARD(nvmlDeviceGetVirtualizationMode, true, 0)

TEXT_OF_CARD(nvmlDeviceGetSerial, card->serial)
TEXT_OF_CARD(nvmlDeviceGetBoardPartNumber, card->board)
TEXT_OF_CARD(nvmlDeviceGetVbiosVersion, card->vbios)

/* The firmware comes with the driver and has its version; the client's buffer has 64 bytes by the interface. */
API nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version) {
    enum { ROOM = 64 };
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    return refused != NVML_SUCCESS ? refused : leave(text_out(version, ROOM, config->driver_version));
}

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
