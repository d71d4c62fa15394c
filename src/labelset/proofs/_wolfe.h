/* The point of least norm in the convex hull of k rows (Wolfe, 1976).
 *
 * Written once for any real type: the includer defines REAL, EPS, SQRT and NAME.
 * The corral is the set of rows whose weights are positive. Its factor L satisfies
 * L L^T = G + 1 1^T, G being the Gram matrix of the corral; L is kept by rows.
 * Nothing computed here is trusted by its callers: verdicts are proven elsewhere.
 */

typedef struct {
    long m, cap, d;
    const REAL *rows;
    REAL *factor, *weight, *target, *forward; /* forward solves L forward = 1 */
    long *corral;
} NAME(State);

SPREAD static REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, long n) {
    REAL part[16] = {0}, sum = 0;
    long i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) part[j] += a[i + j] * b[i + j];
    for (int j = 0; j < 16; j++) sum += part[j];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

SPREAD static void NAME(add)(REAL *restrict y, REAL c, const REAL *restrict x, long n) {
    for (long i = 0; i < n; i++) y[i] += c * x[i];
}

/* Take row j into the corral; 0 if it lies in the corral's affine hull. */
static int NAME(append)(NAME(State) *s, long j) {
    const REAL *row = s->rows + j * s->d;
    REAL *line = s->factor + s->m * s->cap;
    for (long i = 0; i < s->m; i++) {
        const REAL *above = s->factor + i * s->cap;
        REAL g = 1 + NAME(dot)(s->rows + s->corral[i] * s->d, row, s->d);
        line[i] = (g - NAME(dot)(above, line, i)) / above[i];
    }
    REAL left = 1 + NAME(dot)(row, row, s->d) - NAME(dot)(line, line, s->m);
    if (!(left > 64 * EPS)) return 0;
    line[s->m] = SQRT(left);
    s->forward[s->m] = (1 - NAME(dot)(line, s->forward, s->m)) / line[s->m];
    s->corral[s->m++] = j;
    return 1;
}

/* Let entry k of the corral go; plane rotations make the factor triangular again. */
static void NAME(drop)(NAME(State) *s, long k) {
    long cap = s->cap, m = --s->m;
    REAL *f = s->factor;
    for (long i = k; i < m; i++) {
        memcpy(f + i * cap, f + (i + 1) * cap, sizeof(REAL) * (i + 2));
        s->corral[i] = s->corral[i + 1];
        s->weight[i] = s->weight[i + 1];
    }
    for (long i = k; i < m; i++) {
        REAL a = f[i * cap + i], b = f[i * cap + i + 1], h = SQRT(a * a + b * b);
        REAL c = a / h, t = b / h;
        for (long q = i; q < m; q++) {
            REAL x = f[q * cap + i], y = f[q * cap + i + 1];
            f[q * cap + i] = c * x + t * y;
            f[q * cap + i + 1] = c * y - t * x;
        }
    }
    for (long i = k; i < m; i++)
        s->forward[i] = (1 - NAME(dot)(f + i * cap, s->forward, i)) / f[i * cap + i];
}

/* target = weights of the least-norm point in the affine hull of the corral */
static void NAME(aim)(NAME(State) *s) {
    REAL sum = 0;
    memcpy(s->target, s->forward, sizeof(REAL) * s->m);
    for (long i = s->m - 1; i >= 0; i--) {
        s->target[i] /= s->factor[i * s->cap + i];
        NAME(add)(s->target, -s->target[i], s->factor + i * s->cap, i);
    }
    for (long i = 0; i < s->m; i++) sum += s->target[i];
    for (long i = 0; i < s->m; i++) s->target[i] /= sum;
}

/* Move to the target, letting go of rows whose weight would not stay positive. */
static long NAME(settle)(NAME(State) *s, char *inside) {
    for (long steps = 1;; steps++) {
        long worst = -1;
        REAL most = 1;
        NAME(aim)(s);
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
        inside[s->corral[worst]] = 0;
        NAME(drop)(s, worst);
    }
}

static void NAME(place)(const NAME(State) *s, REAL *x) {
    memset(x, 0, sizeof(REAL) * s->d);
    for (long i = 0; i < s->m; i++)
        NAME(add)(x, s->weight[i], s->rows + s->corral[i] * s->d, s->d);
}

/* Find the point x; corral and weight hold *count entries to start from, and the result.
 * Ends when no row is below x.x (1 - tol), when x.x <= zero, or after `limit` steps. */
static void NAME(solve)(const REAL *rows, long k, long d, long *corral, double *weight,
                        double *weight_rest, long *count, REAL *x, double tol, double zero, long limit) {
    long cap = d + 2, steps = 0;
    REAL *memory = malloc(sizeof(REAL) * (cap * cap + 3 * cap));
    char *inside = calloc(k, 1);
    NAME(State) s = {.cap = cap, .d = d, .rows = rows, .corral = malloc(sizeof(long) * cap)};
    s.factor = memory, s.weight = memory + cap * cap;
    s.target = s.weight + cap, s.forward = s.target + cap;
    for (long i = 0; i < *count; i++)
        if (NAME(append)(&s, corral[i])) s.weight[s.m - 1] = (REAL)weight[i] + weight_rest[i], inside[corral[i]] = 1;
    if (s.m == 0) NAME(append)(&s, 0), s.weight[0] = 1, inside[0] = 1;
    steps += NAME(settle)(&s, inside);
    for (NAME(place)(&s, x); steps < limit; NAME(place)(&s, x)) {
        REAL square = NAME(dot)(x, x, d), least = square * (1 - (REAL)tol);
        long next = -1;
        if (square <= zero || s.m > d) break;
        for (long i = 0; i < k; i++) {
            if (inside[i]) continue;
            REAL margin = NAME(dot)(rows + i * d, x, d);
            if (margin < least) least = margin, next = i;
        }
        if (next < 0 || !NAME(append)(&s, next)) break;
        s.weight[s.m - 1] = 0, inside[next] = 1;
        steps += NAME(settle)(&s, inside);
    }
    *count = s.m;
    for (long i = 0; i < s.m; i++) {
        corral[i] = s.corral[i], weight[i] = (double)s.weight[i];
        weight_rest[i] = (double)(s.weight[i] - weight[i]);
    }
    free(memory), free(inside), free(s.corral);
}

/* One signed unit row, normalised in REAL. */
static REAL NAME(unit)(REAL *out, const double *row, int sign, long d) {
    REAL norm = 0;
    for (long j = 0; j < d; j++) norm += (REAL)row[j] * row[j];
    norm = SQRT(norm);
    for (long j = 0; j < d; j++) out[j] = sign * (row[j] / norm);
    return norm;
}
