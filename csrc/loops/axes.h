/* Log-sum-exps of the scores that are on and of those that are off, along rows and along columns, in
 * one pass, and the gradient that comes back through them.
 *
 * A sum of exponentials is kept as a level m and a sum s: s exp(m). NOTHING stands for a score that does
 * not take part. Entries that are not off are few and taken one by one, unless a block has many. */

#ifndef AXES_TYPES
#define AXES_TYPES /* what builds for all widths share */
typedef struct {
    double m, s;
} Level;

typedef struct {
    Level ons, offs;
    double sum, on, unknown;
} RowSums;

typedef struct {
    Scores v;
    Labels y;
    float a, b;
    int by_row, by_column;
    long rows, tall, wide;
    RowSums *row_sums;
    float *columns;
} Ways;

typedef struct {
    Scores v;
    Labels y;
    float a, b;
    long rows;
    const float *row, *column;
    void *gradient;
} Returns;
#endif

static inline void NAME(join)(Level *to, double m, double s) {
    if (!(s == 0.0) && m > to->m) to->s = to->s * exp(to->m - m) + s, to->m = m;
    else if (!(s == 0.0)) to->s += m == to->m ? s : s * exp(m - to->m); /* infinity equals itself */
}

/* The largest of a block of whole vectors, by halves. */
static float NAME(largest)(const float *x, long length) {
    float top[BLOCK], most = NOTHING;
    INDEPENDENT for (long i = 0; i < length; i++) top[i] = x[i];
    while (length > 16) {
        long half = (length / 2 + 15) / 16 * 16, rest = length - half;
        INDEPENDENT for (long i = 0; i < rest; i++) top[i] = top[i] > top[half + i] ? top[i] : top[half + i];
        length = half;
    }
    for (long i = 0; i < length; i++) most = top[i] > most ? top[i] : most;
    return most;
}

/* Adds the exponentials of a block to its row. */
static void NAME(along_row)(Level *row, const float *x, long length) {
    float terms[BLOCK], most = NAME(largest)(x, length);
    if (most == INFINITY) {
        NAME(join)(row, most, 1.0);
        return;
    }
    const float level = most > NOTHING ? most : 0.0f;
    INDEPENDENT for (long i = 0; i < length; i++) terms[i] = NAME(fall)(x[i] - level);
    NAME(join)(row, level, NAME(total)(terms, length));
}

/* Adds them to their columns, one to each. */
static inline void NAME(fold)(float *m, float *s, float x) {
    float gap = x - *m, t = NAME(decay)(gap);
    float added = *s + (x <= NOTHING ? 0.0f : t);
    *s = gap > 0.0f ? *s * t + 1.0f : added;
    *m = gap > 0.0f ? x : *m;
}

static void NAME(along_columns)(float *m, float *s, const float *x, long length) {
    INDEPENDENT for (long i = 0; i < length; i++) {
        float gap = x[i] - m[i], t = NAME(decay)(gap), was = s[i], level = m[i];
        float added = was + (x[i] <= NOTHING ? 0.0f : t);
        s[i] = gap > 0.0f ? was * t + 1.0f : added;
        m[i] = gap > 0.0f ? x[i] : level;
    }
}

/* One entry that is not plainly off: its side of the sums, and what is summed plainly. */
static void NAME(lone)(const Ways *job, RowSums *row, float *column, float v, float on) {
    long n = job->v.n;
    if (on != on) {
        row->unknown += 1.0;
        if (column) column[6 * n] += 1.0f;
        return;
    }
    float x = job->a * v + (on == 1.0f ? 0.0f : NAME(log)(on));
    float rest = on < 1.0f ? job->b * v + NAME(log)(1.0f - on) : NOTHING;
    row->sum += (double)on * v, row->on += on;
    if (job->by_row) NAME(join)(&row->ons, x, 1.0);
    if (job->by_row && on < 1.0f) NAME(join)(&row->offs, rest, 1.0);
    if (!column) return;
    NAME(fold)(column, column + n, x), NAME(fold)(column + 2 * n, column + 3 * n, rest);
    column[4 * n] += on * v, column[5 * n] += on;
}

