/* NVLink: state of each link, and what is at its other end. */
#include <string.h>

#include "state.h"

enum { CAPABILITIES = 6 };
enum { P2P_SUPPORTED = 0, SYSMEM_ACCESS = 1, P2P_ATOMICS = 2, SYSMEM_ATOMICS = 3, LINK_VALID = 5 };

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

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned number, unsigned *version) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(__func__, device, number, &link);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (version == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *version = card_at(&device->address)->nvlink_version;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned number, unsigned capability,
                                               unsigned *result) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(__func__, device, number, &link);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (result == NULL || capability >= CAPABILITIES) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    static const bool always[CAPABILITIES] = {[P2P_SUPPORTED] = true, [SYSMEM_ACCESS] = true, [P2P_ATOMICS] = true,
                                              [SYSMEM_ATOMICS] = true};
    *result = capability == LINK_VALID ? link->up : always[capability];
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

static nvmlReturn_t remote(const char *function, nvmlDevice_t device, unsigned number, nvmlPciInfo_t *pci) {
    const struct link *link = NULL;
    const nvmlReturn_t refused = enter_link(function, device, number, &link);
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

/* Both versions take one structure: their difference is inside the driver. */
API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned number, nvmlPciInfo_t *pci) {
    return remote(__func__, device, number, pci);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned number, nvmlPciInfo_t *pci) {
    return remote(__func__, device, number, pci);
}
