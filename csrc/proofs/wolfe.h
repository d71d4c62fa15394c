/* The point of least norm in the convex hull of k rows (Wolfe, 1976).
 *
 * Written once for any real type, as `corral.h` is; the includer also defines SPREAD.
 * The caller keeps corral and factor between calls, so that a larger working set resumes where the
 * last one ended. Nothing computed here is trusted by its callers: verdicts are proven elsewhere.
 */

#ifndef FEW
#define FEW 32 /* rows remembered from a full pricing */
#define BLOCK 4 /* rows taken into the corral at a time */
#define REFINED 3 /* times that rounding errors of R are taken out of the weights */
#endif

INLINE void NAME(normalise)(NAME(State) *s) {
    REAL sum = 0;
    for (long i = 0; i < s->m; i++) sum += s->target[i];
    for (long i = 0; i < s->m; i++) s->target[i] /= sum;
}

/* target = weights of the least-norm point in the affine hull of the corral */
INLINE void NAME(aim)(NAME(State) *s) {
    NAME(up)(s, s->forward, s->target);
    NAME(normalise)(s);
}

/* Move to the target, letting go of rows whose weight would not stay positive. */
INLINE long NAME(settle)(NAME(State) *s) {
    for (long steps = 1;; steps++) {
        long worst = -1;
        REAL most = 1;
        for (long i = 0; i < s->m; i++) {
            if (s->target[i] > 64 * EPS) continue;
            REAL span = s->weight[i] - s->target[i], share = span > 0 ? s->weight[i] / span : 0;
            if (worst < 0 || share < most) most = share, worst = i;
        }
        if (worst < 0 || s->m == 1) {
            memcpy(s->weight, s->target, sizeof(REAL) * s->m);
            return steps;
        }
        for (long i = 0; i < s->m; i++) s->weight[i] += most * (s->target[i] - s->weight[i]);
        NAME(drop)(s, worst);
        NAME(aim)(s);
    }
}

/* Rows below `least`, the worst first, into s->few; how many. Full pricing costs much of the time,
 * so the rows it finds are tried again at the next points before all rows are priced anew. */
INLINE long NAME(choose)(NAME(State) *s, const REAL *x, REAL least) {
    long found = 0;
    NAME(price)(s, s->few, s->left, x, s->margin);
    for (long i = 0; i < s->left; i++)
        if (!s->inside[s->few[i]] && s->margin[i] < least) s->few[found++] = s->few[i];
    s->left = found;
    if (found) return found;
    NAME(price)(s, NULL, s->k, x, s->margin);
    for (long i = 0; i < s->k; i++) {
        if (s->margin[i] >= least || s->inside[i]) continue;
        if (s->left == FEW && s->margin[i] >= s->margin[s->few[FEW - 1]]) continue;
        long at = s->left < FEW ? s->left++ : FEW - 1;
        for (; at > 0 && s->margin[s->few[at - 1]] > s->margin[i]; at--)
            s->few[at] = s->few[at - 1];
        s->few[at] = i;
    }
    return s->left;
}

/* Take in several rows below `least`: the target's weights of the new rows times their violations
 * add up to more than 0, so one of them rises at least, and the norm falls. */
INLINE long NAME(enlarge)(NAME(State) *s, const REAL *x, REAL least) {
    long taken = 0, found = NAME(choose)(s, x, least);
    for (long i = 0; i < found && taken < BLOCK && s->m <= s->d; i++)
        taken += NAME(append)(s, s->few[i]);
    return taken;
}

INLINE void NAME(place)(const NAME(State) *s, REAL *x) {
    memset(x, 0, sizeof(REAL) * s->wide);
    NAME(combine)(s, s->weight, x);
}

/* One step of iterative refinement towards equal margins of the whole corral; 0 if they are equal.
 * The change is added to x itself, which may be far smaller than what rounds off its weights. */
INLINE int NAME(refine)(NAME(State) *s, REAL *x, REAL square, REAL tol) {
    REAL along = 0, size = 0, far = 0, *gap = s->turn, *z = s->line;
    int stays = 1;
    NAME(price)(s, s->corral, s->m, x, gap);
    for (long i = 0; i < s->m; i++) {
        gap[i] = square - gap[i];
        if (gap[i] > far) far = gap[i];
    }
    if (!(far > square * tol)) return 0;
    for (long i = s->m; i < s->cap; i++) gap[i] = 0;
    NAME(down)(s, gap, z);
    for (long i = 0; i < s->m; i++)
        along += z[i] * s->forward[i], size += s->forward[i] * s->forward[i];
    for (long i = 0; i < s->m; i++) /* weights add up to 1 still */
        z[i] -= along / size * s->forward[i];
    NAME(up)(s, z, s->target);
    for (long i = 0; i < s->m; i++) stays &= s->weight[i] + s->target[i] > 64 * EPS;
    if (stays) NAME(combine)(s, s->target, x);
    for (long i = 0; i < s->m; i++) s->target[i] += s->weight[i];
    if (!stays) NAME(normalise)(s);
    NAME(settle)(s);
    if (!stays) NAME(place)(s, x);
    return 1;
}

/* Find the point x. corral, weight and factor hold what was
 * found for the first rows, *count entries of it, and take the result.
 * Ends when no row is below x.x (1 - tol), when x.x <= zero, or after `limit` steps. */
SPREAD static void NAME(solve)(const REAL *rows, long k, long d, long cap, long *corral,
                               double *weight, double *weight_rest, long *count, REAL *factor,
                               REAL *x, double tol, double zero, long limit) {
    long steps = 0, refined = 0, few[FEW];
    long longer = WIDE(d) > cap ? WIDE(d) : cap; /* `spare` holds a row, too */
    REAL *memory = calloc(5 * cap + longer + WIDE(k + FEW), sizeof(REAL));
    NAME(State) s = {.m = *count, .cap = cap, .d = d, .wide = WIDE(d), .k = k, .rows = rows};
    s.corral = corral, s.few = few, s.factor = factor, s.inside = calloc(k, 1);
    s.weight = memory, s.target = memory + cap, s.forward = memory + 2 * cap;
    s.line = memory + 3 * cap, s.turn = memory + 4 * cap, s.spare = memory + 5 * cap;
    s.margin = s.spare + longer;
    for (long i = 0; i < s.m; i++) {
        s.weight[i] = (REAL)weight[i] + weight_rest[i], s.inside[corral[i]] = 1;
        for (long q = 0; q <= i; q++) s.forward[i] += factor[i * cap + q];
    }
    if (s.m == 0) NAME(append)(&s, 0), s.weight[0] = 1;
    for (NAME(place)(&s, x); steps < limit; steps++) {
        REAL square = NAME(dot)(x, x, s.wide);
        if (square <= zero) break;
        if (s.m <= d && NAME(enlarge)(&s, x, square * (1 - (REAL)tol))) {
            NAME(aim)(&s);
            steps += NAME(settle)(&s);
            NAME(place)(&s, x);
        } else if (refined++ == REFINED || !NAME(refine)(&s, x, square, tol)) break;
    }
    *count = s.m;
    for (long i = 0; i < s.m; i++) {
        weight[i] = (double)s.weight[i];
        weight_rest[i] = (double)(s.weight[i] - weight[i]);
    }
    free(memory), free(s.inside);
}