/* A block with many of them: both sides as vectors. */
static void NAME(many)(const Ways *job, Desk *d, RowSums *row, float *column, const float *v, long found, long w) {
    float *x = d->value, *weight = d->weight;
    long n = job->v.n, whole = (w + 15) / 16 * 16;
    INDEPENDENT for (long i = 0; i < whole; i++) weight[i] = 0.0f;
    for (long e = 0; e < found; e++) {
        long i = d->at[e];
        float on = d->on[e];
        weight[i] = on;
        row->unknown += on == on ? 0.0 : 1.0;
        if (on == on) row->sum += (double)on * v[i], row->on += on;
        if (column && on == on) column[4 * n + i] += on * v[i], column[5 * n + i] += on;
        if (column && on != on) column[6 * n + i] += 1.0f;
    }
    for (int side = 0; side < 2; side++) {
        const float k = side ? job->b : job->a;
        INDEPENDENT for (long i = 0; i < w; i++) {
            float part = side ? 1.0f - weight[i] : weight[i], y = k * v[i] + NAME(log)(part);
            x[i] = part > 0.0f ? y : NOTHING;
        }
        for (long i = w; i < whole; i++) x[i] = NOTHING;
        if (job->by_row) NAME(along_row)(side ? &row->offs : &row->ons, x, whole);
        if (column) NAME(along_columns)(column + 2 * side * n, column + (2 * side + 1) * n, x, w);
    }
}

static void NAME(way_block)(const Ways *job, Desk *d, RowSums *row, float *column, long from, long w) {
    float *x = d->value;
    const float *v = NAME(read)(&job->v, from, w, d->slope);
    long n = job->v.n, whole = (w + 15) / 16 * 16, found = NAME(listed)(&job->y, from, w, d);
    if (16 * found > w) {
        NAME(many)(job, d, row, column, v, found, w);
        return;
    }
    const float b = job->b;
    INDEPENDENT for (long i = 0; i < w; i++) x[i] = b * v[i];
    for (long i = w; i < whole; i++) x[i] = NOTHING;
    for (long e = 0; e < found; e++) {
        x[d->at[e]] = NOTHING;
        NAME(lone)(job, row, column ? column + d->at[e] : NULL, v[d->at[e]], d->on[e]);
    }
    if (job->by_row) NAME(along_row)(&row->offs, x, whole);
    if (column) NAME(along_columns)(column + 2 * n, column + 3 * n, x, w);
}

/* Parts of `tall` rows and `wide` columns. Rows: (strips of columns, rows) of RowSums. Columns: (bands
 * of rows, 7, n): level and sum of on, of off, sum of on v, of on, of unknown. */
static int NAME(ways)(const Ways *job, long first, long last) {
    long n = job->v.n, across = (n + job->wide - 1) / job->wide;
    Desk *d = calloc(1, sizeof(*d));
    for (long part = first; d && part < last; part++) {
        long top = part / across * job->tall, left = part % across * job->wide;
        long bottom = LOWER(top + job->tall, job->rows), right = LOWER(left + job->wide, n);
        float *columns = job->by_column ? job->columns + part / across * 7 * n : NULL;
        for (long i = 0; columns && i < 2; i++)
            for (long c = left; c < right; c++) columns[2 * i * n + c] = NOTHING;
        for (long r = top; r < bottom; r++) {
            RowSums *row = job->row_sums + part % across * job->rows + r;
            row->ons.m = row->offs.m = NOTHING;
            for (long c = left; c < right; c += BLOCK)
                NAME(way_block)(job, d, row, columns ? columns + c : NULL, r * n + c, LOWER(BLOCK, right - c));
        }
    }
    return NAME(ended)(d != NULL, d);
}

/* ---- The gradient that comes back through them:
 *   on (f exp(a v - level) of its row and its column + sum's) + off (f exp(b v - level)) ---- */

