/* labelset.kernels._native_loops: losses and their gradients on the CPU, without a compiler at run time.
 *
 * Every loop is built for several widths of vectors, and the widest that the machine has is used:
 * this file includes itself once for each, NAME saying which.
 * Arrays arrive as addresses: kernels/native/calls.py keeps them alive and has checked them. The interpreter's lock
 * is released, so threads run side by side. */
#ifdef NAME
#include "vector_math.h"
#include "machine.h"
#include "matrix.h"
#include "separable.h"
#include "confusion.h"
#include "axes.h"
#else
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#define BLOCK 256 /* numbers a step runs over: the buffers of a program fit the nearest cache */
#define STRIDE (BLOCK + 16) /* between buffers, so that they do not all want the same lines of it */
#define UNIT (64 * BLOCK)
#define REGISTERS 64 /* as in kernels/native/program.py */
#define COLUMNS 8
#define NOTHING (-FLT_MAX)
#define LOWER(x, y) ((x) < (y) ? (x) : (y))
enum { DENSE_BITS, DENSE_SOFT, SPARSE };

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define ALWAYS_INLINE __attribute__((always_inline))
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#define ALWAYS_INLINE __attribute__((always_inline))
#else
#define INDEPENDENT
#define ALWAYS_INLINE
#endif
#if defined(__GNUC__)
#define AHEAD(place, write) __builtin_prefetch(place, write, 2)
#else
#define AHEAD(place, write) ((void)0)
#endif

#define NAME(x) plain_##x
#define VECTOR 0 /* bytes, where functions are written for vectors of a known width */
#include "module.c"
#undef NAME
#undef VECTOR

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHOICE 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NAME(x) avx2_##x
#define VECTOR 32
#include "module.c"
#undef NAME
#undef VECTOR
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#define NAME(x) avx512_##x
#define VECTOR 64
#include "module.c"
#undef NAME
#undef VECTOR
#pragma GCC pop_options
#elif defined(__x86_64__) && defined(__clang__)
#define CHOICE 1
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define NAME(x) avx2_##x
#define VECTOR 32
#include "module.c"
#undef NAME
#undef VECTOR
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#define NAME(x) avx512_##x
#define VECTOR 64
#include "module.c"
#undef NAME
#undef VECTOR
#pragma clang attribute pop
#endif

/* The widest build of a function that this machine runs. */
#ifdef CHOICE
#define WIDEST(function)                                                                           \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&                    \
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")              \
         ? avx512_##function                                                                       \
     : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_##function           \
                                                                       : plain_##function)
#else
#define WIDEST(function) plain_##function
#endif

/* Numbers too small to be normal become 0 while loops run: gradients of scores far out are full of
 * them, and every product that meets one, here or later in the network, takes many times as long. */
#if defined(__x86_64__) && defined(__GNUC__)
static unsigned small_to_zero(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8000);
    return before;
}
static void as_before(unsigned before) { _mm_setcsr(before); }
#else
static unsigned small_to_zero(void) { return 0; }
static void as_before(unsigned before) { (void)before; }
#endif

/* Does one of the loops without the interpreter's lock, and returns what came of it. */
#define RETURN_DONE(function, job, first, last)                                                    \
    do {                                                                                           \
        int done;                                                                                  \
        Py_BEGIN_ALLOW_THREADS;                                                                    \
        unsigned before = small_to_zero();                                                         \
        done = WIDEST(function)(job, first, last);                                                 \
        as_before(before);                                                                         \
        Py_END_ALLOW_THREADS;                                                                      \
        return finish(done);                                                                       \
    } while (0)

#define ADDRESS(pointer) ((const void *)(uintptr_t)(pointer))
#define PLACE(pointer) ((void *)(uintptr_t)(pointer))
typedef unsigned long long Word;

/* Whether all labels were in [0, 1]. */
static PyObject *finish(int outcome) {
    return outcome ? PyBool_FromLong(outcome == 1) : PyErr_NoMemory();
}

static int take_scores(PyObject *args, Scores *v, long *rows) {
    Word scores;
    if (!PyArg_ParseTuple(args, "Kill", &scores, &v->narrow, rows, &v->n)) return 0;
    v->scores = ADDRESS(scores);
    return 1;
}

static int take_labels(PyObject *args, Labels *y) {
    Word bits, values, starts, columns;
    if (!PyArg_ParseTuple(args, "ilKKKK", &y->kind, &y->n, &bits, &values, &starts, &columns)) return 0;
    y->bits = ADDRESS(bits), y->values = ADDRESS(values);
    y->starts = ADDRESS(starts), y->columns = ADDRESS(columns);
    return 1;
}

