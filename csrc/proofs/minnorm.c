/* labelset.proofs._minnorm: least-norm points of many small problems, in double and quadruple.
 *
 * Arrays arrive as buffers; the interpreter's lock is released, so threads run side by side. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define SPREAD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPREAD
#endif

#include "lanes.h"
#include "scan.h"
#define REAL double
#define EPS DBL_EPSILON
#define SQRT sqrt
#define NAME(x) double_##x
#include "corral.h"
#include "wolfe.h"
#undef REAL
#undef EPS
#undef SQRT
#undef NAME

#include "quad.h"
#undef SPREAD
#define SPREAD
#define REAL quad
#define EPS QUAD_EPSILON
#define SQRT quad_root
#define NAME(x) quad_##x
#include "corral.h"
#include "wolfe.h"

/* ---- working sets ------------------------------------------------------------------------------
 * Label set l has counts[l] rows, rows[l * cap ..] by number and sides[l * cap ..] by sign. */

typedef struct {
    long d, cap, most, first, last, limit;
    double tol, zero;
    int precise;
    Py_buffer rows_all, live, rows, sides, counts, corral, lam, lam_rest, held, factor, x, rest;
} Job;

/* One working set: its signed unit rows, then the point x. */
static void work(const Job *j, long l, void *memory) {
    long k = ((const long *)j->counts.buf)[l], d = j->d, wide = WIDE(d);
    long all_rows = j->rows_all.len / (wide * (long)sizeof(double));
    long side = d < all_rows ? d : all_rows, cap = CORRAL(side); /* rows of a corral differ */
    const int *which = (const int *)j->rows.buf + l * j->cap;
    const signed char *sides = (const signed char *)j->sides.buf + l * j->cap;
    long *corral = (long *)j->corral.buf + l * (side + 2), *held = (long *)j->held.buf + l;
    double *lam = (double *)j->lam.buf + l * (side + 2);
    double *lam_rest = (double *)j->lam_rest.buf + l * (side + 2);
    double *found = (double *)j->x.buf + l * wide, *rest = (double *)j->rest.buf + l * wide;
    const double *all = j->rows_all.buf;
    if (j->precise) {
        quad *x = memory, *rows = x + wide, *factor = (quad *)j->factor.buf + l * cap * cap;
        for (long i = 0; i < k; i++)
            quad_unit(rows + i * wide, all + which[i] * wide, sides[i], d);
        quad_solve(rows, k, d, cap, corral, lam, lam_rest, held, factor, x, j->tol, j->zero, j->limit);
        for (long i = 0; i < d; i++) found[i] = (double)x[i], rest[i] = (double)(x[i] - found[i]);
    } else {
        double *rows = memory, *factor = (double *)j->factor.buf + l * cap * cap;
        for (long i = 0; i < k; i++)
            for (long q = 0; q < wide; q++) rows[i * wide + q] = all[which[i] * wide + q] * sides[i];
        double_solve(rows, k, d, cap, corral, lam, lam_rest, held, factor, found, j->tol, j->zero,
                     j->limit);
    }
}

static void release(Py_buffer *first, Py_buffer *last) {
    for (; first <= last; first++) PyBuffer_Release(first);
}

/* solve(rows_all, d, live, rows, sides, counts, cap, most, corral, lam, lam_rest, held, factor, x,
 *       rest, tol, zero, limit, precise, first, last): the points of label sets live[first..last],
 *       in place. rows_all holds unit rows, or, where precise, rows of any length; most is the
 *       largest count. */
