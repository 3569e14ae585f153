/* Handles: what clients keep, made once for each thing named and never freed.
 *
 * A handle that is handed in is looked up before it is touched, so that a wild pointer of a client
 * is an invalid argument and not a crash of the test. Call with the lock held. */
#include <stdlib.h>

#include "state.h"

static struct handle *all;
static struct handle *devices[MAX_CARDS]; /* as the driver counted them at initialisation */
static unsigned n_devices;

struct handle *handle_of(enum kind kind, const struct address *address, unsigned gpu_instance,
                         unsigned compute_instance) {
    for (struct handle *handle = all; handle != NULL; handle = handle->next) {
        if (handle->kind == kind && address_compare(&handle->address, address) == 0 &&
            handle->gpu_instance == gpu_instance && handle->compute_instance == compute_instance) {
            return handle;
        }
    }
    struct handle *made = malloc(sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    *made = (struct handle){.next = all, .kind = kind, .address = *address, .gpu_instance = gpu_instance,
                            .compute_instance = compute_instance};
    all = made;
    return made;
}

bool handle_known(const struct handle *handle) {
    const struct handle *known = all;
    while (known != NULL && known != handle) {
        known = known->next;
    }
    return known != NULL && handle != NULL;
}

/* Count the devices anew, as a driver does for a client that initialises: indices stay so until its shutdown. */
void handles_restart(void) {
    n_devices = 0;
    for (struct handle *handle = all; handle != NULL; handle = handle->next) {
        handle->calls = 0;
    }
    for (unsigned i = 0; i < config->n_cards; i++) {
        struct handle *device = handle_of(DEVICE, &config->cards[i].address, 0, 0);
        if (device != NULL && !config->cards[i].fallen_off_bus) {
            devices[n_devices++] = device;
        }
    }
}

struct handle *listed(unsigned index) {
    return index < n_devices ? devices[index] : NULL;
}

unsigned listed_count(void) {
    return n_devices;
}

const struct card *card_at(const struct address *address) {
    for (unsigned i = 0; i < config->n_cards; i++) {
        if (address_compare(&config->cards[i].address, address) == 0) {
            return &config->cards[i];
        }
    }
    return NULL;
}

/* Fill in what the handle stands for; false where its card, or its instance on the card, is no more. */
bool resolve(struct handle *handle, struct target *target) {
    *target = (struct target){.handle = handle, .card = card_at(&handle->address)};
    if (target->card == NULL || handle->kind == DEVICE) {
        return target->card != NULL;
    }
    const struct card *card = target->card;
    for (unsigned i = 0; i < card->n_gpu_instances; i++) {
        if (card->gpu_instances[i].id == handle->gpu_instance) {
            target->gpu_instance = &card->gpu_instances[i];
            target->profile = profile_by_id(card, card->gpu_instances[i].profile);
        }
    }
    for (unsigned i = 0; i < card->n_compute_instances; i++) {
        const struct compute_instance *instance = &card->compute_instances[i];
        if (instance->gpu_instance == handle->gpu_instance && instance->id == handle->compute_instance) {
            target->compute_instance = instance;
        }
    }
    return target->gpu_instance != NULL && (handle->kind == GPU_INSTANCE || target->compute_instance != NULL);
}
