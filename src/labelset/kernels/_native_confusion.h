/* Sums of soft decisions along columns or rows, and the gradient that comes back through them.
 *
 * As in _native_separable.h, a block is first taken to be off throughout; the entries that are not are
 * taken out of it and dealt with one by one. */

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

/* A block of whole rows, or of a piece of one row, from entry `from`: `width` entries of each. */
static void NAME(decide)(const Confusion *job, Desk *d, double *sums, long from, long rows, long width) {
    long n = job->v.n, row = from / n, column = from % n, stride = job->by_row ? job->rows : n;
    long found = NAME(listed)(&job->y, from, rows * width, d);
    NAME(feed)(&d->off, &job->v, &job->columns, from, rows * width);
    float *yes = d->off.reg[d->off.head->outputs[0]], *no = d->off.reg[d->off.head->outputs[1]];
    for (long e = 0; e < found; e++) {
        long i = d->at[e], line = job->by_row ? row + i / width : column + i % width;
        NAME(count_one)(sums + line, stride, yes[i], no[i], d->on[e]);
        yes[i] = no[i] = 0.0f;
    }
    for (long r = 0; r < rows; r++, yes += width, no += width)
        if (job->by_row) {
            sums[stride + row + r] += NAME(total)(yes, width);
            sums[3 * stride + row + r] += NAME(total)(no, width);
        } else {
            NAME(add)(sums + stride + column, yes, width);
            NAME(add)(sums + 3 * stride + column, no, width);
        }
}

/* Parts of `tall` rows and `wide` columns, the same whatever the number of threads. Sums by row are
 * (6, rows), by column (bands of rows, 6, n): of yes on, yes off, no on, no off, on, unknown. */
static int NAME(decisions)(const Confusion *job, long first, long last) {
    long n = job->v.n, across = (n + job->wide - 1) / job->wide;
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->values);
    for (long part = first; ready && part < last; part++) {
        long row = part / across * job->tall, left = part % across * job->wide;
        long bottom = LOWER(row + job->tall, job->rows), right = LOWER(left + job->wide, n);
        double *sums = job->sums + (job->by_row ? 0 : part / across * 6 * n);
        long several = n <= BLOCK ? BLOCK / n : 1;
        for (; row < bottom; row += several)
            for (long c = left; c < right; c += BLOCK)
                NAME(decide)(job, d, sums, row * n + c, LOWER(several, bottom - row), LOWER(BLOCK, right - c));
    }
    if (d) free(d->off.memory);
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

/* gradient = on (f0 yes' + f2 no') + off (f1 yes' + f3 no') */
static void NAME(return_block)(const Confusion *job, Desk *d, long from, long length) {
    long n = job->v.n, stride = job->by_row ? job->rows : n;
    long found = NAME(listed)(&job->y, from, length, d);
    NAME(feed)(&d->off, &job->v, &job->columns, from, length);
    const float *yes = d->off.reg[d->off.head->outputs[0]], *no = d->off.reg[d->off.head->outputs[1]];
    const float *f1 = NAME(factor)(job, 1, from, length, d->weight);
    const float *f3 = NAME(factor)(job, 3, from, length, d->value);
    float *slope = job->v.narrow ? d->slope : (float *)job->gradient + from;
    INDEPENDENT for (long i = 0; i < length; i++) slope[i] = f1[i] * yes[i] + f3[i] * no[i];
    for (long e = 0; e < found; e++) {
        long i = d->at[e], line = job->by_row ? (from + i) / n : (from + i) % n;
        const float *f = job->factors + line;
        float on = d->on[e], off = 1.0f - on;
        float here = on * (f[0] * yes[i] + f[2 * stride] * no[i]);
        slope[i] = on == on ? here + (off > 0.0f ? off * slope[i] : 0.0f) : 0.0f;
    }
    if (job->v.narrow) NAME(write)(job->gradient, 1, from, length, slope, 1.0f);
}

static int NAME(returns)(const Confusion *job, long first, long last) {
    long entries = job->rows * job->v.n, end = LOWER(last * UNIT, entries);
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->values);
    for (long from = first * UNIT; ready && from < end; from += BLOCK)
        NAME(return_block)(job, d, from, LOWER(BLOCK, end - from));
    if (d) free(d->off.memory);
    return NAME(ended)(ready, d);
}
