/* Sums of soft decisions along columns or rows, and the gradient that comes back through them.
 *
 * As in separable.h, a block is first taken to be off throughout; the entries that are not are
 * taken out of it, and counted one by one. */

#ifndef CONFUSION_TYPES
#define CONFUSION_TYPES /* what builds for all widths share */
/* Every step of a loss of sums, by the name that formulas have for it; its number is its place here. */
#define RATIO_STEPS(X)                                                                             \
    X(input, sum[i])                                                                               \
    X(constant, k)                                                                                 \
    X(neg, -a[i])                                                                                  \
    X(add, a[i] + b[i])                                                                            \
    X(sub, a[i] - b[i])                                                                            \
    X(mul, a[i] * b[i])                                                                            \
    X(reciprocal, 1.0 / a[i])                                                                      \
    X(unit, 1.0 / (1.0 + a[i]))                                                                    \
    X(where, a[i] != 0.0 ? b[i] : c[i])                                                            \
    X(min, (a[i] < b[i]) | (a[i] != a[i]) ? a[i] : b[i])                                           \
    X(max, (a[i] > b[i]) | (a[i] != a[i]) ? a[i] : b[i])                                           \
    X(gt, a[i] > b[i])                                                                             \
    X(ge, a[i] >= b[i])                                                                            \
    X(eq, a[i] == b[i])                                                                            \
    X(abs, fabs(a[i]))                                                                             \
    X(sqrt, sqrt(a[i]))                                                                            \
    X(exp, exp(a[i]))                                                                              \
    X(decay, exp(-fabs(a[i])))                                                                     \
    X(log, log(a[i]))                                                                              \
    X(log1p, log1p(a[i]))                                                                          \
    X(tanh, tanh(a[i]))                                                                            \
    X(power, pow(a[i], k))
#define NUMBERED(name, value) RATIO_##name,
enum { RATIO_STEPS(NUMBERED) RATIO_COUNT };
#undef NUMBERED
/* How many steps a loss of sums has, and which of them are its value and its slopes. */
typedef struct {
    int32_t steps, outputs[5];
} RatioHead;

typedef struct {
    const RatioHead *head;
    const int32_t *steps;
    const double *numbers;
    double scale;
    int by_on;            /* whether a line counts for how much of it is on, and not once */
    long entries, stride; /* in a line; between the kinds of sums */
    double *sums, *total;
} Ratio;

typedef struct {
    Scores v;
    Labels y;
    Code off; /* yes and no, these and the slope of yes, or the slopes of both or of yes alone */
    Columns columns;
    int by_row, no; /* whether no is wanted wherever yes is */
    long rows, tall, wide;
    double *sums;
    float *factors;
    void *gradient;
    Ratio ratio;
} Confusion;

/* Sums, (6, stride), and factors, (4, stride), of rows or columns from the `first` of them on. */
typedef struct {
    long first, stride;
    double *sums;
    float *factors;
} Lines;
#endif

/* ---- The loss of a line's sums and its slopes, in double precision: lines are few, and sums may cancel.
 * The steps are those of the formula. ---- */

#define EACH(value)                                                                                \
    for (long i = 0; i < n; i++) o[i] = (value);                                                   \
    break;

#define RUN(name, value) case RATIO_##name: EACH(value)
/* Runs the steps over `n` lines from the `first`; each step has BLOCK places in `x`. */
static void NAME(evaluate)(const Ratio *f, double *x, long first, long n) {
    for (int32_t s = 0; s < f->head->steps; s++) {
        const int32_t *step = f->steps + 4 * s;
        const double *a = x + step[1] * BLOCK, *b = x + step[2] * BLOCK, *c = x + step[3] * BLOCK;
        const double k = f->numbers[s], *sum = f->sums + step[1] * f->stride + first;
        double *o = x + s * BLOCK;
        switch (step[0]) {
            RATIO_STEPS(RUN)
        }
    }
}
#undef RUN
#undef EACH

/* Lines first..last: their losses by their sums and their weights are added up, and the slopes of the
 * former by the four sums are put in the place of these. */
