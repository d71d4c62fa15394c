/* The loss of a line's sums and its slopes, in double precision: lines are few, and sums may cancel.
 *
 * The steps are those of the formula; _native_ratio.py has their numbers. */

#define EACH(value)                                                                                \
    for (long i = 0; i < n; i++) o[i] = (value);                                                   \
    break;

/* Runs the steps over `n` lines from the `first`; each step has BLOCK places in `x`. */
static void NAME(evaluate)(const Ratio *f, double *x, long first, long n) {
    for (int32_t s = 0; s < f->head->steps; s++) {
        const int32_t *step = f->steps + 4 * s;
        const double *a = x + step[1] * BLOCK, *b = x + step[2] * BLOCK, *c = x + step[3] * BLOCK;
        const double k = f->numbers[s], *sum = f->sums + step[1] * f->stride + first;
        double *o = x + s * BLOCK;
        switch (step[0]) {
            case 0: EACH(sum[i])
            case 1: EACH(k)
            case 2: EACH(-a[i])
            case 3: EACH(a[i] + b[i])
            case 4: EACH(a[i] - b[i])
            case 5: EACH(a[i] * b[i])
            case 6: EACH(1.0 / a[i])
            case 7: EACH(1.0 / (1.0 + a[i]))
            case 8: EACH(a[i] != 0.0 ? b[i] : c[i])
            case 9: EACH((a[i] < b[i]) | (a[i] != a[i]) ? a[i] : b[i])
            case 10: EACH((a[i] > b[i]) | (a[i] != a[i]) ? a[i] : b[i])
            case 11: EACH(a[i] > b[i])
            case 12: EACH(a[i] >= b[i])
            case 13: EACH(a[i] == b[i])
            case 14: EACH(fabs(a[i]))
            case 15: EACH(sqrt(a[i]))
            case 16: EACH(exp(a[i]))
            case 17: EACH(exp(-fabs(a[i])))
            case 18: EACH(log(a[i]))
            case 19: EACH(log1p(a[i]))
            case 20: EACH(tanh(a[i]))
            case 21: EACH(pow(a[i], k))
        }
    }
}
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
