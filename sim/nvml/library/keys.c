/* The keys that stand once: a table of where each value goes and what it may be. */
#include <stdlib.h>
#include <string.h>

#include "reader.h"

enum form { WORDS, NUMBER, HEX4, SIGNED, SWITCH, FLAG };

struct key {
    const char *name;
    enum form form;
    size_t offset;
};

#define SYSTEM(name, form) {#name, form, offsetof(struct config, name)}
#define CARD(name, form) {#name, form, offsetof(struct card, name)}

static const struct key of_system[] = {
    SYSTEM(driver_version, WORDS),
    SYSTEM(driver_not_loaded, FLAG),
    SYSTEM(version_mismatch, FLAG),
    SYSTEM(unprivileged, FLAG),
};

static const struct key of_card[] = {
    CARD(uuid, WORDS), CARD(name, WORDS), CARD(minor, NUMBER), CARD(vendor, HEX4), CARD(device, HEX4),
    CARD(subsystem_vendor, HEX4), CARD(subsystem_device, HEX4), {"class", HEX4, offsetof(struct card, class_)},
    CARD(memory_mib, NUMBER), CARD(reserved_mib, NUMBER), CARD(used_mib, NUMBER), CARD(mig_mode, SWITCH),
    CARD(mig_pending, SWITCH), CARD(ecc_mode, SWITCH), CARD(persistence, SWITCH), CARD(power_mw, SIGNED),
    CARD(temperature, NUMBER), CARD(compute_mode, NUMBER), CARD(throttle, HEX4), CARD(fabric, NUMBER),
    CARD(fabric_status, NUMBER), CARD(ecc_correctable, NUMBER), CARD(ecc_uncorrectable, NUMBER),
    CARD(remapped_correctable, SIGNED), CARD(remapped_uncorrectable, SIGNED), CARD(remap_pending, SWITCH),
    CARD(remap_failure, SWITCH), CARD(after_calls, NUMBER), CARD(lost, FLAG), CARD(fallen_off_bus, FLAG),
    CARD(corrupts, FLAG),
};

static void store(struct reader *reader, void *base, const struct key *key, const char *value) {
    void *into = (char *)base + key->offset;
    unsigned number = 0;
    switch (key->form) {
    case WORDS:
        read_text(reader, value, into);
        return;
    case NUMBER:
    case HEX4:
        read_unsigned(reader, value, key->form == HEX4 ? 16 : 10, key->form == HEX4 ? 0xffff : 0x7fffffff, into);
        return;
    case SIGNED: /* -1 says that the card does not have it */
        if (strcmp(value, "-1") == 0) {
            *(int *)into = -1;
        } else if (read_unsigned(reader, value, 10, 0x7fffffff, &number)) {
            *(int *)into = (int)number;
        }
        return;
    case SWITCH:
        if (strcmp(value, "enabled") != 0 && strcmp(value, "disabled") != 0) {
            wrong(reader, "%s: found '%.60s', expected enabled or disabled", key->name, value);
        } else {
            *(int *)into = value[0] == 'e';
        }
        return;
    case FLAG:
        if (*value != '\0') {
            wrong(reader, "%s: found '%.60s', expected nothing after it", key->name, value);
        }
        *(bool *)into = true;
        return;
    }
}

static const struct key *find(const struct key *keys, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

/* `13.0` into its two numbers. */
static void read_pair(struct reader *reader, char *value, unsigned *major, unsigned *minor) {
    char *dot = strchr(value, '.');
    if (dot == NULL) {
        wrong(reader, "found '%.60s', expected two numbers with a dot between them", value);
        return;
    }
    *dot = '\0';
    if (read_unsigned(reader, value, 10, 99, major)) {
        read_unsigned(reader, dot + 1, 10, 99, minor);
    }
}

void read_key(struct reader *reader, const char *name, char *value) {
    struct card *card = reader->card;
    if (read_list(reader, name, value)) {
        return;
    }
    if (card == NULL) {
        const struct key *key = find(of_system, sizeof of_system / sizeof *of_system, name);
        if (key != NULL) {
            store(reader, reader->config, key, value);
        } else if (strcmp(name, "cuda_version") == 0) {
            read_pair(reader, value, &reader->config->cuda_major, &reader->config->cuda_minor);
        } else {
            wrong(reader, "unknown key '%.60s' of the system", name);
        }
        return;
    }
    const struct key *key = find(of_card, sizeof of_card / sizeof *of_card, name);
    if (key != NULL) {
        store(reader, card, key, value);
    } else if (strcmp(name, "address") == 0) {
        if (!address_parse(value, &card->address)) {
            wrong(reader, "found '%.60s', expected a PCI address as 0000:19:00.0", value);
        }
    } else if (strcmp(name, "compute") == 0) {
        read_pair(reader, value, &card->compute_major, &card->compute_minor);
    } else {
        wrong(reader, "unknown key '%.60s' of a card", name);
    }
}
