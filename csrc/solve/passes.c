/* labelset.train._dual: linear heads on sparse rows by passes of dual coordinate steps.
 *
 * For each label: minimise C sum_i loss(v_i, y_i) + |w|^2 / 2, v_i = w.x_i, where C may be another for each
 * entry and a constant feature
 * stands for the intercept. At the optimum w = sum_i a_i x_i with a_i = -C loss'(v_i). A step takes one
 * row and finds d with a_i + d + C loss'(v_i + d |x_i|^2) = 0, for LANES labels side by side; loss' is
 * a table, linear in between and beyond, so that one program serves every separable loss.
 *
 * Arrays arrive as buffers; the interpreter's lock is released, so threads run side by side. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define SPREAD __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define SPREAD
#endif
#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define POINTS 2049 /* of a table, on [-SPAN, SPAN] */
#define SPAN 16.0f
#define DENSITY 64.0f /* points for each unit of score */
#define FARTHEST 4.0f /* that one step may move a score: losses that are not quadratic need it */
#define CALM 10       /* passes after which steps shorten where the loss is not convex and may swing */
#define CLOSE 1e-3f   /* Newton's last step in a scalar equation */
#define TRIES 12      /* and how many there are */
#define STILL 1e-3f   /* steps below this share of the usual dual variable do not count as such */
#define AHEAD 64      /* entries by which weights are fetched before they are needed: a seventh faster */
#define PATIENCE 3    /* passes without a step after which a row is left out ... */
#define RETURN 4      /* ... but for each fourth pass */

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct {
    const int64_t *starts;
    const int32_t *columns;
    const float *values;
} Rows;

typedef struct {
    const float *tables;    /* slopes of the losses of a negative, POINTS, and of a positive, POINTS */
    const int64_t *table;   /* where each lane's begin */
    const float *targets;   /* (rows, LANES), NaN where unknown */
    const float *counts;    /* (rows, LANES), what each entry counts; NULL where all count 1 */
    float strength, *dual;  /* (rows, LANES) */
    float *weight, *bias;   /* (features, LANES), (LANES) */
    float still;            /* the longest step that does not count */
    float share;            /* of a step that is taken where its equation may have several solutions */
} Fit;

INLINE void scores_of(const Rows *x, const float *weight, const float *bias, int64_t row, float *out) {
    lanes v = *(const lanes *)bias, second = {0}, third = {0}, fourth = {0};
    int64_t e = x->starts[row], end = x->starts[row + 1];
    for (; e + 4 <= end; e += 4) {
        for (int64_t k = e + AHEAD; k < e + AHEAD + 4 && k < end; k++)
            __builtin_prefetch(weight + (int64_t)x->columns[k] * LANES);
        v += x->values[e] * *(const lanes *)(weight + (int64_t)x->columns[e] * LANES);
        second += x->values[e + 1] * *(const lanes *)(weight + (int64_t)x->columns[e + 1] * LANES);
        third += x->values[e + 2] * *(const lanes *)(weight + (int64_t)x->columns[e + 2] * LANES);
        fourth += x->values[e + 3] * *(const lanes *)(weight + (int64_t)x->columns[e + 3] * LANES);
    }
    for (; e < end; e++)
        v += x->values[e] * *(const lanes *)(weight + (int64_t)x->columns[e] * LANES);
    *(lanes *)out = (v + second) + (third + fourth);
}

/* C loss'(u) of each lane, and how fast it rises there */
INLINE void slopes(const Fit *f, const float *y, const float *c, const float *u, float *slope,
                   float *rise) {
    for (int l = 0; l < LANES; l++) {
        float place = (u[l] + SPAN) * DENSITY;
        float inside = place > 0 ? place : 0; /* NaN too */
        int at = (int)(inside < POINTS - 2 ? inside : POINTS - 2);
        const float *t = f->tables + f->table[l] + at;
        float low = t[0] + y[l] * (t[POINTS] - t[0]);
        float high = t[1] + y[l] * (t[POINTS + 1] - t[1]);
        slope[l] = c[l] * (low + (place - (float)at) * (high - low));
        rise[l] = c[l] * DENSITY * (high - low);
    }
}

/* One row's step, whose squared length is added to `travelled`. Returns whether it counts as one. */
INLINE int step(const Rows *x, const Fit *f, int64_t row, float size, double *travelled) {
    float v[LANES], u[LANES], y[LANES], c[LANES], slope[LANES], rise[LANES], low[LANES], high[LANES], share[LANES];
    float *dual = f->dual + row * LANES, miss = 0, moved = 0, length = 0, per = 1 / size;
    scores_of(x, f->weight, f->bias, row, v);
    for (int l = 0; l < LANES; l++) {
        float target = f->targets[row * LANES + l];
        y[l] = target == target ? target : 0;
        c[l] = target == target ? f->strength : 0;
        u[l] = v[l];
    }
    if (f->counts)
        for (int l = 0; l < LANES; l++) c[l] *= f->counts[row * LANES + l];
    slopes(f, y, c, u, slope, rise);
    for (int l = 0; l < LANES; l++) {
        float lacks = dual[l] + slope[l];
        miss = fabsf(lacks) > miss ? fabsf(lacks) : miss;
        share[l] = 1;
        low[l] = v[l] - FARTHEST, high[l] = v[l] + FARTHEST;
    }
    if (miss == 0) return 0;
    for (int tries = 0; tries < TRIES; tries++) {
        float farthest = 0;
        for (int l = 0; l < LANES; l++) {
            float lacks = dual[l] + (u[l] - v[l]) * per + slope[l], speed = per + rise[l];
            if (lacks > 0) high[l] = u[l];
            else low[l] = u[l];
            share[l] = speed > 0 ? share[l] : f->share;
            float next = speed > 0 ? u[l] - lacks / speed : low[l] - 1;
            next = next >= low[l] && next <= high[l] ? next : 0.5f * (low[l] + high[l]);
            float moves = fabsf(next - u[l]);
            farthest = moves > farthest ? moves : farthest;
            u[l] = next;
        }
        if (farthest <= CLOSE) break;
        slopes(f, y, c, u, slope, rise);
    }
    float d[LANES];
    for (int l = 0; l < LANES; l++) {
        d[l] = (u[l] - v[l]) * per;
        length += d[l] * d[l];
        d[l] *= share[l];
        dual[l] += d[l];
        f->bias[l] += d[l];
        moved = fabsf(d[l]) > moved ? fabsf(d[l]) : moved;
    }
    *travelled += length;
    lanes by;
    memcpy(&by, d, sizeof d);
    for (int64_t e = x->starts[row + 1] - 1; e >= x->starts[row]; e--) /* the last read are in the cache */
        *(lanes *)(f->weight + (int64_t)x->columns[e] * LANES) += x->values[e] * by;
    return moved > f->still;
}

