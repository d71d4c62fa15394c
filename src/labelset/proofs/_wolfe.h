/* The point of least norm in the convex hull of k rows (Wolfe, 1976).
 *
 * Written once for any real type: the includer defines REAL, EPS, SQRT, NAME and SPREAD.
 * The corral is the set of rows whose weights are positive. Its factor U, kept by rows, satisfies
 * U^T U = G + 1 1^T, G being the Gram matrix of the corral. Rows are kept both ways round: margins
 * of all rows are then sums of long columns, which the compiler turns into wide instructions.
 * Nothing computed here is trusted by its callers: verdicts are proven elsewhere.
 */

#ifndef FEW
#define FEW 32 /* rows remembered from a full pricing */
#define BLOCK 4 /* rows taken into the corral at a time */
#define INLINE static inline __attribute__((always_inline))
#endif

typedef struct {
    long m, cap, d, wide, k; /* rows of d numbers lie `wide` apart, zeros in between */
    const REAL *rows, *columns; /* k x wide and d x k */
    REAL *factor, *weight, *target, *forward; /* forward solves U^T forward = 1 */
    REAL *margin; /* of every row, at the last full pricing */
    long *corral, few[FEW], left; /* rows that were worst then, and how many are left */
} NAME(State);

INLINE REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, long n) {
    REAL p[8] = {0}, rest = 0;
    long i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) p[j] += a[i + j] * b[i + j];
    for (; i < n; i++) rest += a[i] * b[i];
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])) + rest;
}

INLINE void NAME(add)(REAL *restrict y, REAL c, const REAL *restrict x, long n) {
    for (long i = 0; i < n; i++) y[i] += c * x[i];
}

/* out = rows x, four features at a time */
INLINE void NAME(price)(const NAME(State) *s, const REAL *x, REAL *restrict out) {
    long k = s->k, j = 0;
    memset(out, 0, sizeof(REAL) * k);
    for (; j + 4 <= s->d; j += 4) {
        const REAL *restrict c = s->columns + j * k;
        REAL x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
        for (long i = 0; i < k; i++)
            out[i] += x0 * c[i] + x1 * c[k + i] + x2 * c[2 * k + i] + x3 * c[3 * k + i];
    }
    for (; j < s->d; j++) NAME(add)(out, x[j], s->columns + j * k, k);
}

/* Rows below `least`, the worst first, into s->few; how many. Full pricing costs most of the time,
 * so the rows it finds are tried again at the next points before all rows are priced anew. */
INLINE long NAME(choose)(NAME(State) *s, const REAL *x, REAL least, const char *inside) {
    long found = 0;
    for (long i = 0; i < s->left; i++) {
        long row = s->few[i];
        if (inside[row] || NAME(dot)(s->rows + row * s->wide, x, s->wide) >= least) continue;
        s->few[found++] = row;
    }
    s->left = found;
    if (found) return found;
    NAME(price)(s, x, s->margin);
    for (long i = 0; i < s->k; i++) {
        if (s->margin[i] >= least || inside[i]) continue;
        if (s->left == FEW && s->margin[i] >= s->margin[s->few[FEW - 1]]) continue;
        long at = s->left < FEW ? s->left++ : FEW - 1;
        for (; at > 0 && s->margin[s->few[at - 1]] > s->margin[i]; at--) s->few[at] = s->few[at - 1];
        s->few[at] = i;
    }
    return s->left;
}

/* Take row j into the corral; 0 if it lies in the corral's affine hull. */
INLINE int NAME(append)(NAME(State) *s, long j) {
    long m = s->m, cap = s->cap;
    const REAL *row = s->rows + j * s->wide;
    REAL *line = s->target, left = 1 + NAME(dot)(row, row, s->wide), sum = 1;
    for (long i = 0; i < m; i++)
        line[i] = 1 + NAME(dot)(s->rows + s->corral[i] * s->wide, row, s->wide);
    for (long i = 0; i < m; i++) {
        const REAL *u = s->factor + i * cap;
        line[i] /= u[i];
        NAME(add)(line + i + 1, -line[i], u + i + 1, m - i - 1);
        left -= line[i] * line[i];
        sum -= line[i] * s->forward[i];
    }
    if (!(left > 64 * EPS)) return 0;
    for (long i = 0; i < m; i++) s->factor[i * cap + m] = line[i];
    s->factor[m * cap + m] = SQRT(left);
    s->forward[m] = sum / s->factor[m * cap + m];
    s->corral[s->m++] = j;
    return 1;
}

