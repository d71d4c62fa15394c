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

#define REAL double
#define EPS DBL_EPSILON
#define SQRT sqrt
#define NAME(x) double_##x
#include "_wolfe.h"
#undef REAL
#undef EPS
#undef SQRT
#undef NAME
#undef SPREAD
#define SPREAD

#ifdef __SIZEOF_FLOAT128__
typedef __float128 quad;
#define EPS 1.9259299443872358530559779425849273e-34Q
#else
typedef long double quad;
#define EPS LDBL_EPSILON
#endif
static quad quad_root(quad a) { /* two Newton steps from the double root */
    quad r = sqrt((double)a);
    if (!(r > 0)) return r;
    r = (r + a / r) / 2;
    return (r + a / r) / 2;
}
#define REAL quad
#define SQRT quad_root
#define NAME(x) quad_##x
#include "_wolfe.h"

typedef struct {
    long d, cap, most, first, last, limit;
    double tol, zero;
    int precise;
    Py_buffer weights, live, rows, signs, counts, corral, lam, lam_rest, size, x, rest;
} Job;

#define WIDE(d) (((d) + 7) / 8 * 8)

static void work_double(const Job *j, long l, double *rows, double *columns, double *x) {
    long k = ((const long *)j->counts.buf)[l], d = j->d, wide = WIDE(d);
    double_gather(rows, columns, j->weights.buf, (const int *)j->rows.buf + l * j->cap,
                  (const signed char *)j->signs.buf + l * j->cap, k, d, wide);
    double_solve(rows, columns, k, d, wide, (long *)j->corral.buf + l * (d + 2),
                 (double *)j->lam.buf + l * (d + 2), (double *)j->lam_rest.buf + l * (d + 2),
                 (long *)j->size.buf + l, x, j->tol, j->zero, j->limit);
    memcpy((double *)j->x.buf + l * d, x, sizeof(double) * d);
}

static void work_quad(const Job *j, long l, quad *rows, quad *columns, quad *x) {
    long k = ((const long *)j->counts.buf)[l], d = j->d, wide = WIDE(d);
    quad_gather(rows, columns, j->weights.buf, (const int *)j->rows.buf + l * j->cap,
                (const signed char *)j->signs.buf + l * j->cap, k, d, wide);
    quad_solve(rows, columns, k, d, wide, (long *)j->corral.buf + l * (d + 2),
               (double *)j->lam.buf + l * (d + 2), (double *)j->lam_rest.buf + l * (d + 2),
               (long *)j->size.buf + l, x, j->tol, j->zero, j->limit);
    for (long i = 0; i < d; i++) {
        double high = (double)x[i];
        ((double *)j->x.buf)[l * d + i] = high;
        ((double *)j->rest.buf)[l * d + i] = (double)(x[i] - high);
    }
}

/* solve(weights, d, live, rows, signs, counts, cap, most, corral, lam, lam_rest, size, x, rest, tol,
 *       zero, limit, precise, first, last): problems live[first..last], results written in place;
 *       cap is the width of rows and signs, most the largest count */
static PyObject *solve(PyObject *self, PyObject *args) {
    Job j;
    if (!PyArg_ParseTuple(args, "y*ly*y*y*y*llw*w*w*w*w*w*ddlill", &j.weights, &j.d, &j.live, &j.rows, &j.signs,
                          &j.counts, &j.cap, &j.most, &j.corral, &j.lam, &j.lam_rest, &j.size, &j.x,
                          &j.rest, &j.tol, &j.zero, &j.limit, &j.precise, &j.first, &j.last))
        return NULL;
    long cells = j.most * WIDE(j.d);
    void *memory = malloc((j.precise ? sizeof(quad) : sizeof(double)) * (2 * cells + WIDE(j.d)));
    if (memory) {
        quad *wide = memory;
        double *narrow = memory;
        Py_BEGIN_ALLOW_THREADS
        for (long i = j.first; i < j.last; i++) {
            long l = ((const long *)j.live.buf)[i];
            if (j.precise) work_quad(&j, l, wide, wide + cells, wide + 2 * cells);
            else work_double(&j, l, narrow, narrow + cells, narrow + 2 * cells);
        }
        Py_END_ALLOW_THREADS
        free(memory);
    }
    Py_buffer *all[] = {&j.weights, &j.live, &j.rows, &j.signs, &j.counts, &j.corral,
                        &j.lam,     &j.lam_rest, &j.size, &j.x,  &j.rest};
    for (int i = 0; i < 11; i++) PyBuffer_Release(all[i]);
    if (!memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

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
            ((double *)out.buf)[i] = sign ? (double)quad_dot(x, x + d, d) : INFINITY;
        }
        Py_END_ALLOW_THREADS
        free(x);
    }
    Py_buffer *all[] = {&w, &s, &high, &low, &out};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    if (!x) return PyErr_NoMemory();
    return PyFloat_FromDouble((double)quad_root(square));
}

/* hull(weights, d, rows, signs, lam, lam_rest): the norm of sum lam sign row / |row| over sum lam */
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
            quad_add(x, share, x + d, d);
            sum += share;
        }
        norm = quad_root(quad_dot(x, x, d)) / sum;
        free(x);
    }
    Py_buffer *all[] = {&w, &rows, &signs, &high, &low};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    if (!x) return PyErr_NoMemory();
    return PyFloat_FromDouble((double)norm);
}

static PyMethodDef methods[] = {
    {"solve", solve, METH_VARARGS, "Least-norm points of a batch of working sets, in place."},
    {"price", price, METH_VARARGS, "Margins of all rows at a point, in quadruple precision."},
    {"hull", hull, METH_VARARGS, "Norm of a convex combination, in quadruple precision."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_minnorm", "Least-norm points of convex hulls.", -1, methods};
PyMODINIT_FUNC PyInit__minnorm(void) {
    PyObject *m = PyModule_Create(&module);
    if (m) PyModule_AddObject(m, "epsilon", PyFloat_FromDouble((double)EPS));
    return m;
}
