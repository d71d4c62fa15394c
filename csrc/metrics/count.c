/* labelset.metrics._count: the ranks of a few scores among many, by counting instead of sorting.
 *
 * Arrays arrive as buffers; the interpreter's lock is released, so threads run side by side. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define SPREAD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPREAD
#endif
#define LANES 16
#define STEPS 1024
#define WIDE 32
#define TALL 512

typedef struct {
    const void *scores;
    void *own;
    const long *starts;
    long rows, n, first, last, *at_least, *level, *on_at_least;
} Job;

#define REAL float
#define KEY uint32_t
#define TOP ((uint32_t)1 << 31)
#define NAME(x) float_##x
#include "count.h"
#undef REAL
#undef KEY
#undef TOP
#undef NAME
#define REAL double
#define KEY uint64_t
#define TOP ((uint64_t)1 << 63)
#define NAME(x) double_##x
#include "count.h"

/* gather(scores, bytes, rows, n, pointers, indices, by_column, next, own): the scores of the entries
 * of a compressed sparse matrix, by row, or by column from where next says. */
static PyObject *gather(PyObject *self, PyObject *args) {
    Py_buffer scores, pointers, indices, next, own;
    Job j = {0};
    long bytes;
    int by_column;
    if (!PyArg_ParseTuple(args, "y*llly*y*pw*w*", &scores, &bytes, &j.rows, &j.n, &pointers, &indices,
                          &by_column, &next, &own))
        return NULL;
    j.scores = scores.buf, j.own = own.buf;
    Py_BEGIN_ALLOW_THREADS
    if (bytes == 4) float_gather(&j, pointers.buf, indices.buf, by_column, next.buf);
    else double_gather(&j, pointers.buf, indices.buf, by_column, next.buf);
    Py_END_ALLOW_THREADS
    Py_buffer *all[] = {&scores, &pointers, &indices, &next, &own};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    Py_RETURN_NONE;
}

/* rank(scores, bytes, rows, n, by_column, starts, own, at_least, level, on_at_least, first, last): for
 * lines first..last of (rows, n) scores of 4 or 8 bytes. own[starts[l]:starts[l + 1]] are the scores of
 * line l to rank; they are sorted, and the results, which start as 0, are in that order. */
static PyObject *rank(PyObject *self, PyObject *args) {
    Py_buffer scores, starts, own, at_least, level, on_at_least;
    Job j;
    long bytes, most = 0;
    int by_column;
    if (!PyArg_ParseTuple(args, "y*lllpy*w*w*w*w*ll", &scores, &bytes, &j.rows, &j.n, &by_column, &starts,
                          &own, &at_least, &level, &on_at_least, &j.first, &j.last))
        return NULL;
    j.scores = scores.buf, j.own = own.buf, j.starts = starts.buf, j.at_least = at_least.buf;
    j.level = level.buf, j.on_at_least = on_at_least.buf;
    for (long l = j.first; l < j.last; l++) {
        long end = l + WIDE < j.last ? l + WIDE : j.last, size = j.starts[end] - j.starts[l] + WIDE;
        most = size > most ? size : most;
    }
    long *reached = malloc(sizeof(long) * most);
    void *spare = malloc(sizeof(double) * (most > WIDE * TALL ? most : WIDE * TALL));
    int *steps = malloc(sizeof(int) * WIDE * (STEPS + 2));
    if (reached && spare && steps) {
        Py_BEGIN_ALLOW_THREADS
        if (by_column) {
            if (bytes == 4) float_columns(&j, reached, spare, steps);
            else double_columns(&j, reached, spare, steps);
        } else if (bytes == 4) float_rows(&j, reached, spare, steps);
        else double_rows(&j, reached, spare, steps);
        Py_END_ALLOW_THREADS
    }
    int failed = !reached || !spare || !steps;
    free(reached), free(spare), free(steps);
    Py_buffer *all[] = {&scores, &starts, &own, &at_least, &level, &on_at_least};
    for (int i = 0; i < 6; i++) PyBuffer_Release(all[i]);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* add one's weights to a sum of each resample */
SPREAD static void add(float *restrict sum, const float *restrict weight, long times) {
    for (long t = 0; t < times; t++) sum[t] += weight[t];
}

/* those of one score that are on, and the precision there */
SPREAD static void reach(float *restrict right, float *restrict level, const float *restrict above,
                         double *restrict total, long times) {
    for (long t = 0; t < times; t++) {
        right[t] += level[t];
        total[t] += above[t] > 0 ? (double)level[t] * right[t] / above[t] : 0;
        level[t] = 0;
    }
}

/* those of one score, and the pairs with one that is on and one that is off above it, ties by half */
SPREAD static void pass(float *restrict right, float *restrict level, const float *restrict above,
                        float *restrict before, double *restrict total, long times) {
    for (long t = 0; t < times; t++) {
        double off = before[t], tied = (double)above[t] - right[t] - level[t] - off;
        total[t] += level[t] * (off + tied / 2);
        right[t] += level[t];
        before[t] = above[t] - right[t];
        level[t] = 0;
    }
}

/* Down the rows of one class, whose (rows, times) weights are of 4 bytes. marks: 1 where a row is
 * on, 2 where it is the last of its score. sums is (4, times), total (times,), and both start as 0;
 * total becomes the sum over rows that are on of weight times precision, or, for the area, the
 * weight of the pairs in the wrong order; sums[0] that of the rows that are on, sums[2] of all. */
static PyObject *down(PyObject *args, int area) {
    Py_buffer order, marks, weights, sums, total;
    long times;
    if (!PyArg_ParseTuple(args, "y*y*y*lw*w*", &order, &marks, &weights, &times, &sums, &total))
        return NULL;
    const long *rows = order.buf, count = order.len / (long)sizeof(long);
    const unsigned char *mark = marks.buf;
    float *right = sums.buf, *level = right + times, *above = level + times, *off = above + times;
    Py_BEGIN_ALLOW_THREADS
    for (long i = 0, on = 0; i < count; i++) {
        const float *weight = (const float *)weights.buf + rows[i] * times;
        add(above, weight, times);
        if (mark[i] & 1) add(level, weight, times), on = 1;
        if (mark[i] & 2 && area) pass(right, level, above, off, total.buf, times);
        else if (mark[i] & 2 && on) reach(right, level, above, total.buf, times), on = 0;
    }
    Py_END_ALLOW_THREADS
    Py_buffer *all[] = {&order, &marks, &weights, &sums, &total};
    for (int i = 0; i < 5; i++) PyBuffer_Release(all[i]);
    Py_RETURN_NONE;
}

static PyObject *precision(PyObject *self, PyObject *args) { return down(args, 0); }
static PyObject *area(PyObject *self, PyObject *args) { return down(args, 1); }

static PyMethodDef methods[] = {
    {"area", area, METH_VARARGS, "Pairs of one class in the wrong order, in many resamples of its rows."},
    {"precision", precision, METH_VARARGS, "The precision of one class in many resamples of its rows."},
    {"gather", gather, METH_VARARGS, "The scores of sparse entries, by row or by column."},
    {"rank", rank, METH_VARARGS, "The ranks of some scores of each line among all of it."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_count", "Ranks by counting.", -1, methods};
PyMODINIT_FUNC PyInit__count(void) { return PyModule_Create(&module); }
