/* Ranks within one line, a row or a column of scores, for one type REAL of them.
 *
 * The line's own scores t, those of labels that are on, are sorted. For every score v of the line the
 * number of own scores <= v is found: a table of equal steps of score says between which two of them
 * it lies, and bisection does the rest, LANES scores side by side without a branch, so that the
 * compiler can use wide instructions. NaN reaches none. */

typedef struct {
    REAL low, scale;
    int steps, window, *start; /* a score in step b reaches start[b] to start[b] + window of t */
} NAME(Table);

/* The step of a score; it never falls as the score rises, which is all that is needed. */
static inline int NAME(step)(const NAME(Table) *a, REAL v) {
    REAL x = (v - a->low) * a->scale;
    x = x > 0 ? x : 0; /* NaN too */
    return (int)(x < a->steps ? x : a->steps);
}

static void NAME(fill)(NAME(Table) *a, const REAL *t, long size) {
    REAL span = t[size - 1] - t[0];
    a->steps = 1, a->low = t[0];
    if (span > 0 && span < (REAL)1e30)
        while (a->steps < size && a->steps < STEPS) a->steps *= 2;
    a->scale = a->steps > 1 ? a->steps / span : 0;
    if (!(a->scale < (REAL)1e30)) a->steps = 1, a->scale = 0;
    int *start = a->start, at = 0;
    memset(start, 0, sizeof(int) * (a->steps + 1));
    for (long i = 0; i < size; i++) start[NAME(step)(a, t[i])]++;
    a->window = 1;
    for (int b = 0; b <= a->steps; b++) {
        int here = start[b];
        start[b] = at, at += here;
        if (here > a->window) a->window = here;
    }
    for (int b = 0; b <= a->steps; b++) /* no window ends beyond t */
        if (start[b] > size - a->window) start[b] = (int)size - a->window;
}

/* A whole number that rises with the score, and back. */
static inline KEY NAME(key)(REAL v) {
    KEY k;
    memcpy(&k, &v, sizeof k);
    return k & TOP ? ~k : k | TOP;
}

static inline REAL NAME(score)(KEY k) {
    REAL v;
    k = k & TOP ? k & ~TOP : ~k;
    memcpy(&v, &k, sizeof v);
    return v;
}

/* Sort t, rising: few by insertion, many byte by byte of their keys; `spare` is as long. */
static void NAME(sort)(REAL *t, void *spare, long size) {
    if (size <= 48) {
        for (long i = 1; i < size; i++) {
            REAL moving = t[i];
            long at = i;
            for (; at > 0 && t[at - 1] > moving; at--) t[at] = t[at - 1];
            t[at] = moving;
        }
        return;
    }
    KEY *from = (KEY *)t, *to = spare;
    long seen[sizeof(KEY)][256] = {{0}};
    for (long i = 0; i < size; i++) {
        KEY k = from[i] = NAME(key)(t[i]);
        for (int byte = 0; byte < (int)sizeof k; byte++) seen[byte][k >> 8 * byte & 255]++;
    }
    for (int byte = 0; byte < (int)sizeof(KEY); byte++) {
        long at = 0, *next = seen[byte];
        if (next[from[0] >> 8 * byte & 255] == size) continue; /* all alike in this byte */
        for (int b = 0; b < 256; b++) {
            long here = next[b];
            next[b] = at, at += here;
        }
        for (long i = 0; i < size; i++) to[next[from[i] >> 8 * byte & 255]++] = from[i];
        KEY *other = from;
        from = to, to = other;
    }
    for (long i = 0; i < size; i++) t[i] = NAME(score)(from[i]);
}

/* reached[k] grows by the scores that reach exactly k of t, level[k] by those equal to t[k], the last
 * of several equal ones. */