/* Let entry k of the corral go; plane rotations make the factor triangular again. */
INLINE void NAME(drop)(NAME(State) *s, long k) {
    long cap = s->cap, m = --s->m;
    REAL *f = s->factor;
    for (long i = k; i < m; i++) s->corral[i] = s->corral[i + 1], s->weight[i] = s->weight[i + 1];
    for (long i = 0; i < k; i++)
        memmove(f + i * cap + k, f + i * cap + k + 1, sizeof(REAL) * (m - k));
    /* rows k..m now start one column early: row i holds its old entries i + 1.. from column i on,
     * and the old diagonal of row i + 1 is to be rotated into it */
    memmove(f + k * cap + k, f + k * cap + k + 1, sizeof(REAL) * (m - k));
    for (long i = k; i < m; i++) {
        REAL *top = f + i * cap + i, *low = f + (i + 1) * cap + i + 1;
        REAL a = top[0], b = low[0], h = SQRT(a * a + b * b), c = a / h, t = b / h;
        REAL first = s->forward[i], second = s->forward[i + 1];
        s->forward[i] = c * first + t * second;
        s->forward[i + 1] = c * second - t * first;
        top[0] = h;
        low[0] = 0;
        for (long q = 1; q < m - i; q++) {
            REAL x = top[q], y = low[q];
            top[q] = c * x + t * y;
            low[q] = c * y - t * x;
        }
        /* move the rest of the lower row one column to the left, to where it belongs */
        memmove(low, low + 1, sizeof(REAL) * (m - i - 1));
    }
}

/* target = weights of the least-norm point in the affine hull of the corral */
INLINE void NAME(aim)(NAME(State) *s) {
    long m = s->m, cap = s->cap;
    REAL sum = 0, *t = s->target;
    for (long i = m - 1; i >= 0; i--) {
        const REAL *u = s->factor + i * cap;
        t[i] = (s->forward[i] - NAME(dot)(u + i + 1, t + i + 1, m - i - 1)) / u[i];
        sum += t[i];
    }
    for (long i = 0; i < m; i++) t[i] /= sum;
}

/* Move to the target, letting go of rows whose weight would not stay positive. */
INLINE long NAME(settle)(NAME(State) *s, char *inside) {
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

INLINE void NAME(place)(const NAME(State) *s, REAL *x) {
    memset(x, 0, sizeof(REAL) * s->wide);
    for (long i = 0; i < s->m; i++)
        NAME(add)(x, s->weight[i], s->rows + s->corral[i] * s->wide, s->wide);
}

/* Find the point x. Several rows are taken in at a time: the target's weights of the new rows times
 * their violations add up to more than 0, so one of them rises at least, and the norm falls.
 * corral and weight hold *count entries to start from, and the result.
 * Ends when no row is below x.x (1 - tol), when x.x <= zero, or after `limit` steps. */
SPREAD static void NAME(solve)(const REAL *rows, const REAL *columns, long k, long d, long wide,
                               long *corral, double *weight, double *weight_rest, long *count,
                               REAL *x, double tol, double zero, long limit) {
    long cap = d + 2, steps = 0;
    REAL *memory = malloc(sizeof(REAL) * (cap * cap + 3 * cap + k));
    char *inside = calloc(k, 1);
    NAME(State) s = {.cap = cap, .d = d, .wide = wide, .k = k, .rows = rows, .columns = columns};
    s.corral = malloc(sizeof(long) * cap);
    s.factor = memory, s.weight = memory + cap * cap;
    s.target = s.weight + cap, s.forward = s.target + cap, s.margin = s.forward + cap;
    for (long i = 0; i < *count; i++)
        if (NAME(append)(&s, corral[i]))
            s.weight[s.m - 1] = (REAL)weight[i] + weight_rest[i], inside[corral[i]] = 1;
    if (s.m == 0) NAME(append)(&s, 0), s.weight[0] = 1, inside[0] = 1;
    steps += NAME(settle)(&s, inside);
    for (NAME(place)(&s, x); steps < limit; NAME(place)(&s, x)) {
        REAL square = NAME(dot)(x, x, wide), least = square * (1 - (REAL)tol);
        if (square <= zero || s.m > d) break;
        long taken = 0, found = NAME(choose)(&s, x, least, inside);
        for (long i = 0; i < found && taken < BLOCK && s.m <= d; i++)
            if (NAME(append)(&s, s.few[i])) s.weight[s.m - 1] = 0, inside[s.few[i]] = 1, taken++;
        if (!taken) break;
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
INLINE void NAME(unit)(REAL *out, const double *row, int sign, long d) {
    REAL norm = 0, scale;
    for (long j = 0; j < d; j++) norm += (REAL)row[j] * row[j];
    scale = sign / SQRT(norm);
    for (long j = 0; j < d; j++) out[j] = row[j] * scale;
}

/* Signed unit rows of one working set, both ways round. */
INLINE void NAME(gather)(REAL *rows, REAL *columns, const double *weights, const int *which,
                         const signed char *sign, long k, long d, long wide) {
    for (long i = 0; i < k; i++) {
        REAL *row = rows + i * wide;
        NAME(unit)(row, weights + (long)which[i] * d, sign[i], d);
        for (long j = d; j < wide; j++) row[j] = 0;
    }
    for (long first = 0; first < k; first += 8) { /* eight rows at a time fill whole cache lines */
        long last = first + 8 < k ? first + 8 : k;
        for (long j = 0; j < d; j++)
            for (long i = first; i < last; i++) columns[j * k + i] = rows[i * wide + j];
    }
}
