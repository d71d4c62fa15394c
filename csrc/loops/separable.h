/* Separable losses: value and gradient of every entry in one pass.
 *
 * Nearly all labels are off, so a block is first taken to be off throughout; the few entries that are
 * not are collected, computed together, and written over it. Where they are many, the formula of both
 * sides runs over the whole block. */

#ifndef SEPARABLE_TYPES
#define SEPARABLE_TYPES /* what builds for all widths share */
typedef struct {
    Scores v;
    Labels y;
    Code off, both;
    Columns columns;
    long entries;
    void *gradient;
    float scale;
    double *sums;
    int64_t *unknown;
} Separable;
#endif

/* value = on pos + (1 - on) neg, exactly one of them where a label is hard, 0 where it is unknown */
static void NAME(blend)(Desk *d, const float *weight, long length) {
    const int32_t *out = d->both.head->outputs;
    const float *pos = d->both.reg[out[0]], *neg = d->both.reg[out[1]];
    const float *up = d->both.reg[out[2]], *down = d->both.reg[out[3]];
    float *value = d->value, *slope = d->slope;
    INDEPENDENT for (long i = 0; i < length; i++) {
        float w = weight[i], rest = 1.0f - w;
        float mixed = w * pos[i] + rest * neg[i], lean = w * up[i] + rest * down[i];
        mixed = w == 1.0f ? pos[i] : w == 0.0f ? neg[i] : mixed;
        lean = w == 1.0f ? up[i] : w == 0.0f ? down[i] : lean;
        value[i] = w == w ? mixed : 0.0f;
        slope[i] = w == w ? lean : 0.0f;
    }
}

/* The entries collected: their values summed, their gradients written. */
static double NAME(settle)(const Separable *job, Desk *d) {
    NAME(gather)(&d->both, &job->v, &job->columns, d);
    NAME(play)(&d->both, d->pending);
    NAME(blend)(d, d->pending_on, d->pending);
    double sum = NAME(total)(d->value, d->pending);
    for (long i = 0; i < d->pending; i++)
        NAME(write_one)(job->gradient, job->v.narrow, d->place[i], d->slope[i] * job->scale);
    d->pending = 0;
    return sum;
}

static double NAME(crowded)(const Separable *job, Desk *d, long from, long length, long found) {
    float *weight = d->weight;
    INDEPENDENT for (long i = 0; i < length; i++) weight[i] = 0.0f;
    for (long e = 0; e < found; e++) weight[d->at[e]] = d->on[e];
    NAME(feed)(&d->both, &job->v, &job->columns, from, length);
    NAME(blend)(d, weight, length);
    NAME(write)(job->gradient, job->v.narrow, from, length, d->slope, job->scale);
    return NAME(total)(d->value, length);
}

static double NAME(lonely)(const Separable *job, Desk *d, long from, long length, long found) {
    double sum = d->pending + found > BLOCK ? NAME(settle)(job, d) : 0.0;
    NAME(feed)(&d->off, &job->v, &job->columns, from, length);
    float *value = d->off.reg[d->off.head->outputs[0]], *slope = d->off.reg[d->off.head->outputs[1]];
    NAME(write)(job->gradient, job->v.narrow, from, length, slope, job->scale);
    for (long e = 0; e < found; e++) {
        value[d->at[e]] = 0.0f;
        d->place[d->pending] = from + d->at[e];
        d->pending_on[d->pending++] = d->on[e];
    }
    return sum + NAME(total)(value, length);
}

/* Units of UNIT entries, the same whatever the number of threads, so that sums are, too. */
static int NAME(separable)(const Separable *job, long first, long last) {
    Desk *d = calloc(1, sizeof(*d));
    int ready = d && NAME(start)(&d->off, &job->off) && NAME(start)(&d->both, &job->both);
    for (long unit = first; ready && unit < last; unit++) {
        long end = LOWER((unit + 1) * UNIT, job->entries);
        double sum = 0;
        int64_t unknown = 0;
        for (long from = unit * UNIT; from < end; from += BLOCK) {
            long length = LOWER(BLOCK, end - from), next = from + 2 * length < end ? from + length : from;
            NAME(expect)(&job->v, job->gradient, next, from, length);
            long found = NAME(listed)(&job->y, from, length, d);
            for (long e = 0; e < found; e++) unknown += d->on[e] != d->on[e];
            sum += 3 * found > length ? NAME(crowded)(job, d, from, length, found)
                                      : NAME(lonely)(job, d, from, length, found);
        }
        job->sums[unit] = sum + (d->pending ? NAME(settle)(job, d) : 0.0);
        job->unknown[unit] = unknown;
    }
    if (d) free(d->off.memory), free(d->both.memory);
    return NAME(ended)(ready, d);
}
