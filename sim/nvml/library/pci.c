/* Where a card sits. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* The driver writes capitals, and the domain with 8 digits, or 4 in the older field; the function is always 0. */
void pci_text(const struct address *address, char legacy[16], char full[32]) {
    char text[32];
    snprintf(text, sizeof text, "%04X:%02X:%02X.0", address->domain, address->bus, address->device);
    if (strlen(text) >= 16) { /* a domain of more than 16 bits has no legacy form */
        text[0] = '\0';
    }
    memcpy(legacy, text, 16);
    snprintf(full, 32, "%08X:%02X:%02X.0", address->domain, address->bus, address->device);
}

static unsigned ids(unsigned device, unsigned vendor) {
    return device << 16U | vendor;
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (pci == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *pci = (nvmlPciInfo_t){
        .domain = card->address.domain,
        .bus = card->address.bus,
        .device = card->address.device,
        .pciDeviceId = ids(card->device, card->vendor),
        .pciSubSystemId = ids(card->subsystem_device, card->subsystem_vendor),
    };
    pci_text(&card->address, pci->busIdLegacy, pci->busId);
    return leave(NVML_SUCCESS);
}