SPREAD static void NAME(count)(const REAL *restrict v, long count, const REAL *restrict t,
                               const NAME(Table) *restrict table, long *restrict reached,
                               long *restrict level) {
    const int *restrict start = table->start;
    for (long first = 0; first < count; first += LANES) {
        int at[LANES], lanes = count - first < LANES ? (int)(count - first) : LANES;
        REAL now[LANES];
        for (int i = 0; i < LANES; i++) now[i] = i < lanes ? v[first + i] : (REAL)NAN;
        for (int i = 0; i < LANES; i++) at[i] = start[NAME(step)(table, now[i])];
        for (int left = table->window; left > 1; left -= left / 2)
            for (int i = 0, half = left / 2; i < LANES; i++)
                at[i] += t[at[i] + half - 1] <= now[i] ? half : 0;
        for (int i = 0; i < LANES; i++) at[i] += t[at[i]] <= now[i];
        for (int i = 0; i < lanes; i++) {
            reached[at[i]]++;
            if (at[i] && t[at[i] - 1] == now[i]) level[at[i] - 1]++;
        }
    }
}

/* From counts to ranks: for each own score the scores at least as high, its equals, and own ones. */
static void NAME(finish)(const REAL *t, long size, const long *reached, long *at_least, long *level,
                         long *on_at_least) {
    long higher = 0, equal = 0;
    for (long i = size - 1; i >= 0; i--) {
        higher += reached[i + 1];
        if (i == size - 1 || t[i] != t[i + 1]) equal = level[i];
        at_least[i] = higher, level[i] = equal;
    }
    for (long i = 0; i < size; i++)
        on_at_least[i] = i && t[i] == t[i - 1] ? on_at_least[i - 1] : size - i;
}

static void NAME(rows)(const Job *j, long *reached, void *spare, int *starts) {
    NAME(Table) table = {.start = starts};
    for (long l = j->first; l < j->last; l++) {
        long start = j->starts[l], size = j->starts[l + 1] - start;
        REAL *own = (REAL *)j->own + start;
        if (!size) continue;
        NAME(sort)(own, spare, size);
        NAME(fill)(&table, own, size);
        memset(reached, 0, sizeof(long) * (size + 1));
        NAME(count)((const REAL *)j->scores + l * j->n, j->n, own, &table, reached, j->level + start);
        NAME(finish)(own, size, reached, j->at_least + start, j->level + start, j->on_at_least + start);
    }
}

/* Columns are gone through in tiles, turned round in a small buffer. */
static void NAME(columns)(const Job *j, long *reached, void *spare, int *starts) {
    REAL *tile = spare;
    NAME(Table) tables[WIDE];
    for (int c = 0; c < WIDE; c++) tables[c].start = starts + c * (STEPS + 2);
    for (long column = j->first; column < j->last; column += WIDE) {
        long wide = j->last - column < WIDE ? j->last - column : WIDE, begin = j->starts[column];
        if (begin == j->starts[column + wide]) continue;
        for (long c = 0; c < wide; c++) {
            long start = j->starts[column + c], size = j->starts[column + c + 1] - start;
            if (!size) continue;
            NAME(sort)((REAL *)j->own + start, tile, size);
            NAME(fill)(tables + c, (REAL *)j->own + start, size);
        }
        memset(reached, 0, sizeof(long) * (j->starts[column + wide] - begin + wide));
        for (long row = 0; row < j->rows; row += TALL) {
            long tall = j->rows - row < TALL ? j->rows - row : TALL;
            for (long r = 0; r < tall; r++) {
                const REAL *from = (const REAL *)j->scores + (row + r) * j->n + column;
                for (long c = 0; c < wide; c++) tile[c * TALL + r] = from[c];
            }
            for (long c = 0; c < wide; c++) {
                long start = j->starts[column + c], size = j->starts[column + c + 1] - start;
                if (size)
                    NAME(count)(tile + c * TALL, tall, (const REAL *)j->own + start, tables + c,
                                reached + start - begin + c, j->level + start);
            }
        }
        for (long c = 0; c < wide; c++) {
            long start = j->starts[column + c], size = j->starts[column + c + 1] - start;
            NAME(finish)((const REAL *)j->own + start, size, reached + start - begin + c,
                         j->at_least + start, j->level + start, j->on_at_least + start);
        }
    }
}

static void NAME(gather)(const Job *j, const long *pointers, const int *indices, int by_column,
                         long *next) {
    REAL *own = j->own;
    for (long row = 0; row < j->rows; row++)
        for (long e = pointers[row]; e < pointers[row + 1]; e++) {
            REAL score = ((const REAL *)j->scores)[row * j->n + indices[e]];
            own[by_column ? next[indices[e]]++ : e] = score;
        }
}
