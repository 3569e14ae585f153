/* PCI addresses as people, sysfs and the driver write them. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* `domain:bus:device` with any number of digits, with or without `.function`. */
bool address_parse(const char *text, struct address *into) {
    struct address found = {0};
    int used = 0;
    if (strspn(text, "0123456789abcdefABCDEF:.") != strlen(text)) {
        return false; /* signs, blanks and 0x, which sscanf would take */
    }
    if (sscanf(text, "%8x:%2x:%2x%n", &found.domain, &found.bus, &found.device, &used) != 3) {
        return false;
    }
    text += used;
    if (*text == '.') {
        used = 0;
        if (sscanf(text, ".%1x%n", &found.function, &used) != 1) {
            return false;
        }
        text += used;
    }
    if (*text != '\0' || found.device > 0x1f || found.function > 7) {
        return false;
    }
    *into = found;
    return true;
}

int address_compare(const struct address *a, const struct address *b) {
    const unsigned left[] = {a->domain, a->bus, a->device, a->function};
    const unsigned right[] = {b->domain, b->bus, b->device, b->function};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}
