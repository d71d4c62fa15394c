/* Scores of either width, and labels of every kind, read a block at a time. Entries are numbered
 * through the whole (rows, n) matrix. */

#ifndef MATRIX_TYPES
#define MATRIX_TYPES /* what builds for all widths share */
typedef struct {
    int count;
    const float *column[COLUMNS];
    long size[COLUMNS];
} Columns;

typedef struct {
    long n;
    const void *scores; /* 4 bytes each, or 2 (bfloat16) */
    int narrow;
} Scores;

typedef struct {
    int kind; /* DENSE_BITS, DENSE_SOFT or SPARSE */
    long n;
    const uint8_t *bits;
    const float *values; /* dense, or of stored entries; NULL where all of them are on */
    const int64_t *starts;
    const int32_t *columns;
} Labels;

/* What one thread works with: its programs, the labels of a block, and the entries set aside. */
typedef struct {
    Machine off, both;
    int wrong;                /* whether a label outside [0, 1] was met */
    long cursor, reached;     /* the stored entry to look at next, and where blocks have come to */
    long pending, place[BLOCK];
    int32_t at[BLOCK];
    float on[BLOCK], pending_on[BLOCK], weight[BLOCK], value[BLOCK], slope[BLOCK], copy[BLOCK];
} Desk;
#endif

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

/* ---- The entries of a block that are not plainly off: few, and found fast. ---- */

/* The first stored entry of a row at or after a column. */
static long NAME(seek)(const Labels *y, long row, long column) {
    long low = y->starts[row], high = y->starts[row + 1];
    while (low < high) {
        long middle = (low + high) / 2;
        if (y->columns[middle] < column) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Blocks mostly follow one another: then the search is over before it begins. */
static long NAME(stored)(const Labels *y, long from, long length, Desk *d) {
    long found = 0, row = from / y->n, column = from % y->n, e = d->cursor;
    for (long base = row * y->n; base < from + length; base += y->n, row++, column = 0) {
        long end = y->starts[row + 1];
        if (d->reached != base + column || !d->reached) e = NAME(seek)(y, row, column);
        for (; e < end; e++) {
            long place = base + y->columns[e] - from;
            if (place >= length) break;
            d->at[found] = (int32_t)place;
            d->on[found++] = y->values ? y->values[e] : 1.0f;
        }
        d->reached = base + y->n; /* the entries of the next row follow those of this one */
    }
    d->cursor = e, d->reached = from + length;
    return found;
}

#define CHUNK 64 /* entries looked at together: most chunks hold nothing */

static inline long NAME(set_of)(const uint8_t *bits, long from, long end, long found, Desk *d) {
    for (long i = from; i < end; i++)
        if (bits[i]) d->at[found] = (int32_t)i, d->on[found++] = bits[i], d->wrong |= bits[i] > 1;
    return found;
}

#if VECTOR
/* One bit for each byte of a chunk that is not 0. */
static inline uint64_t NAME(which)(const uint8_t *bits) {
#if VECTOR == 64
    __m512i bytes = _mm512_loadu_si512(bits);
    return _mm512_test_epi8_mask(bytes, bytes);
#else
    __m256i none = _mm256_setzero_si256(), low = _mm256_loadu_si256((const __m256i *)bits);
    __m256i high = _mm256_loadu_si256((const __m256i *)(bits + 32));
    uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, none));
    return ~(first | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, none)) << 32);
#endif
}

static long NAME(set)(const uint8_t *bits, long length, Desk *d) {
    long found = 0, i = 0;
    for (; i + CHUNK <= length; i += CHUNK)
        for (uint64_t some = NAME(which)(bits + i); some; some &= some - 1) {
            long at = i + __builtin_ctzll(some);
            d->at[found] = (int32_t)at, d->on[found++] = bits[at], d->wrong |= bits[at] > 1;
        }
    return NAME(set_of)(bits, i, length, found, d);
}
#else
static long NAME(set)(const uint8_t *bits, long length, Desk *d) {
    long found = 0, i = 0;
    for (; i + CHUNK <= length; i += CHUNK) {
        uint64_t words[CHUNK / 8], some = 0;
        memcpy(words, bits + i, CHUNK);
        for (int j = 0; j < CHUNK / 8; j++) some |= words[j];
        for (int j = 0; some && j < CHUNK / 8; j++)
            if (words[j]) found = NAME(set_of)(bits, i + 8 * j, i + 8 * j + 8, found, d);
    }
    return NAME(set_of)(bits, i, length, found, d);
}
#endif

static inline long NAME(above_of)(const float *soft, long from, long end, long found, Desk *d) {
    for (long i = from; i < end; i++)
        if (soft[i] != 0.0f) {
            d->at[found] = (int32_t)i, d->on[found++] = soft[i];
            d->wrong |= soft[i] < 0.0f || soft[i] > 1.0f;
        }
    return found;
}

static long NAME(above)(const float *soft, long length, Desk *d) {
    long found = 0, i = 0;
    for (; i + CHUNK <= length; i += CHUNK) {
        uint64_t words[CHUNK / 2], some = 0;
        memcpy(words, soft + i, sizeof(float) * CHUNK);
        for (int j = 0; j < CHUNK / 2; j++) some |= words[j];
        if (some) found = NAME(above_of)(soft, i, i + CHUNK, found, d);
    }
    return NAME(above_of)(soft, i, length, found, d);
}
#undef CHUNK

/* Where they are, and how much they are on: NaN where unknown. Dense labels are checked on the way. */
static long NAME(listed)(const Labels *y, long from, long length, Desk *d) {
    if (y->kind == SPARSE) return NAME(stored)(y, from, length, d);
    return y->kind == DENSE_BITS ? NAME(set)(y->bits + from, length, d)
                                 : NAME(above)(y->values + from, length, d);
}

/* How a job ended: 0 without memory, 1 well, 2 having met labels outside [0, 1]. */
static int NAME(ended)(int ready, Desk *d) {
    int outcome = ready ? 1 + d->wrong : 0;
    free(d);
    return outcome;
}