static int NAME(weigh)(const Ratio *f, long first, long last) {
    const int32_t *out = f->head->outputs;
    double *x = malloc(sizeof(double) * BLOCK * f->head->steps);
    const int ready = x != NULL;
    for (long from = first; ready && from < last; from += BLOCK) {
        long length = LOWER(BLOCK, last - from);
        NAME(evaluate)(f, x, from, length);
        for (long i = 0; i < length; i++) {
            double *sum = f->sums + from + i;
            double weight = f->by_on ? sum[4 * f->stride] : sum[5 * f->stride] < f->entries;
            double scale = weight * f->scale;
            f->total[0] += weight > 0.0 ? scale * x[out[0] * BLOCK + i] : 0.0, f->total[1] += weight;
            for (int k = 0; k < 4; k++)
                sum[k * f->stride] = weight > 0.0 ? scale * x[out[1 + k] * BLOCK + i] : 0.0;
        }
    }
    free(x);
    return ready;
}

/* ---- The sums, and the way back through them. ---- */

/* Where among the lines the entry `i` places after (row, column) counts. */
static inline long NAME(line)(const Confusion *job, const Lines *at, long row, long column, long i) {
    long n = job->v.n, place = column + i;
    if (place >= n) row += place / n, place %= n;
    return (job->by_row ? row : place) - at->first;
}

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

/* Adds a block of whole rows, or a piece of one row, to the sums of its rows or columns. */
static void NAME(sum_lines)(const Confusion *job, double *sum, const float *x, long rows, long width) {
    for (long r = 0; r < rows; r++, x += width)
        if (job->by_row) sum[r] += NAME(total)(x, width);
        else NAME(add)(sum, x, width);
}

/* A block of whole rows, or of a piece of one row, from entry `from`: `width` entries of each. Where a
 * gradient is wanted, the slopes of yes are left in its place. */
static void NAME(decide)(const Confusion *job, Desk *d, const Lines *at, long from, long rows, long width) {
    long row = from / job->v.n, column = from % job->v.n, stride = at->stride;
    long found = NAME(listed)(&job->y, from, rows * width, d);
    NAME(feed)(&d->off, &job->v, &job->columns, from, rows * width);
    const int32_t *out = d->off.head->outputs;
    float *yes = d->off.reg[out[0]], *no = d->off.reg[out[1]];
    if (job->gradient) NAME(write)(job->gradient, 0, from, rows * width, d->off.reg[out[2]], 1.0f);
    for (long e = 0; e < found; e++) {
        long i = d->at[e];
        NAME(count_one)(at->sums + NAME(line)(job, at, row, column, i), stride, yes[i], no[i], d->on[e]);
        yes[i] = no[i] = 0.0f;
    }
    double *sums = at->sums + NAME(line)(job, at, row, column, 0);
    NAME(sum_lines)(job, sums + stride, yes, rows, width);
    if (job->no) NAME(sum_lines)(job, sums + 3 * stride, no, rows, width);
}

/* A coefficient at each entry of a block: there is one per column or one per row. */
static const float *NAME(factor)(const Confusion *job, const Lines *at, int which, long from, long length, float *copy) {
    long n = job->v.n;
    const float *factor = at->factors + which * at->stride - at->first;
    if (!job->by_row && from % n + length <= n) return factor + from % n;
    if (!job->by_row) return NAME(spread)(factor, n, from, length, copy);
    for (long done = 0, row = from / n; done < length; row++)
        for (long end = LOWER((row + 1) * n - from, length); done < end; done++) copy[done] = factor[row];
    return copy;
}

/* gradient = on (f0 yes' + f2 no') + off (f1 yes' + f3 no'), without no' where there is none. The slopes
 * may lie where the gradient goes: what is on takes its part of them first. */
static void NAME(return_block)(const Confusion *job, Desk *d, const Lines *at, long from, long length, const float *yes, const float *no) {
    long row = from / job->v.n, column = from % job->v.n;
    long found = NAME(listed)(&job->y, from, length, d);
    for (long e = 0; e < found; e++) {
        long i = d->at[e];
        const float *f = at->factors + NAME(line)(job, at, row, column, i);
        d->copy[e] = f[0] * yes[i] + (no ? f[2 * at->stride] * no[i] : 0.0f);
    }
    const float *f1 = NAME(factor)(job, at, 1, from, length, d->weight);
    float *slope = job->v.narrow ? d->slope : (float *)job->gradient + from;
    if (no) {
        const float *f3 = NAME(factor)(job, at, 3, from, length, d->value);
        INDEPENDENT for (long i = 0; i < length; i++) slope[i] = f1[i] * yes[i] + f3[i] * no[i];
    } else {
        INDEPENDENT for (long i = 0; i < length; i++) slope[i] = f1[i] * yes[i];
    }
    for (long e = 0; e < found; e++) {
        float on = d->on[e], off = 1.0f - on, *here = slope + d->at[e];
        *here = on == on ? on * d->copy[e] + (off > 0.0f ? off * *here : 0.0f) : 0.0f;
    }
    if (job->v.narrow) NAME(write)(job->gradient, 1, from, length, slope, 1.0f);
}

