/* What the library knows: the configuration as read, and the handles that clients hold.
 *
 * Everything here is guarded by one mutex: a call holds it from enter…() to leave(), so a
 * configuration is never replaced under a call that reads it. Handles are never freed and name
 * a card by its PCI address, so one that a client kept stays valid to pass in after its card is gone. */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "api.h"

enum { MAX_CARDS = 64, MAX_PROFILES = 18, MAX_PLACES = 16, MAX_INSTANCES = 16, MAX_LINKS = 36, MAX_FAULTS = 32 };
enum { TEXT = 96 };
enum { NOT_GIVEN = -1 };

/* A PCI address in its parts. */
struct address {
    unsigned domain, bus, device, function;
};

/* A GPU instance profile that the card offers; `index` is NVML's number of the kind (1_SLICE = 0, …), `id` the
 * driver's own, `size` the memory slices of one instance, `starts` where one may begin. */
struct profile {
    char name[TEXT];
    unsigned index, id, slices, instances, memory_mib, sm, copy, decoder, encoder, jpeg, ofa, p2p, size;
    unsigned starts[MAX_PLACES], places;
};

struct gpu_instance {
    unsigned id, profile, start;
};

struct compute_instance {
    unsigned gpu_instance, id, profile;
    char uuid[TEXT];
};

struct link {
    unsigned number, type, pci_id;
    bool up;
    struct address remote;
};

/* A function that fails or hangs; `function` is a name with or without `_vN`, or `*`. The numbers of CUDA's errors are
 * CUDA's own. */
struct fault {
    char function[TEXT];
    nvmlReturn_t code; /* NVML_SUCCESS: it only hangs */
    double seconds;
};

struct card {
    struct address address;
    char uuid[TEXT], name[TEXT];
    unsigned minor, vendor, device, subsystem_vendor, subsystem_device, class_, compute_major, compute_minor;
    unsigned memory_mib, reserved_mib, used_mib;
    int mig_mode, mig_pending, ecc_mode, persistence, power_mw;
    unsigned temperature, compute_mode;
    unsigned throttle, fabric, fabric_status;
    unsigned ecc_correctable, ecc_uncorrectable;
    int remapped_correctable, remapped_uncorrectable, remap_pending, remap_failure;
    bool lost, fallen_off_bus, corrupts;
    unsigned after_calls;
    struct profile profiles[MAX_PROFILES];
    struct gpu_instance gpu_instances[MAX_INSTANCES];
    struct compute_instance compute_instances[MAX_INSTANCES];
    struct link links[MAX_LINKS];
    struct fault faults[MAX_FAULTS];
    unsigned n_profiles, n_gpu_instances, n_compute_instances, n_links, n_faults;
};

struct config {
    char driver_version[TEXT];
    unsigned cuda_major, cuda_minor;
    bool driver_not_loaded, version_mismatch, unprivileged;
    struct fault faults[MAX_FAULTS];
    unsigned n_faults;
    struct card cards[MAX_CARDS]; /* by address, as the driver counts them */
    unsigned n_cards;
};

enum kind { DEVICE, MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE };

/* A handle; `gpu_instance` and `compute_instance` are ids, where the kind has them. */
struct handle {
    struct handle *next;
    enum kind kind;
    struct address address;
    unsigned gpu_instance, compute_instance;
    unsigned calls; /* on the card since initialisation; counted on its DEVICE handle */
};

/* What a handle stands for now; the pointers live until leave(). */
struct target {
    struct handle *handle;
    const struct card *card;
    const struct gpu_instance *gpu_instance;
    const struct compute_instance *compute_instance;
    const struct profile *profile; /* of gpu_instance */
};

/* config.c: the file as a new configuration, NULL after a message on standard error. */
struct config *config_read(const char *path);

/* address.c */
bool address_parse(const char *text, struct address *into);
int address_compare(const struct address *a, const struct address *b);

/* library.c: a call begins with one of enter…() and, where that answered NVML_SUCCESS, ends with leave(). */
extern struct config *config;
nvmlReturn_t enter(const char *function);
nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, struct target *target); /* a card or a MIG device */
nvmlReturn_t enter_card(const char *function, nvmlDevice_t device, const struct card **card); /* a card only */
nvmlReturn_t enter_kind(const char *function, struct handle *handle, enum kind kind, struct target *target);
nvmlReturn_t proceed(const char *function, struct handle *handle, struct target *target); /* after enter() */
nvmlReturn_t leave(nvmlReturn_t answer);
nvmlReturn_t text_out(char *into, unsigned length, const char *text);

/* faults.c */
nvmlReturn_t fault_of(const char *function, const struct fault *faults, unsigned count, double *seconds);

/* lists.c */
const struct profile *profile_by_id(const struct card *card, unsigned id);

/* handles.c */
struct handle *handle_of(enum kind kind, const struct address *address, unsigned gpu_instance, unsigned compute_instance);
bool handle_known(const struct handle *handle);
void handles_restart(void);
const struct card *card_at(const struct address *address);
bool resolve(struct handle *handle, struct target *target);
struct handle *listed(unsigned index);
unsigned listed_count(void);

/* pci.c */
void pci_text(const struct address *address, char legacy[16], char full[32]);

/* mig.c */
unsigned compute_slices(unsigned profile);
void mig_name(const struct target *target, char into[3 * TEXT]); /* of a card too: its name alone */

#endif