static int take_program(PyObject *args, Code *code) {
    Word steps, constants;
    if (!PyArg_ParseTuple(args, "KK", &steps, &constants)) return 0;
    code->steps = ADDRESS(steps), code->constants = ADDRESS(constants);
    return 1;
}

/* (steps, numbers, by_on, scale, entries of a line) */
static int take_ratio(PyObject *args, Ratio *f) {
    Word steps, numbers;
    if (!PyArg_ParseTuple(args, "KKpdl", &steps, &numbers, &f->by_on, &f->scale, &f->entries)) return 0;
    f->head = ADDRESS(steps), f->numbers = ADDRESS(numbers);
    f->steps = (const int32_t *)(f->head + 1);
    return 1;
}

/* ((address, size), ...) of what a program reads besides the scores: a number per label, or one. */
static int take_columns(PyObject *args, Columns *given) {
    given->count = (int)PyTuple_Size(args);
    if (given->count > COLUMNS) {
        PyErr_Format(PyExc_ValueError, "at most %d numbers per label, got %d", COLUMNS, given->count);
        return 0;
    }
    for (int c = 0; c < given->count; c++) {
        Word address;
        if (!PyArg_ParseTuple(PyTuple_GetItem(args, c), "Kl", &address, &given->size[c])) return 0;
        given->column[c] = ADDRESS(address);
    }
    return 1;
}

/* separable(scores, labels, off, both, columns, gradient, scale, sums, unknown, first, last) */
static PyObject *separable(PyObject *self, PyObject *args) {
    PyObject *scores, *labels, *off, *both, *columns;
    Separable job = {0};
    long rows, first, last;
    Word gradient, sums, unknown;
    if (!PyArg_ParseTuple(args, "OOOOOKfKKll", &scores, &labels, &off, &both, &columns, &gradient,
                          &job.scale, &sums, &unknown, &first, &last) ||
        !take_scores(scores, &job.v, &rows) || !take_labels(labels, &job.y) ||
        !take_program(off, &job.off) || !take_program(both, &job.both) ||
        !take_columns(columns, &job.columns))
        return NULL;
    job.gradient = PLACE(gradient), job.sums = PLACE(sums), job.unknown = PLACE(unknown);
    job.entries = rows * job.v.n;
    RETURN_DONE(separable, &job, first, last);
}

/* decisions(scores, labels, values, columns, by_row, tall, wide, no, sums, first, last) */
static PyObject *decisions(PyObject *self, PyObject *args) {
    PyObject *scores, *labels, *values, *columns;
    Confusion job = {0};
    long first, last;
    Word sums;
    if (!PyArg_ParseTuple(args, "OOOOpllpKll", &scores, &labels, &values, &columns, &job.by_row,
                          &job.tall, &job.wide, &job.no, &sums, &first, &last) ||
        !take_scores(scores, &job.v, &job.rows) || !take_labels(labels, &job.y) ||
        !take_program(values, &job.off) || !take_columns(columns, &job.columns))
        return NULL;
    job.sums = PLACE(sums);
    RETURN_DONE(decisions, &job, first, last);
}

/* weigh(ratio, lines, sums, total) */
static PyObject *weigh(PyObject *self, PyObject *args) {
    PyObject *ratio;
    Ratio f = {0};
    Word sums, total;
    if (!PyArg_ParseTuple(args, "OlKK", &ratio, &f.stride, &sums, &total) || !take_ratio(ratio, &f))
        return NULL;
    f.sums = PLACE(sums), f.total = PLACE(total);
    RETURN_DONE(weigh, &f, 0, f.stride);
}

/* ratios(scores, labels, values, columns, by_row, tall, wide, no, totals, ratio, gradient, first, last) */
static PyObject *ratios(PyObject *self, PyObject *args) {
    PyObject *scores, *labels, *values, *columns, *ratio;
    Confusion job = {0};
    long first, last;
    Word totals, gradient;
    if (!PyArg_ParseTuple(args, "OOOOpllpKOKll", &scores, &labels, &values, &columns, &job.by_row,
                          &job.tall, &job.wide, &job.no, &totals, &ratio, &gradient, &first, &last) ||
        !take_scores(scores, &job.v, &job.rows) || !take_labels(labels, &job.y) ||
        !take_program(values, &job.off) || !take_columns(columns, &job.columns) ||
        !take_ratio(ratio, &job.ratio))
        return NULL;
    job.sums = PLACE(totals), job.gradient = PLACE(gradient);
    RETURN_DONE(ratios, &job, first, last);
}