/* One line's share of a block, put there or added: factors and levels of a row (step 0) or of columns
 * (step 1). */
static inline ALWAYS_INLINE void NAME(share)(
    float *out, const float *v, float k, const float *factor, const float *level, long w, const int step, const int add) {
    const float f = factor[0], l = level[0];
    INDEPENDENT for (long i = 0; i < w; i++) {
        float x = (step ? factor[i] : f) * NAME(fall)(k * v[i] - (step ? level[i] : l));
        out[i] = add ? out[i] + x : x;
    }
}

/* The shares of a row and of its columns in one side of a block; line[0] and line[1] of that side. */
static void NAME(shares)(float *out, const float *v, float k, const Returns *job, const float *row, const float *column, long w) {
    if (row) NAME(share)(out, v, k, row, row + job->rows, w, 0, 0);
    if (row && column) NAME(share)(out, v, k, column, column + job->v.n, w, 1, 1);
    else if (column) NAME(share)(out, v, k, column, column + job->v.n, w, 1, 0);
}

static float NAME(lone_share)(const Returns *job, const float *line, long stride, float v, float on) {
    float y = on * line[4 * stride];
    if (on > 0.0f) y += on * line[0] * NAME(exp)(job->a * v - line[stride]);
    if (on < 1.0f) y += (1.0f - on) * line[2 * stride] * NAME(exp)(job->b * v - line[3 * stride]);
    return y;
}

/* A block with many entries that are not off: `slope` holds the side of off, the other is mixed in. */
static void NAME(mix)(const Returns *job, Desk *d, const float *row, const float *column, const float *v, long found, long w) {
    float *on = d->value, *weight = d->weight, *slope = d->slope;
    INDEPENDENT for (long i = 0; i < w; i++) weight[i] = 0.0f;
    for (long e = 0; e < found; e++) weight[d->at[e]] = d->on[e];
    NAME(shares)(on, v, job->a, job, row, column, w);
    const float plain = row ? row[4 * job->rows] : 0.0f;
    INDEPENDENT for (long i = 0; column && i < w; i++) on[i] += column[4 * job->v.n + i];
    INDEPENDENT for (long i = 0; i < w; i++) {
        float y = weight[i], rest = 1.0f - y, other = slope[i], here = on[i] + plain;
        float mixed = (y > 0.0f ? y * here : 0.0f) + (rest > 0.0f ? rest * other : 0.0f);
        slope[i] = y == y ? mixed : 0.0f;
    }
}

static void NAME(back_block)(const Returns *job, Desk *d, const float *row, const float *column, long from, long w) {
    const float *v = NAME(read)(&job->v, from, w, d->copy);
    long n = job->v.n, found = NAME(listed)(&job->y, from, w, d);
    NAME(shares)(d->slope, v, job->b, job, row ? row + 2 * job->rows : NULL, column ? column + 2 * n : NULL, w);
    if (16 * found > w) NAME(mix)(job, d, row, column, v, found, w);
    else
        for (long e = 0; e < found; e++) {
            long i = d->at[e];
            float on = d->on[e], y = row ? NAME(lone_share)(job, row, job->rows, v[i], on) : 0.0f;
            y += column ? NAME(lone_share)(job, column + i, n, v[i], on) : 0.0f;
            d->slope[i] = on == on ? y : 0.0f;
        }
    NAME(write)(job->gradient, job->v.narrow, from, w, d->slope, 1.0f);
}

/* Rows first..last. Of rows and of columns come (5, rows) and (5, n), or nothing: factor and level of
 * on, of off, and what every score that is on adds. */
static int NAME(back)(const Returns *job, long first, long last) {
    long n = job->v.n;
    Desk *d = calloc(1, sizeof(*d));
    for (long r = first; d && r < last; r++)
        for (long c = 0; c < n; c += BLOCK)
            NAME(back_block)(job, d, job->row ? job->row + r : NULL, job->column ? job->column + c : NULL,
                             r * n + c, LOWER(BLOCK, n - c));
    return NAME(ended)(d != NULL, d);
}
