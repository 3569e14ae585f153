/* The lines that may stand more than once: MIG profiles and instances, links, faults, XIDs.
 *
 * All but the faults are written as `key name=value name=value …`; a name that is left out is 0. */
#include <string.h>

#include "reader.h"

/* One `name=value` and where it goes. */
struct pair {
    const char *name;
    unsigned *into;
    int base;
};

/* Cut the next word off `rest`; NULL at the end. */
static char *word(char **rest) {
    char *start = *rest + strspn(*rest, " \t");
    if (*start == '\0') {
        return NULL;
    }
    char *end = start + strcspn(start, " \t");
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return start;
}

/* A word `name=value` cut in two; NULL, told, where it is none. */
static char *split(struct reader *reader, char *text) {
    char *sign = strchr(text, '=');
    if (sign == NULL) {
        wrong(reader, "found '%.60s', expected name=value", text);
        return NULL;
    }
    *sign = '\0';
    return sign + 1;
}

static bool number(struct reader *reader, const struct pair *pairs, const char *name, const char *value) {
    for (const struct pair *pair = pairs; pair->name != NULL; pair++) {
        if (strcmp(pair->name, name) == 0) {
            return read_unsigned(reader, value, pair->base, 0xffffffff, pair->into);
        }
    }
    return wrong(reader, "unknown name '%.60s'", name);
}

static bool room(struct reader *reader, const char *key, unsigned count, unsigned limit) {
    return count < limit || wrong(reader, "found more than %u lines %s", limit, key);
}