static uint64_t drawn(uint64_t *state) { /* xorshift64* */
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

/* One pass over the rows in a random order. Returns the squared length of its steps. */
SPREAD static double one_pass(const Rows *x, const Fit *f, const float *sizes, int32_t *order,
                              int64_t count, uint8_t *idle, long pass, uint64_t *state) {
    double travelled = 0;
    for (int64_t i = count - 1; i >= 0; i--) {
        int64_t other = (int64_t)((drawn(state) >> 32) * (uint64_t)(i + 1) >> 32);
        int32_t row = order[other];
        order[other] = order[i], order[i] = row;
        if (idle[row] >= PATIENCE && pass % RETURN) continue;
        int moved = step(x, f, row, sizes[row], &travelled);
        idle[row] = moved ? 0 : idle[row] + (idle[row] < PATIENCE);
    }
    return travelled;
}

/* passes(starts, columns, values, sizes, order, idle, tables, table, targets, counts, strength, dual, weight,
 *        bias, least, most, enough, seed) -> (passes, travelled, length): go on from dual = weight = 0, or from
 * where earlier passes ended. sizes: |x|^2 + 1 of each row; order: the rows to fit, which is shuffled.
 * The residual is the length of the last pass's steps over that of the dual variables; both are given,
 * squared. */
static PyObject *passes(PyObject *self, PyObject *args) {
    Py_buffer b[13];
    double strength, enough, travelled = 0, length = 0;
    long least, most, pass = 0;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*y*y*y*y*dw*w*w*lldK", b, b + 1, b + 2, b + 3, b + 4, b + 5,
                          b + 6, b + 7, b + 8, b + 9, &strength, b + 10, b + 11, b + 12, &least, &most,
                          &enough, &seed))
        return NULL;
    Rows x = {b[0].buf, b[1].buf, b[2].buf};
    const float *counts = b[9].len ? b[9].buf : NULL;
    Fit f = {b[6].buf, b[7].buf, b[8].buf, counts, (float)strength, b[10].buf, b[11].buf, b[12].buf, 0, 1};
    int64_t count = b[4].len / (int64_t)sizeof(int32_t), entries = b[10].len / (int64_t)sizeof(float);
    uint64_t state = seed * 2 + 1;
    Py_BEGIN_ALLOW_THREADS
    memset(b[5].buf, 0, b[5].len);
    while (pass < most) {
        travelled = one_pass(&x, &f, b[3].buf, b[4].buf, count, b[5].buf, pass, &state);
        length = 0;
        for (int64_t i = 0; i < entries; i++) length += (double)f.dual[i] * f.dual[i];
        f.still = STILL * (float)sqrt(length / (double)entries);
        pass++;
        if (pass > CALM) f.share = CALM / (float)pass;
        if (!(travelled < INFINITY) || (pass >= least && travelled <= enough * enough * length)) break;
    }
    Py_END_ALLOW_THREADS
    for (int i = 0; i < 13; i++) PyBuffer_Release(b + i);
    return Py_BuildValue("ldd", pass, travelled, length);
}

SPREAD static void score_rows(const Rows *x, const float *weight, const float *bias,
                              const int32_t *rows, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) scores_of(x, weight, bias, rows[i], out + i * LANES);
}

/* scores(starts, columns, values, weight, bias, rows, out): of the rows listed, (rows, LANES). */
static PyObject *scores(PyObject *self, PyObject *args) {
    Py_buffer b[7];
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*w*", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6)) return NULL;
    Rows x = {b[0].buf, b[1].buf, b[2].buf};
    int64_t count = b[5].len / (int64_t)sizeof(int32_t);
    Py_BEGIN_ALLOW_THREADS
    score_rows(&x, b[3].buf, b[4].buf, b[5].buf, count, b[6].buf);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < 7; i++) PyBuffer_Release(b + i);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"passes", passes, METH_VARARGS, "Passes of dual coordinate steps for sixteen labels."},
    {"scores", scores, METH_VARARGS, "Scores of some rows for sixteen labels."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_dual", "Dual coordinate passes.", -1, methods};
PyMODINIT_FUNC PyInit__dual(void) { return PyModule_Create(&module); }
