/* Sums of soft decisions along columns or rows, and the gradient that comes back through them.
 *
 * As in _native_separable.h, a block is first taken to be off throughout; the entries that are not are
 * taken out of it, collected, and dealt with together. */

/* What one entry that is not plainly off adds to the six sums, `stride` apart. */
static void NAME(count_one)(double *sum, long stride, float yes, float no, float on) {
    double off = 1.0 - (double)on;
    if (on != on) {
        sum[5 * stride] += 1.0;
        return;
    }
    sum[0] += (double)on * yes, sum[2 * stride] += (double)on * no, sum[4 * stride] += on;
    if (off > 0.0) sum[stride] += off * yes, sum[3 * stride] += off * no;
}

/* The entries collected. */
static void NAME(count_pending)(const Confusion *job, Desk *d, double *sums) {
    long n = job->v.n, stride = job->by_row ? job->rows : n;
    NAME(gather)(&d->both, &job->v, &job->columns, d);
    NAME(play)(&d->both, d->pending);
    const int32_t *out = d->both.head->outputs;
    for (long i = 0; i < d->pending; i++) {
        long line = job->by_row ? d->place[i] / n : d->place[i] % n;
        NAME(count_one)(sums + line, stride, d->both.reg[out[0]][i], d->both.reg[out[1]][i], d->pending_on[i]);
    }
    d->pending = 0;
}

/* Adds a block of whole rows, or a piece of one row, to the sums of its rows or columns. */
static void NAME(sum_lines)(const Confusion *job, double *sums, const float *x, long from, long rows, long width) {
    long row = from / job->v.n, column = from % job->v.n;
    for (long r = 0; r < rows; r++, x += width)
        if (job->by_row) sums[row + r] += NAME(total)(x, width);
        else NAME(add)(sums + column, x, width);
}

/* A block of whole rows, or of a piece of one row, from entry `from`: `width` entries of each. */
static void NAME(decide)(const Confusion *job, Desk *d, double *sums, long from, long rows, long width) {
    long stride = job->by_row ? job->rows : job->v.n;
    long found = NAME(listed)(&job->y, from, rows * width, d);
    if (d->pending + found > BLOCK) NAME(count_pending)(job, d, sums);
    NAME(feed)(&d->off, &job->v, &job->columns, from, rows * width);
    float *yes = d->off.reg[d->off.head->outputs[0]], *no = d->off.reg[d->off.head->outputs[1]];
    for (long e = 0; e < found; e++) {
        yes[d->at[e]] = no[d->at[e]] = 0.0f;
        d->place[d->pending] = from + d->at[e];
        d->pending_on[d->pending++] = d->on[e];
    }
    NAME(sum_lines)(job, sums + stride, yes, from, rows, width);
    if (job->no) NAME(sum_lines)(job, sums + 3 * stride, no, from, rows, width);
}

/* Parts of `tall` rows and `wide` columns, the same whatever the number of threads. Sums by row are
 * (6, rows), by column (bands of rows, 6, n): of yes on, yes off, no on, no off, on, unknown. */
static int NAME(decisions)(const Confusion *job, long first, long last) {
    long n = job->v.n, across = (n + job->wide - 1) / job->wide;
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->off) && NAME(start)(&d->both, &job->both);
    for (long part = first; ready && part < last; part++) {
        long row = part / across * job->tall, left = part % across * job->wide;
        long bottom = LOWER(row + job->tall, job->rows), right = LOWER(left + job->wide, n);
        double *sums = job->sums + (job->by_row ? 0 : part / across * 6 * n);
        long several = n <= BLOCK ? BLOCK / n : 1;
        for (; row < bottom; row += several)
            for (long c = left; c < right; c += BLOCK)
                NAME(decide)(job, d, sums, row * n + c, LOWER(several, bottom - row), LOWER(BLOCK, right - c));
        NAME(count_pending)(job, d, sums);
    }
    if (d) free(d->off.memory), free(d->both.memory);
    return NAME(ended)(ready, d);
}

/* A coefficient at each entry of a block: there is one per column or one per row. */
static const float *NAME(factor)(const Confusion *job, int which, long from, long length, float *copy) {
    long n = job->v.n;
    const float *factor = job->factors + which * (job->by_row ? job->rows : n);
    if (!job->by_row && from % n + length <= n) return factor + from % n;
    if (!job->by_row) return NAME(spread)(factor, n, from, length, copy);
    for (long done = 0, row = from / n; done < length; row++)
        for (long end = LOWER((row + 1) * n - from, length); done < end; done++) copy[done] = factor[row];
    return copy;
}

/* gradient = on (f0 yes' + f2 no') + off (f1 yes' + f3 no'), without no' where there is none */
static void NAME(return_block)(const Confusion *job, Desk *d, long from, long length) {
    long n = job->v.n, stride = job->by_row ? job->rows : n;
    long found = NAME(listed)(&job->y, from, length, d);
    NAME(feed)(&d->off, &job->v, &job->columns, from, length);
    const float *yes = d->off.reg[d->off.head->outputs[0]], *no = d->off.reg[d->off.head->outputs[1]];
    const float *f1 = NAME(factor)(job, 1, from, length, d->weight);
    float *slope = job->v.narrow ? d->slope : (float *)job->gradient + from;
    if (job->no) {
        const float *f3 = NAME(factor)(job, 3, from, length, d->value);
        INDEPENDENT for (long i = 0; i < length; i++) slope[i] = f1[i] * yes[i] + f3[i] * no[i];
    } else {
        INDEPENDENT for (long i = 0; i < length; i++) slope[i] = f1[i] * yes[i];
    }
    for (long e = 0; e < found; e++) {
        long i = d->at[e], line = job->by_row ? (from + i) / n : (from + i) % n;
        const float *f = job->factors + line;
        float on = d->on[e], off = 1.0f - on;
        float here = on * (f[0] * yes[i] + (job->no ? f[2 * stride] * no[i] : 0.0f));
        slope[i] = on == on ? here + (off > 0.0f ? off * slope[i] : 0.0f) : 0.0f;
    }
    if (job->v.narrow) NAME(write)(job->gradient, 1, from, length, slope, 1.0f);
}

static int NAME(returns)(const Confusion *job, long first, long last) {
    long entries = job->rows * job->v.n, end = LOWER(last * UNIT, entries);
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->off);
    for (long from = first * UNIT; ready && from < end; from += BLOCK) {
        NAME(expect)(&job->v, job->gradient, from, LOWER(BLOCK, end - from), end);
        NAME(return_block)(job, d, from, LOWER(BLOCK, end - from));
    }
    if (d) free(d->off.memory);
    return NAME(ended)(ready, d);
}