/* A part, block by block: its sums, or the gradient from the slopes that these have left. */
static void NAME(blocks)(const Confusion *job, Desk *d, const Lines *at, long part, const int back) {
    long n = job->v.n, several = n <= BLOCK ? BLOCK / n : 1, across = (n + job->wide - 1) / job->wide;
    long top = part / across * job->tall, left = part % across * job->wide;
    long bottom = LOWER(top + job->tall, job->rows), right = LOWER(left + job->wide, n);
    for (long row = top; row < bottom; row += several)
        for (long c = left; c < right; c += BLOCK) {
            long from = row * n + c, rows = LOWER(several, bottom - row), width = LOWER(BLOCK, right - c);
            long below = row + 2 * several <= bottom ? from + several * n : from;
            if (back) {
                NAME(return_block)(job, d, at, from, rows * width, (float *)job->gradient + from, NULL);
            } else {
                NAME(expect)(&job->v, job->gradient, below, from, rows * width);
                NAME(decide)(job, d, at, from, rows, width);
            }
        }
}

/* Parts of `tall` rows and `wide` columns, the same whatever the number of threads. Sums by row are
 * (6, rows), by column (bands of rows, 6, n): of yes on, yes off, no on, no off, on, unknown. */
static int NAME(decisions)(const Confusion *job, long first, long last) {
    long n = job->v.n, across = (n + job->wide - 1) / job->wide;
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->off);
    for (long part = first; ready && part < last; part++) {
        double *sums = job->sums + (job->by_row ? 0 : part / across * 6 * n);
        const Lines at = {0, job->by_row ? job->rows : n, sums, NULL};
        NAME(blocks)(job, d, &at, part, 0);
    }
    if (d) free(d->off.memory);
    return NAME(ended)(ready, d);
}

/* Parts of whole lines, and decisions of which the slope of no is minus that of yes: what `weigh` adds
 * up, (parts, 2), and the gradient while the slopes of a part are still near. */
static int NAME(ratios)(const Confusion *job, long first, long last) {
    long n = job->v.n, across = (n + job->wide - 1) / job->wide, all = job->by_row ? job->rows : n;
    long most = LOWER(job->by_row ? job->tall : job->wide, all), stride = (most + 15) / 16 * 16;
    Desk *d = calloc(1, sizeof(*d));
    double *memory = malloc(sizeof(double) * (7 * stride + 8));
    double *sums = (double *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    float *on = (float *)(sums + 6 * stride), *off = on + stride;
    int ready = d && memory && NAME(start)(&d->off, &job->off);
    for (long part = first; ready && part < last; part++) {
        long line = job->by_row ? part / across * job->tall : part % across * job->wide;
        const Lines at = {line, stride, sums, on};
        Ratio ratio = job->ratio;
        ratio.stride = stride, ratio.sums = sums, ratio.total = job->sums + 2 * part;
        memset(sums, 0, sizeof(double) * 6 * stride);
        NAME(blocks)(job, d, &at, part, 0);
        ready = NAME(weigh)(&ratio, 0, LOWER(most, all - line));
        for (long i = 0; i < most; i++) {
            on[i] = (float)(sums[i] - sums[2 * stride + i]);
            off[i] = (float)(sums[stride + i] - sums[3 * stride + i]);
        }
        NAME(blocks)(job, d, &at, part, 1);
    }
    if (d) free(d->off.memory);
    free(memory);
    return NAME(ended)(ready, d);
}

static int NAME(returns)(const Confusion *job, long first, long last) {
    long entries = job->rows * job->v.n, end = LOWER(last * UNIT, entries);
    const Lines at = {0, job->by_row ? job->rows : job->v.n, NULL, job->factors};
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->off);
    for (long from = first * UNIT; ready && from < end; from += BLOCK) {
        long length = LOWER(BLOCK, end - from), next = from + 2 * length < end ? from + length : from;
        NAME(expect)(&job->v, job->gradient, next, from, length);
        NAME(feed)(&d->off, &job->v, &job->columns, from, length);
        const float *yes = d->off.reg[d->off.head->outputs[0]], *no = d->off.reg[d->off.head->outputs[1]];
        NAME(return_block)(job, d, &at, from, length, yes, job->no ? no : NULL);
    }
    if (d) free(d->off.memory);
    return NAME(ended)(ready, d);
}
