/* How far two cards are from each other: by host bridge where the file names it, else by NUMA node. */
#include <string.h>

#include "state.h"

enum { INTERNAL = 0, HOSTBRIDGE = 30, NODE = 40, SYSTEM = 50 };
enum { P2P_READ = 0, P2P_WRITE = 1, P2P_NVLINK = 2, P2P_ATOMICS = 3, P2P_PCI = 4 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };

static unsigned level_of(const struct card *a, const struct card *b) {
    if (address_compare(&a->address, &b->address) == 0) {
        return INTERNAL;
    }
    if (a->root[0] != '\0' && strcmp(a->root, b->root) == 0) {
        return HOSTBRIDGE;
    }
    return a->numa == b->numa ? NODE : SYSTEM;
}

/* Two cards in one call: the second is looked up as the first was, its faults included. */
static nvmlReturn_t enter_pair(const char *function, nvmlDevice_t a, nvmlDevice_t b, const struct card **first,
                               const struct card **second) {
    nvmlReturn_t refused = enter_card(function, a, first);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    struct target target;
    refused = proceed(function, b, &target);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    *first = card_at(&a->address); /* a fault that hangs lets the file be read anew */
    *second = target.card;
    return *first == NULL ? leave(NVML_ERROR_GPU_IS_LOST) : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, unsigned *level) {
    const struct card *first = NULL;
    const struct card *second = NULL;
    const nvmlReturn_t refused = enter_pair(__func__, a, b, &first, &second);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (level == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *level = level_of(first, second);
    return leave(NVML_SUCCESS);
}

/* The cards at exactly that distance. A client asks with room 0 for the number; less room than there are is filled. */
API nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned level, unsigned *count,
                                                  nvmlDevice_t *into) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (count == NULL || (*count > 0 && into == NULL)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    const unsigned room = *count;
    unsigned found = 0;
    for (unsigned i = 0; i < listed_count(); i++) {
        const struct card *other = card_at(&listed(i)->address);
        if (other == NULL || other == card || level_of(card, other) != level) {
            continue;
        }
        if (found < room) {
            into[found] = listed(i);
        }
        found++;
    }
    *count = room > 0 && room < found ? room : found;
    return leave(NVML_SUCCESS);
}

static bool linked(const struct card *a, const struct card *b) {
    enum { GPU = 0, SWITCH = 2 };
    for (unsigned i = 0; i < a->n_links; i++) {
        const struct link *link = &a->links[i];
        if (link->up && link->type == GPU && address_compare(&link->remote, &b->address) == 0) {
            return true;
        }
        for (unsigned n = 0; link->up && link->type == SWITCH && n < b->n_links; n++) {
            if (b->links[n].up && address_compare(&link->remote, &b->links[n].remote) == 0) {
                return true;
            }
        }
    }
    return false;
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, unsigned index, unsigned *status) {
    const struct card *first = NULL;
    const struct card *second = NULL;
    const nvmlReturn_t refused = enter_pair(__func__, a, b, &first, &second);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (status == NULL || index > P2P_PCI) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    const bool mig = first->mig_mode == 1 || second->mig_mode == 1;
    const bool nvlink = !mig && linked(first, second);
    const bool works = index == P2P_NVLINK || index == P2P_ATOMICS ? nvlink : !mig;
    *status = works ? P2P_OK : P2P_NOT_SUPPORTED;
    return leave(NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same) {
    const struct card *first = NULL;
    const struct card *second = NULL;
    const nvmlReturn_t refused = enter_pair(__func__, a, b, &first, &second);
    if (refused != NVML_SUCCESS) {
        return refused;
    }
    if (same == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *same = first == second;
    return leave(NVML_SUCCESS);
}

/* The NUMA node that the card's own memory forms; only coherent cards (GH200, GB200) are one. */
API nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node) {
    const struct card *card = NULL;
    const nvmlReturn_t refused = enter_card(__func__, device, &card);
    (void)node;
    return refused != NVML_SUCCESS ? refused : leave(NVML_ERROR_NOT_SUPPORTED);
}