/* returns(scores, labels, slopes, opposite, columns, by_row, factors, gradient, first, last) */
static PyObject *returns(PyObject *self, PyObject *args) {
    PyObject *scores, *labels, *slopes, *columns;
    Confusion job = {0};
    long first, last;
    int opposite;
    Word factors, gradient;
    if (!PyArg_ParseTuple(args, "OOOpOpKKll", &scores, &labels, &slopes, &opposite, &columns, &job.by_row,
                          &factors, &gradient, &first, &last) ||
        !take_scores(scores, &job.v, &job.rows) || !take_labels(labels, &job.y) ||
        !take_program(slopes, &job.off) || !take_columns(columns, &job.columns))
        return NULL;
    job.factors = PLACE(factors), job.gradient = PLACE(gradient), job.no = !opposite;
    RETURN_DONE(returns, &job, first, last);
}

/* ways(scores, labels, a, b, by_row, by_column, tall, wide, row_sums, columns, first, last) */
static PyObject *ways(PyObject *self, PyObject *args) {
    PyObject *scores, *labels;
    Ways job = {0};
    long first, last;
    Word row_sums, columns;
    if (!PyArg_ParseTuple(args, "OOffppllKKll", &scores, &labels, &job.a, &job.b, &job.by_row,
                          &job.by_column, &job.tall, &job.wide, &row_sums, &columns, &first, &last) ||
        !take_scores(scores, &job.v, &job.rows) || !take_labels(labels, &job.y))
        return NULL;
    job.row_sums = PLACE(row_sums), job.columns = PLACE(columns);
    RETURN_DONE(ways, &job, first, last);
}

/* back(scores, labels, a, b, row, column, gradient, first, last) */
static PyObject *back(PyObject *self, PyObject *args) {
    PyObject *scores, *labels;
    Returns job = {0};
    long first, last;
    Word row, column, gradient;
    if (!PyArg_ParseTuple(args, "OOffKKKll", &scores, &labels, &job.a, &job.b, &row, &column, &gradient,
                          &first, &last) ||
        !take_scores(scores, &job.v, &job.rows) || !take_labels(labels, &job.y))
        return NULL;
    job.row = ADDRESS(row), job.column = ADDRESS(column), job.gradient = PLACE(gradient);
    RETURN_DONE(back, &job, first, last);
}

static PyMethodDef methods[] = {
    {"separable", separable, METH_VARARGS, "Values and gradients of a separable loss."},
    {"decisions", decisions, METH_VARARGS, "Sums of soft decisions."},
    {"weigh", weigh, METH_VARARGS, "Losses of sums, and their slopes."},
    {"ratios", ratios, METH_VARARGS, "Losses of sums of soft decisions, and the gradient."},
    {"returns", returns, METH_VARARGS, "The gradient through sums of soft decisions."},
    {"ways", ways, METH_VARARGS, "Log-sum-exps along rows and columns."},
    {"back", back, METH_VARARGS, "The gradient through log-sum-exps."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native_loops", "Losses and their gradients.", -1, methods};

/* The names of steps, in the order of their numbers. */
static int add_names(PyObject *m, const char *called, const char *const *names, Py_ssize_t count) {
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name)
            PyTuple_SET_ITEM(all, i, name);
        else
            Py_CLEAR(all);
    }
    if (all && !PyModule_AddObject(m, called, all)) return 0;
    Py_XDECREF(all);
    return -1;
}

PyMODINIT_FUNC PyInit__native_loops(void) {
#define NAMED(id, name, loop, value) name,
    static const char *const steps[] = {STEPS(NAMED)};
#undef NAMED
#define NAMED(name, value) #name,
    static const char *const ratio_steps[] = {RATIO_STEPS(NAMED)};
#undef NAMED
    PyObject *m = PyModule_Create(&module);
    if (m && !PyModule_AddIntConstant(m, "UNIT", UNIT) &&
        !PyModule_AddIntConstant(m, "LOGISTIC", LOGISTIC_OP) &&
        !add_names(m, "STEPS", steps, LOGISTIC_OP) &&
        !add_names(m, "RATIO_STEPS", ratio_steps, RATIO_COUNT))
        return m;
    Py_XDECREF(m);
    return NULL;
}
#endif
