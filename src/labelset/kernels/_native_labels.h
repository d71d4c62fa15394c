/* The entries of a block that are not plainly off: few, and found fast. */

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
