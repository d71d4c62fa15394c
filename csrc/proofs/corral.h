/* A corral, the rows that hold the point of a search, and the factor of their Gram matrix.
 *
 * Written once for any real type: the includer defines REAL, EPS, SQRT and NAME, and the sums
 * NAME(dots) and NAME(add) of four vectors each. With G the Gram matrix, R is the upper triangle
 * with R R^T = (G + 1 1^T)^-1, kept by columns, zeros below: products with the inverse factor are
 * sums of long columns, where substitution would wait for one entry after another.
 */

#ifndef NEARBY
#define NEARBY 0x1p-10 /* squared distance from which on a row is close to the corral */
#define WIDE(n) (((n) + 7) / 8 * 8) /* whole vectors */
#define CORRAL(d) WIDE((d) + 4) /* space for a corral, and for four columns at a time */
#endif

typedef struct {
    long m, cap, d, wide, k; /* rows lie `wide` apart, zeros in between; columns of R `cap` */
    const REAL *rows;
    REAL *factor, *forward; /* R and R^T 1 */
    REAL *weight, *target, *line, *turn, *spare;
    REAL *margin; /* of every row, at the last full pricing */
    long *corral, *few, left; /* rows that were worst then, and how many are left */
    char *inside; /* whether a row is in the corral */
} NAME(State);

INLINE REAL NAME(dot)(const REAL *a, const REAL *b, long n) {
    const REAL *same[] = {a, a, a, a};
    REAL out[4];
    NAME(dots)(same, b, n, out);
    return out[0];
}

/* out_i = row_i.x for rows which[0..count], or the first `count` where which is NULL; out has space
 * for four at a time */
INLINE void NAME(price)(const NAME(State) *s, const long *which, long count, const REAL *x,
                        REAL *out) {
    for (long i = 0; i < count; i += 4) {
        const REAL *a[4];
        for (long q = 0; q < 4; q++) {
            long at = i + q < count ? i + q : i;
            a[q] = s->rows + (which ? which[at] : at) * s->wide;
        }
        NAME(dots)(a, x, s->wide, out + i);
    }
}

INLINE void NAME(columns)(const NAME(State) *s, long j, const REAL **a) {
    for (long q = 0; q < 4; q++) a[q] = s->factor + (j + q < s->m ? j + q : j) * s->cap;
}

/* out = R^T v, v being zero from m on */
INLINE void NAME(down)(const NAME(State) *s, const REAL *v, REAL *out) {
    for (long j = 0; j < s->m; j += 4) {
        const REAL *a[4];
        NAME(columns)(s, j, a);
        NAME(dots)(a, v, WIDE(j + 4), out + j);
    }
}

/* out = R v; out is zero from m on */
INLINE void NAME(up)(const NAME(State) *s, REAL *v, REAL *restrict out) {
    memset(out, 0, sizeof(REAL) * s->cap);
    for (long j = s->m; j < s->m + 3; j++) v[j] = 0;
    for (long j = 0; j < s->m; j += 4) {
        const REAL *a[4];
        NAME(columns)(s, j, a);
        NAME(add)(out, a, v + j, WIDE(j + 4));
    }
}

/* x += sum of c_i times row i of the corral */
INLINE void NAME(combine)(const NAME(State) *s, const REAL *c, REAL *x) {
    for (long i = 0; i < s->m; i += 4) {
        const REAL *a[4];
        REAL some[4];
        for (long q = 0; q < 4; q++) {
            some[q] = i + q < s->m ? c[i + q] : 0;
            a[q] = s->rows + s->corral[i + q < s->m ? i + q : i] * s->wide;
        }
        NAME(add)(x, a, some, s->wide);
    }
}

/* v = row_i.x + one for the corral's rows, zero beyond */
INLINE void NAME(lifted)(const NAME(State) *s, const REAL *x, REAL one, REAL *v) {
    NAME(price)(s, s->corral, s->m, x, v);
    for (long i = 0; i < s->m; i++) v[i] += one;
    for (long i = s->m; i < s->cap; i++) v[i] = 0;
}

/* The squared norm of (row, 1) + sum of c_i (row_i, 1), the part of a row that lies beside the
 * corral, anew: where that is small, c is corrected by a second projection first, and nothing is
 * lost to cancellation. Its last entry goes to `one`. */
INLINE REAL NAME(again)(NAME(State) *s, const REAL *row, REAL *c, REAL *one) {
    REAL *p = s->spare;
    for (int twice = 0;; twice++) {
        memcpy(p, row, sizeof(REAL) * s->wide);
        NAME(combine)(s, c, p);
        *one = 1;
        for (long i = 0; i < s->m; i++) *one += c[i];
        if (twice) return NAME(dot)(p, p, s->wide) + *one * *one;
        NAME(lifted)(s, p, *one, s->turn);
        NAME(down)(s, s->turn, s->line);
        NAME(up)(s, s->line, s->target);
        for (long i = 0; i < s->m; i++) c[i] -= s->target[i];
    }
}

/* Take row j into the corral; 0 if it lies in the corral's affine hull. */
INLINE int NAME(append)(NAME(State) *s, long j) {
    long m = s->m;
    const REAL *row = s->rows + j * s->wide;
    REAL *line = s->line, *column = s->factor + m * s->cap, one = 1, left;
    NAME(lifted)(s, row, 1, s->turn);
    NAME(down)(s, s->turn, line);
    left = 1 + NAME(dot)(row, row, s->wide);
    for (long i = 0; i < m; i++) left -= line[i] * line[i], one -= line[i] * s->forward[i];
    NAME(up)(s, line, column);
    for (long i = 0; i < m; i++) column[i] = -column[i];
    if (left < NEARBY) left = NAME(again)(s, row, column, &one);
    if (!(left > 4 * EPS)) return 0;
    REAL scale = 1 / SQRT(left);
    for (long i = 0; i < m; i++) column[i] *= scale;
    column[m] = scale;
    s->forward[m] = one * scale;
    s->weight[m] = 0;
    s->inside[j] = 1;
    s->corral[s->m++] = j;
    return 1;
}

/* Let entry k of the corral go: plane rotations of the columns of R leave its row with one entry,
 * in the last column, and both are struck out. */
INLINE void NAME(drop)(NAME(State) *s, long k) {
    long cap = s->cap, m = s->m;
    REAL *f = s->factor, *carry = s->turn, *size = s->line, last = s->forward[k], square = 0;
    s->inside[s->corral[k]] = 0;
    for (long i = k; i < m; i++) square += f[i * cap + k] * f[i * cap + k], size[i] = square;
    for (long i = k; i < m; i++) size[i] = SQRT(size[i]);
    memcpy(carry, f + k * cap, sizeof(REAL) * cap);
    for (long i = k + 1; i < m; i++) {
        REAL *restrict out = f + (i - 1) * cap, *restrict in = f + i * cap, *restrict old = carry;
        REAL c = size[i - 1] / size[i], t = in[k] / size[i], next = s->forward[i];
        s->forward[i - 1] = c * next - t * last;
        last = c * last + t * next;
        for (long q = 0; q < k; q++) {
            REAL a = old[q], b = in[q];
            out[q] = c * b - t * a;
            old[q] = c * a + t * b;
        }
        for (long q = k + 1; q <= i; q++) {
            REAL a = old[q], b = in[q];
            out[q - 1] = c * b - t * a;
            old[q] = c * a + t * b;
        }
    }
    s->m = m - 1;
    for (long i = k; i < s->m; i++)
        s->corral[i] = s->corral[i + 1], s->weight[i] = s->weight[i + 1];
}

