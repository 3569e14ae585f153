/* Reads the configuration: lines `key value`, `#` before a comment, `[card]` before each card.
 *
 *     driver_version 580.105.08        of the system: before the first [card]
 *     cuda_version 13.0
 *     [card]
 *     address 0000:19:00.0
 *     uuid GPU-5a0c…
 *     mig_mode disabled
 *     lost                             a fault: from now on the card is gone
 *
 * All keys, with what they mean and their values when left out: README.md in the folder above.
 * A mistake is one message on standard error (path, line, what was found and expected) and the
 * whole file counts for nothing: half a machine would be a lie that a test believes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

bool wrong(struct reader *reader, const char *format, ...) {
    if (!reader->failed) {
        char text[512];
        va_list values;
        va_start(values, format);
        vsnprintf(text, sizeof text, format, values);
        va_end(values);
        for (char *c = text; *c != '\0'; c++) { /* one line, whatever the file holds */
            *c = *c >= ' ' && *c <= '~' ? *c : '?';
        }
        fprintf(stderr, "fake NVML: %s:%u: %s\n", reader->path, reader->line, text);
        reader->failed = true;
    }
    return false;
}

bool read_unsigned(struct reader *reader, const char *text, int base, unsigned long limit, unsigned *into) {
    const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
    errno = 0;
    const unsigned long value = strtoul(text, NULL, base);
    if (*text == '\0' || text[strspn(text, digits)] != '\0' || errno != 0 || value > limit) {
        return wrong(reader, "found '%.60s', expected a%s number up to %lu", text, base == 16 ? " hexadecimal" : "",
                     limit);
    }
    *into = (unsigned)value;
    return true;
}

bool read_seconds(struct reader *reader, const char *text, double *into) {
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value <= 86400)) {
        return wrong(reader, "found '%.60s', expected seconds from 0 to 86400", text);
    }
    *into = value;
    return true;
}

bool read_text(struct reader *reader, const char *text, char into[TEXT]) {
    if (*text == '\0' || strlen(text) >= TEXT) {
        return wrong(reader, "found %zu characters, expected 1 to %d", strlen(text), TEXT - 1);
    }
    strcpy(into, text);
    return true;
}

/* What a card is where its section says nothing; a plain card without MIG, NVLink or ECC. */
static void start_card(struct reader *reader) {
    struct config *into = reader->config;
    if (into->n_cards == MAX_CARDS) {
        wrong(reader, "found more than %d cards", MAX_CARDS);
        return;
    }
    struct card *card = &into->cards[into->n_cards];
    *card = (struct card){
        .minor = into->n_cards, .vendor = 0x10de, .class_ = 0x0302,
        .mig_mode = NOT_GIVEN, .mig_pending = NOT_GIVEN, .ecc_mode = NOT_GIVEN,
        .persistence = 1, .power_mw = NOT_GIVEN,
        .temperature = 30, .throttle = 1,
        .remapped_correctable = NOT_GIVEN,
    };
    card->address.domain = ~0U; /* not given yet */
    reader->card = card;
    into->n_cards++;
}

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    size_t length = strcspn(text, "\r\n");
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    text[length] = '\0';
    return text;
}

static void read_line(struct reader *reader, char *line) {
    line = trimmed(line);
    if (*line == '\0' || *line == '#') {
        return;
    }
    if (*line == '[') {
        if (strcmp(line, "[card]") != 0) {
            wrong(reader, "found '%.60s', expected [card]", line);
            return;
        }
        start_card(reader);
        return;
    }
    char *value = line + strcspn(line, " \t");
    if (*value != '\0') {
        *value++ = '\0';
    }
    read_key(reader, line, trimmed(value));
}

static int by_address(const void *a, const void *b) {
    return address_compare(&((const struct card *)a)->address, &((const struct card *)b)->address);
}

/* What no single line can see: a card without a name of its own, two cards in one place. */
static void check(struct reader *reader) {
    struct config *found = reader->config;
    for (unsigned i = 0; i < found->n_cards; i++) {
        const struct card *card = &found->cards[i];
        if (card->address.domain == ~0U || card->uuid[0] == '\0') {
            wrong(reader, "card %u has no %s", i, card->uuid[0] == '\0' ? "uuid" : "address");
        }
    }
    qsort(found->cards, found->n_cards, sizeof *found->cards, by_address);
    for (unsigned i = 1; i < found->n_cards; i++) {
        if (by_address(&found->cards[i - 1], &found->cards[i]) == 0) {
            wrong(reader, "two cards have one address");
        }
    }
}

struct config *config_read(const char *path) {
    struct reader reader = {.path = path, .config = calloc(1, sizeof(struct config))};
    FILE *file = fopen(path, "re");
    if (file == NULL || reader.config == NULL) {
        wrong(&reader, "cannot read: %s", strerror(errno));
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    while (!reader.failed && (length = getline(&line, &room, file)) >= 0) {
        reader.line++;
        if (strlen(line) != (size_t)length) {
            wrong(&reader, "found a NUL byte, expected text");
        } else {
            read_line(&reader, line);
        }
    }
    if (!reader.failed) {
        check(&reader);
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    if (reader.failed) {
        free(reader.config);
        return NULL;
    }
    return reader.config;
}
