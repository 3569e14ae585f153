/* What reading a line needs: where it stands, and values out of words. */
#ifndef FAKE_NVML_READER_H
#define FAKE_NVML_READER_H

#include "state.h"

/* Where the reader is; the first mistake is told and ends the reading. */
struct reader {
    const char *path;
    unsigned line;
    bool failed;
    struct config *config;
    struct card *card; /* of the section; NULL before the first */
};

/* Tell a mistake once, with its line; answers false. */
bool wrong(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool read_unsigned(struct reader *reader, const char *text, int base, unsigned long limit, unsigned *into);
bool read_seconds(struct reader *reader, const char *text, double *into);
bool read_text(struct reader *reader, const char *text, char into[TEXT]);

/* keys.c: one line `key value`; mistakes go to wrong(). */
void read_key(struct reader *reader, const char *key, char *value);

/* lists.c: lines that may stand more than once; false where the key is none of them. */
bool read_list(struct reader *reader, const char *key, char *value);

#endif