static PyObject *solve(PyObject *self, PyObject *args) {
    Job j;
    if (!PyArg_ParseTuple(args, "y*ly*y*y*y*llw*w*w*w*w*w*w*ddlill", &j.rows_all, &j.d, &j.live,
                          &j.rows, &j.sides, &j.counts, &j.cap, &j.most, &j.corral, &j.lam,
                          &j.lam_rest, &j.held, &j.factor, &j.x, &j.rest, &j.tol, &j.zero, &j.limit,
                          &j.precise, &j.first, &j.last))
        return NULL;
    void *memory = calloc((j.most + 1) * WIDE(j.d), j.precise ? sizeof(quad) : sizeof(double));
    if (memory) {
        Py_BEGIN_ALLOW_THREADS
        for (long i = j.first; i < j.last; i++) work(&j, ((const long *)j.live.buf)[i], memory);
        Py_END_ALLOW_THREADS
        free(memory);
    }
    release(&j.rows_all, &j.rest);
    if (!memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* ---- pricing in single precision, and what comes of it in double ---------------------------- */

typedef struct {
    long n, d, sets, cap, most, first, last;
    double close, slack;
    Py_buffer unit, panels, signs, live, x, size, upper, has, rows, sides, counts, lower, grown;
} Pricing;

/* out_i = side_i row_i.x / norm for rows which[0..count]; out has space for four at a time */
SPREAD static void margins(const double *unit, long wide, const int *which, const signed char *side,
                           long count, const double *x, double norm, double *out) {
    for (long i = 0; i < count; i += 4) {
        const double *a[4];
        for (long q = 0; q < 4; q++) a[q] = unit + which[i + q < count ? i + q : i] * wide;
        double_dots(a, x, wide, out + i);
        for (long q = i; q < i + 4 && q < count; q++) out[q] *= side[q] / norm;
    }
}

static double smallest(const double *values, long count, double start) {
    for (long i = 0; i < count; i++)
        if (values[i] < start) start = values[i];
    return start;
}

/* Rows found whose margins in double precision are below the point's norm join the working set; if
 * there are none, all that were found: they lie too close to it for single precision to tell. The
 * least margin is that of these, of the working set, or of the rest, which lie above the scan's
 * limit but for its error. */
static void grow_one(const Pricing *j, long at, const Worst *w, double *value) {
    long l = ((const long *)j->live.buf)[at], wide = WIDE(j->d), taken = 0;
    long *count = (long *)j->counts.buf + l;
    double norm = ((double *)j->size.buf)[at], upper = ((double *)j->upper.buf)[at];
    double bar = upper * (1 - j->close / 4), *x = (double *)j->x.buf + l * wide, low;
    int *rows = (int *)j->rows.buf + l * j->cap, *found = rows + *count;
    signed char *sides = (signed char *)j->sides.buf + l * j->cap, *side = sides + *count;
    const signed char *sign = (signed char *)j->signs.buf + l * PANEL;
    for (long i = 0; i < w->filled; i++) {
        found[i] = w->row[i];
        side[i] = sign[found[i] / PANEL * j->sets * PANEL + found[i] % PANEL];
    }
    margins(j->unit.buf, wide, found, side, w->filled, x, norm, value);
    low = smallest(value, w->filled, INFINITY);
    for (long i = 0; i < w->filled; i++) {
        if (low < bar && value[i] >= bar) continue;
        found[taken] = found[i], side[taken] = side[i];
        ((char *)j->has.buf)[l * j->n + found[taken++]] = 1;
    }
    low = fmin(low, w->limit - j->slack);
    if (low >= upper * (1 - j->close)) { /* it may be the last point: nothing is left out */
        margins(j->unit.buf, wide, rows, sides, *count, x, norm, value);
        low = smallest(value, *count, low);
    }
    *count += taken;
    ((double *)j->lower.buf)[at] = low;
    ((char *)j->grown.buf)[at] = taken > 0;
}

/* Price label sets live[first..last]; 0 if there is no memory. */
static int grow_some(const Pricing *j) {
    long sets = j->last - j->first, d = j->d, wide = WIDE(d), space = 2 * j->most, largest = space;
    const long *live = (const long *)j->live.buf + j->first;
    float *x = calloc((sets + SIDE) * d, sizeof(float));
    float *values = malloc(sizeof(float) * sets * space);
    int *rows = malloc(sizeof(int) * sets * space);
    Worst *worst = malloc(sizeof(Worst) * sets);
    for (long i = 0; i < sets; i++) largest = fmax(largest, ((long *)j->counts.buf)[live[i]]);
    double *value = malloc(sizeof(double) * (largest + 4));
    int enough = x && values && rows && worst && value;
    for (long i = 0; enough && i < sets; i++) {
        const double *from = (double *)j->x.buf + live[i] * wide;
        double norm = ((double *)j->size.buf)[j->first + i];
        float *to = x + i / SIDE * SIDE * d + i % SIDE;
        for (long q = 0; q < d; q++) to[q * SIDE] = (float)(from[q] / norm);
        worst[i] = (Worst){0, j->most, 0, values + i * space, rows + i * space};
        worst[i].limit = nextafterf(((double *)j->upper.buf)[j->first + i] + j->slack, INFINITY);
    }
    if (enough)
        scan(j->panels.buf, PANELS(j->n), d, x, live, sets, j->signs.buf, j->sets, j->has.buf, j->n,
             worst);
    for (long i = 0; enough && i < sets; i++) {
        if (worst[i].filled > j->most) least(worst + i);
        grow_one(j, j->first + i, worst + i, value);
    }
    free(x), free(values), free(rows), free(worst), free(value);
    return enough;
}

/* grow(unit, panels, n, d, sets, signs, live, x, size, upper, has, rows, sides, counts, cap, most,
 *      close, slack, lower, grown, first, last): price all rows at the points of label sets
 *      live[first..last], of norms `size`, and add the worst of those below `upper`, up to `most`,
 *      to their working sets; lower is the least margin over the norm, up to double precision */
static PyObject *grow(PyObject *self, PyObject *args) {
    Pricing j;
    int enough;
    if (!PyArg_ParseTuple(args, "y*y*llly*y*y*y*y*w*w*w*w*llddw*w*ll", &j.unit, &j.panels, &j.n,
                          &j.d, &j.sets, &j.signs, &j.live, &j.x, &j.size, &j.upper, &j.has,
                          &j.rows, &j.sides, &j.counts, &j.cap, &j.most, &j.close, &j.slack,
                          &j.lower, &j.grown, &j.first, &j.last))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    enough = grow_some(&j);
    Py_END_ALLOW_THREADS
    release(&j.unit, &j.grown);
    if (!enough) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* ---- quadruple precision -------------------------------------------------------------------- */

/* price(weights, n, d, signs, x, rest, margins): sign * row.x / |row| in quadruple precision, and
 * the norm of x as the result; x is the sum of two doubles per entry */
static PyObject *price(PyObject *self, PyObject *args) {
    Py_buffer w, s, high, low, out;
    long n, d;
    if (!PyArg_ParseTuple(args, "y*lly*y*y*w*", &w, &n, &d, &s, &high, &low, &out)) return NULL;
    quad *x = malloc(sizeof(quad) * 2 * d), square = 0;
    if (x) {
        Py_BEGIN_ALLOW_THREADS
        for (long i = 0; i < d; i++) {
            x[i] = (quad)((double *)high.buf)[i] + ((double *)low.buf)[i];
            square += x[i] * x[i];
        }
        for (long i = 0; i < n; i++) {
            int sign = ((signed char *)s.buf)[i];
            quad_unit(x + d, (double *)w.buf + i * d, sign, d);
            ((double *)out.buf)[i] = sign ? (double)quad_one_dot(x, x + d, d) : INFINITY;
        }
        Py_END_ALLOW_THREADS
        free(x);
    }
    Py_buffer *all[] = {&w, &s, &high, &low, &out};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    if (!x) return PyErr_NoMemory();
    return PyFloat_FromDouble((double)quad_root(square));
}

/* hull(weights, d, rows, signs, lam, lam_rest): |sum lam sign row / |row|| over sum lam */
static PyObject *hull(PyObject *self, PyObject *args) {
    Py_buffer w, rows, signs, high, low;
    long d;
    if (!PyArg_ParseTuple(args, "y*ly*y*y*y*", &w, &d, &rows, &signs, &high, &low)) return NULL;
    quad *x = calloc(2 * d, sizeof(quad)), sum = 0, norm = 0;
    if (x) {
        long count = rows.len / sizeof(int);
        for (long i = 0; i < count; i++) {
            quad share = (quad)((double *)high.buf)[i] + ((double *)low.buf)[i];
            long row = ((int *)rows.buf)[i];
            quad_unit(x + d, (double *)w.buf + row * d, ((signed char *)signs.buf)[i], d);
            for (long q = 0; q < d; q++) x[q] += share * x[d + q];
            sum += share;
        }
        norm = quad_root(quad_one_dot(x, x, d)) / sum;
        free(x);
    }
    Py_buffer *all[] = {&w, &rows, &signs, &high, &low};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    if (!x) return PyErr_NoMemory();
    return PyFloat_FromDouble((double)norm);
}

static PyMethodDef methods[] = {
    {"solve", solve, METH_VARARGS, "Least-norm points of a batch of working sets, in place."},
    {"grow", grow, METH_VARARGS, "Working sets grown by the rows that are worst off, in place."},
    {"price", price, METH_VARARGS, "Margins of all rows at a point, in quadruple precision."},
    {"hull", hull, METH_VARARGS, "Norm of a convex combination, in quadruple precision."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_minnorm", "Least-norm points of convex hulls.", -1, methods};
PyMODINIT_FUNC PyInit__minnorm(void) {
    PyObject *m = PyModule_Create(&module);
    if (m) PyModule_AddObject(m, "epsilon", PyFloat_FromDouble((double)QUAD_EPSILON));
    return m;
}
