/* Ranks within one line, a row or a column of scores, for one type REAL of them.
 *
 * The line's own scores t, those of labels that are on, are sorted. For every score v of the line the
 * number of own scores <= v is found by bisection, LANES scores side by side without a branch, so that
 * the compiler can use wide instructions; NaN reaches none. */

/* Sort t, rising: runs of 16 by insertion, then merged; `spare` is as long. */
static void NAME(sort)(REAL *t, REAL *spare, long size) {
    for (long first = 0; first < size; first += 16)
        for (long i = first + 1; i < size && i < first + 16; i++) {
            REAL moving = t[i];
            long at = i;
            for (; at > first && t[at - 1] > moving; at--) t[at] = t[at - 1];
            t[at] = moving;
        }
    REAL *from = t, *to = spare;
    for (long run = 16; run < size; run *= 2) {
        for (long first = 0; first < size; first += 2 * run) {
            long a = first, middle = first + run < size ? first + run : size;
            long b = middle, end = first + 2 * run < size ? first + 2 * run : size, out = first;
            while (a < middle && b < end) {
                int right = from[b] < from[a];
                to[out++] = right ? from[b] : from[a];
                b += right, a += !right;
            }
            while (a < middle) to[out++] = from[a++];
            while (b < end) to[out++] = from[b++];
        }
        REAL *other = from;
        from = to, to = other;
    }
    if (from != t) memcpy(t, from, sizeof(REAL) * size);
}

/* reached[k] grows by the scores that reach exactly k of t, level[k] by those equal to t[k], the last
 * of several equal ones. */
SPREAD static void NAME(count)(const REAL *restrict v, long count, const REAL *restrict t, int size,
                               long *restrict reached, long *restrict level) {
    for (long first = 0; first < count; first += LANES) {
        int at[LANES] = {0}, lanes = count - first < LANES ? (int)(count - first) : LANES, left = size;
        REAL now[LANES];
        for (int i = 0; i < LANES; i++) now[i] = i < lanes ? v[first + i] : (REAL)NAN;
        for (; left > 1; left -= left / 2)
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

static void NAME(rows)(const Job *j, long *reached, void *spare) {
    for (long l = j->first; l < j->last; l++) {
        long start = j->starts[l], size = j->starts[l + 1] - start;
        REAL *own = (REAL *)j->own + start;
        if (!size) continue;
        NAME(sort)(own, spare, size);
        memset(reached, 0, sizeof(long) * (size + 1));
        NAME(count)((const REAL *)j->scores + l * j->n, j->n, own, (int)size, reached, j->level + start);
        NAME(finish)(own, size, reached, j->at_least + start, j->level + start, j->on_at_least + start);
    }
}

/* Columns are gone through in tiles, turned round in a small buffer. */
static void NAME(columns)(const Job *j, long *reached, void *spare) {
    REAL *tile = spare;
    for (long column = j->first; column < j->last; column += WIDE) {
        long wide = j->last - column < WIDE ? j->last - column : WIDE, begin = j->starts[column];
        if (begin == j->starts[column + wide]) continue;
        for (long l = column; l < column + wide; l++)
            NAME(sort)((REAL *)j->own + j->starts[l], tile, j->starts[l + 1] - j->starts[l]);
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
                    NAME(count)(tile + c * TALL, tall, (const REAL *)j->own + start, (int)size,
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
