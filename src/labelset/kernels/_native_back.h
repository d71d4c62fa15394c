/* The gradient that comes back through the log-sum-exps of _native_ways.h:
 *   on (f exp(a v - level) of its row and its column + sum's) + off (f exp(b v - level)) */

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