static void read_starts(struct reader *reader, struct profile *profile, char *value) {
    for (char *next = value; next != NULL && !reader->failed;) {
        char *comma = strchr(next, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        if (room(reader, "starts", profile->places, MAX_PLACES)) {
            read_unsigned(reader, next, 10, 63, &profile->starts[profile->places++]);
        }
        next = comma;
    }
}

const struct profile *profile_by_id(const struct card *card, unsigned id) {
    for (unsigned i = 0; i < card->n_profiles; i++) {
        if (card->profiles[i].id == id) {
            return &card->profiles[i];
        }
    }
    return NULL;
}

static void read_profile(struct reader *reader, struct card *card, char *rest) {
    if (!room(reader, "mig_profile", card->n_profiles, MAX_PROFILES)) {
        return;
    }
    struct profile *profile = &card->profiles[card->n_profiles++];
    char *text = word(&rest);
    if (!read_text(reader, text == NULL ? "" : text, profile->name)) {
        return;
    }
    const struct pair pairs[] = {
        {"index", &profile->index, 10},     {"id", &profile->id, 10},
        {"slices", &profile->slices, 10},   {"instances", &profile->instances, 10},
        {"memory_mib", &profile->memory_mib, 10}, {"sm", &profile->sm, 10},
        {"copy", &profile->copy, 10},       {"decoder", &profile->decoder, 10},
        {"encoder", &profile->encoder, 10}, {"jpeg", &profile->jpeg, 10},
        {"ofa", &profile->ofa, 10},         {"p2p", &profile->p2p, 10},
        {"size", &profile->size, 10},       {NULL, NULL, 0},
    };
    while (!reader->failed && (text = word(&rest)) != NULL) {
        char *value = split(reader, text);
        if (value != NULL && strcmp(text, "starts") == 0) {
            read_starts(reader, profile, value);
        } else if (value != NULL) {
            number(reader, pairs, text, value);
        }
    }
}

static void read_gpu_instance(struct reader *reader, struct card *card, char *rest) {
    if (!room(reader, "gpu_instance", card->n_gpu_instances, MAX_INSTANCES)) {
        return;
    }
    struct gpu_instance *made = &card->gpu_instances[card->n_gpu_instances++];
    const struct pair pairs[] = {
        {"id", &made->id, 10}, {"profile", &made->profile, 10}, {"start", &made->start, 10}, {NULL, NULL, 0}};
    for (char *text = NULL; !reader->failed && (text = word(&rest)) != NULL;) {
        char *value = split(reader, text);
        if (value != NULL) {
            number(reader, pairs, text, value);
        }
    }
    if (!reader->failed && profile_by_id(card, made->profile) == NULL) {
        wrong(reader, "profile %u of the instance is none of the lines mig_profile before it", made->profile);
    }
}

static void read_compute_instance(struct reader *reader, struct card *card, char *rest) {
    if (!room(reader, "compute_instance", card->n_compute_instances, MAX_INSTANCES)) {
        return;
    }
    struct compute_instance *made = &card->compute_instances[card->n_compute_instances++];
    const struct pair pairs[] = {{"gpu_instance", &made->gpu_instance, 10},
                                 {"id", &made->id, 10},
                                 {"profile", &made->profile, 10},
                                 {NULL, NULL, 0}};
    for (char *text = NULL; !reader->failed && (text = word(&rest)) != NULL;) {
        char *value = split(reader, text);
        if (value != NULL && strcmp(text, "uuid") == 0) {
            read_text(reader, value, made->uuid);
        } else if (value != NULL) {
            number(reader, pairs, text, value);
        }
    }
    if (!reader->failed && made->uuid[0] == '\0') {
        wrong(reader, "a compute_instance has no uuid");
    }
}

static void read_link(struct reader *reader, struct card *card, char *rest) {
    static const char *const types[] = {"gpu", "ibmnpu", "switch"};
    if (!room(reader, "nvlink", card->n_links, MAX_LINKS)) {
        return;
    }
    struct link *made = &card->links[card->n_links++];
    made->up = true;
    const struct pair pairs[] = {{"link", &made->number, 10}, {"pci_id", &made->pci_id, 16}, {NULL, NULL, 0}};
    for (char *text = NULL; !reader->failed && (text = word(&rest)) != NULL;) {
        char *value = split(reader, text);
        if (value == NULL) {
            return;
        }
        if (strcmp(text, "state") == 0) {
            made->up = strcmp(value, "up") == 0;
            if (!made->up && strcmp(value, "down") != 0) {
                wrong(reader, "state: found '%.60s', expected up or down", value);
            }
        } else if (strcmp(text, "address") == 0) {
            if (!address_parse(value, &made->remote)) {
                wrong(reader, "found '%.60s', expected a PCI address as 0000:19:00.0", value);
            }
        } else if (strcmp(text, "type") == 0) {
            for (made->type = 0; made->type < 3 && strcmp(types[made->type], value) != 0;) {
                made->type++;
            }
            if (made->type == 3) {
                made->type = 0xff; /* NVML's number for unknown */
            }
        } else {
            number(reader, pairs, text, value);
        }
    }
}

/* Faults of functions: `not_supported nvmlDeviceGetSerial`, `hang nvmlDeviceGetName 2.5`, `cuda cuInit 802`; false for
 * other keys. */
static bool read_fault(struct reader *reader, const char *key, char *rest) {
    static const struct {
        const char *key;
        nvmlReturn_t code;
    } codes[] = {{"not_supported", NVML_ERROR_NOT_SUPPORTED},
                 {"no_permission", NVML_ERROR_NO_PERMISSION},
                 {"unknown", NVML_ERROR_UNKNOWN},
                 {"cuda", NVML_SUCCESS},
                 {"hang", NVML_SUCCESS}};
    struct card *card = reader->card;
    struct fault *faults = card == NULL ? reader->config->faults : card->faults;
    unsigned *count = card == NULL ? &reader->config->n_faults : &card->n_faults;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(codes[i].key, key) != 0) {
            continue;
        }
        if (!room(reader, "with a fault", *count, MAX_FAULTS)) {
            return true;
        }
        struct fault *made = &faults[(*count)++];
        made->code = codes[i].code;
        char *function = word(&rest);
        char *number = word(&rest);
        if (!read_text(reader, function == NULL ? "" : function, made->function)) {
            return true;
        }
        if (strcmp(key, "hang") == 0) {
            read_seconds(reader, number == NULL ? "" : number, &made->seconds);
        } else if (strcmp(key, "cuda") == 0) {
            read_unsigned(reader, number == NULL ? "" : number, 10, NVML_ERROR_UNKNOWN, &made->code);
        } else if (number != NULL) {
            wrong(reader, "found '%.60s', expected nothing after the function", number);
        }
        return true;
    }
    return false;
}

bool read_list(struct reader *reader, const char *key, char *value) {
    static const struct {
        const char *key;
        void (*read)(struct reader *, struct card *, char *);
    } lists[] = {{"mig_profile", read_profile},
                 {"gpu_instance", read_gpu_instance},
                 {"compute_instance", read_compute_instance},
                 {"nvlink", read_link}};
    if (read_fault(reader, key, value)) {
        return true;
    }
    for (size_t i = 0; reader->card != NULL && i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].key, key) == 0) {
            lists[i].read(reader, reader->card, value);
            return true;
        }
    }
    return false;
}
