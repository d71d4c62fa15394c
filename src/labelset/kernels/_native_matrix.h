/* Scores of either width, and labels of every kind, read a block at a time. Entries are numbered
 * through the whole (rows, n) matrix. */

static inline float NAME(score)(const Scores *s, long at) {
    if (!s->narrow) return ((const float *)s->scores)[at];
    return NAME(real)((uint32_t)((const uint16_t *)s->scores)[at] << 16);
}

/* Whole vectors as they lie in memory, else a copy, which may be read to the end of a vector. */
static const float *NAME(read)(const Scores *s, long from, long length, float *copy) {
    const float *wide = (const float *)s->scores + from;
    const uint16_t *narrow = (const uint16_t *)s->scores + from;
    if (!s->narrow && length % 16 == 0) return wide;
    if (s->narrow) {
        INDEPENDENT for (long i = 0; i < length; i++) copy[i] = NAME(real)((uint32_t)narrow[i] << 16);
    } else {
        INDEPENDENT for (long i = 0; i < length; i++) copy[i] = wide[i];
    }
    return copy;
}

/* Nearest, ties to even. */
static inline uint16_t NAME(narrowed)(float x) {
    uint32_t u = NAME(bits)(x);
    return (uint16_t)(x == x ? (u + 0x7fff + ((u >> 16) & 1)) >> 16 : 0x7fc0);
}

static inline void NAME(write_one)(void *out, int narrow, long at, float x) {
    if (narrow) ((uint16_t *)out)[at] = NAME(narrowed)(x);
    else ((float *)out)[at] = x;
}

static void NAME(write)(void *out, int narrow, long from, long length, const float *x, float scale) {
    float *wide = (float *)out + from;
    uint16_t *thin = (uint16_t *)out + from;
    if (narrow) {
        INDEPENDENT for (long i = 0; i < length; i++) thin[i] = NAME(narrowed)(x[i] * scale);
    } else {
        INDEPENDENT for (long i = 0; i < length; i++) wide[i] = x[i] * scale;
    }
}

static inline float NAME(per_label)(const Columns *given, int c, long label) {
    return given->column[c][given->size[c] == 1 ? 0 : label];
}

/* What a number per label is at each entry of a block. */
static const float *NAME(spread)(const float *column, long n, long from, long length, float *out) {
    for (long done = 0, j = from % n; done < length; j = 0) {
        long part = LOWER(length - done, n - j);
        INDEPENDENT for (long i = 0; i < part; i++) out[done + i] = column[j + i];
        done += part;
    }
    return out;
}

/* Asks for the scores of the block at `next`, and for the place of this one's gradient, where it has one,
 * while the processor is still busy: it would wait for both. */
static void NAME(expect)(const Scores *v, const void *gradient, long next, long from, long length) {
    long bytes = v->narrow ? 2 : 4;
    const char *ahead = (const char *)v->scores + bytes * next;
    const char *place = gradient ? (const char *)gradient + bytes * from : ahead;
    for (long i = 0; i < bytes * length; i += 64) AHEAD(ahead + i, 0), AHEAD(place + i, 1);
}

/* One block of scores through a program, with its numbers per label. */
static void NAME(feed)(Machine *m, const Scores *v, const Columns *given, long from, long length) {
    float *own = m->reg[0];
    for (int c = 0; c < given->count; c++)
        if (given->size[c] == 1)
            for (long i = 0; i < length; i++) m->reg[1 + c][i] = given->column[c][0];
        else NAME(spread)(given->column[c], v->n, from, length, m->reg[1 + c]);
    m->reg[0] = (float *)NAME(read)(v, from, length, own);
    NAME(play)(m, length);
    m->reg[0] = own;
}

/* The scores of the entries collected, and their numbers per label, as a program's inputs. */
static void NAME(gather)(Machine *m, const Scores *v, const Columns *given, const Desk *d) {
    for (long i = 0; i < d->pending; i++) {
        m->reg[0][i] = d->pending_on[i] == d->pending_on[i] ? NAME(score)(v, d->place[i]) : 0.0f;
        for (int c = 0; c < given->count; c++)
            m->reg[1 + c][i] = NAME(per_label)(given, c, d->place[i] % v->n);
    }
}

/* Adds a block to sums in double precision, one each. */
static void NAME(add)(double *sum, const float *x, long length) {
    INDEPENDENT for (long i = 0; i < length; i++) sum[i] += x[i];
}

/* The sum of a block in double precision, always in the same order. */
static double NAME(total)(const float *x, long length) {
    double lane[16] = {0}, sum = 0;
    long whole = length / 16 * 16;
    for (long i = 0; i < whole; i += 16)
        for (int j = 0; j < 16; j++) lane[j] += x[i + j];
    for (long i = whole; i < length; i++) sum += x[i];
    for (int j = 0; j < 16; j++) sum += lane[j];
    return sum;
}
