/* Quadruple precision, as far as the machine has it. */
#ifdef __SIZEOF_FLOAT128__
typedef __float128 quad;
#define QUAD_EPSILON 1.9259299443872358530559779425849273e-34Q
#else
typedef long double quad;
#define QUAD_EPSILON LDBL_EPSILON
#endif

static quad quad_root(quad a) { /* two Newton steps from the double root */
    quad r = sqrt((double)a);
    if (!(r > 0)) return r;
    r = (r + a / r) / 2;
    return (r + a / r) / 2;
}

static quad quad_one_dot(const quad *a, const quad *b, long n) {
    quad sum = 0;
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The sums of `lanes.h`. */
static void quad_dots(const quad *const *a, const quad *b, long n, quad *out) {
    for (long q = 0; q < 4; q++) out[q] = quad_one_dot(a[q], b, n);
}

static void quad_add(quad *y, const quad *const *a, const quad *c, long n) {
    for (long q = 0; q < 4; q++)
        for (long i = 0; i < n; i++) y[i] += c[q] * a[q][i];
}

/* One signed unit row from a row of any length. */
static void quad_unit(quad *out, const double *row, int sign, long d) {
    quad norm = 0, scale;
    for (long j = 0; j < d; j++) norm += (quad)row[j] * row[j];
    scale = sign / quad_root(norm);
    for (long j = 0; j < d; j++) out[j] = row[j] * scale;
}
