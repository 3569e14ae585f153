/* NVLink: state of each link, and what is at its other end. */
#include "state.h"

/* Begin a call about a link: a number past the last possible is an argument, one that this card does not have, or a
 * card in MIG mode (which has no links to offer), is not supported. */
static nvmlReturn_t enter_link(const char *function, nvmlDevice_t device, unsigned number, const struct link **link) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(function, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (number >= MAX_LINKS) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    for (unsigned i = 0; card->mig_mode != 1 && i < card->n_links; i++) {
        if (card->links[i].number == number) {
            *link = &card->links[i];
            return NVML_SUCCESS;
        }
    }
    return leave(NVML_ERROR_NOT_SUPPORTED);
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned number, unsigned *active) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(__func__, device, number, &link);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (active == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *active = link->up;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned number, unsigned *type) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(__func__, device, number, &link);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (type == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *type = link->type;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned number, nvmlPciInfo_t *pci) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(__func__, device, number, &link);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (pci == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!link->up) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* nobody answers at the other end */
    }
    *pci = (nvmlPciInfo_t){
        .domain = link->remote.domain,
        .bus = link->remote.bus,
        .device = link->remote.device,
        .pciDeviceId = link->pci_id,
    };
    pci_text(&link->remote, pci->busIdLegacy, pci->busId);
    return leave(NVML_SUCCESS);
}
