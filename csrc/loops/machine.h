/* A formula run step by step over a block of numbers: each step is one loop over buffers that stay in
 * the nearest cache. Steps are what kernels/native/program.py wrote. */

#ifndef MACHINE_TYPES
#define MACHINE_TYPES /* what builds for all widths share */
/* Every step: a name for C, the one that kernels/native/program.py writes it by, and what it does with
 * registers a, b, c, d and constants k, l. Its number is its place here, and nowhere else. The results of a
 * sigmoid follow: LOGISTIC_OP plus the bits of those that are wanted. */
#define STEPS(X)                                                                                   \
    X(add, "add", EACH, a[i] + b[i])                                                               \
    X(sub, "sub", EACH, a[i] - b[i])                                                               \
    X(mul, "mul", EACH, a[i] * b[i])                                                               \
    X(div, "div", EACH, a[i] / b[i])                                                               \
    X(min, "min", EACH, LEAST(a[i], b[i]))                                                         \
    X(max, "max", EACH, MOST(a[i], b[i]))                                                          \
    X(min_k, "min k", EACH, LEAST(a[i], k))                                                        \
    X(max_k, "max k", EACH, MOST(a[i], k))                                                         \
    X(ak_plus_l, "a k + l", EACH, a[i] * k + l)                                                    \
    X(ak, "a k", EACH, a[i] * k)                                                                   \
    X(k_over_a, "k / a", EACH, k / a[i])                                                           \
    X(ab_plus_c, "a b + c", EACH, a[i] * b[i] + c[i])                                              \
    X(ab_minus_c, "a b - c", EACH, a[i] * b[i] - c[i])                                             \
    X(c_minus_ab, "c - a b", EACH, c[i] - a[i] * b[i])                                             \
    X(ak_plus_bl, "a k + b l", EACH, a[i] * k + b[i] * l)                                          \
    X(abk, "a b k", EACH, a[i] * b[i] * k)                                                         \
    X(abc, "a b c", EACH, a[i] * b[i] * c[i])                                                      \
    X(ab_plus_k, "a b + k", EACH, a[i] * b[i] + k)                                                 \
    X(where_gt, "gt ?", WHERE, a[i] > b[i])                                                        \
    X(where_ge, "ge ?", WHERE, a[i] >= b[i])                                                       \
    X(where_eq, "eq ?", WHERE, a[i] == b[i])                                                       \
    X(where_gt_k, "gt k ?", WHERE, a[i] > k)                                                       \
    X(where_ge_k, "ge k ?", WHERE, a[i] >= k)                                                      \
    X(where_lt_k, "lt k ?", WHERE, a[i] < k)                                                       \
    X(where_le_k, "le k ?", WHERE, a[i] <= k)                                                      \
    X(where_eq_k, "eq k ?", WHERE, a[i] == k)                                                      \
    X(where, "where", WHERE, a[i] != 0.0f)                                                         \
    X(gt, "gt", EACH, a[i] > b[i] ? 1.0f : 0.0f)                                                   \
    X(ge, "ge", EACH, a[i] >= b[i] ? 1.0f : 0.0f)                                                  \
    X(eq, "eq", EACH, a[i] == b[i] ? 1.0f : 0.0f)                                                  \
    X(fill, "fill", EACH, k)                                                                       \
    X(exp, "exp", EACH, NAME(exp)(a[i]))                                                           \
    X(log, "log", EACH, NAME(log)(a[i]))                                                           \
    X(log1p, "log1p", EACH, NAME(log1p)(a[i]))                                                     \
    X(sqrt, "sqrt", EACH, sqrtf(a[i]))                                                             \
    X(tanh, "tanh", EACH, NAME(tanh)(a[i]))                                                        \
    X(abs, "abs", EACH, fabsf(a[i]))                                                               \
    X(decay, "decay", EACH, NAME(decay)(a[i]))                                                     \
    X(unit, "unit", EACH, 1.0f / (1.0f + a[i]))                                                    \
    X(log1p_unit, "log1p_unit", EACH, NAME(log1p_unit)(a[i]))                                      \
    X(power, "power", EACH, NAME(power)(a[i], (double)k + l, 0))                                   \
    X(odd_power, "odd power", EACH, NAME(power)(a[i], (double)k + l, 1))                           \
    X(even_power, "even power", EACH, NAME(power)(a[i], (double)k + l, 2))
#define NUMBERED(id, name, loop, value) OP_##id,
enum { STEPS(NUMBERED) LOGISTIC_OP };
#undef NUMBERED
typedef struct {
    int32_t op, out, a, b, c, d, k, l;
} Step;

/* The array a program arrives as: these numbers, then (register, constant) pairs that hold throughout,
 * then the steps. */
typedef struct {
    int32_t steps, registers, inputs, pins, outputs[4];
} Head;

typedef struct {
    const Head *head;
    const Step *steps;
    const float *constants;
    float *memory, *reg[REGISTERS];
} Machine;

typedef struct {
    const int32_t *steps;
    const float *constants;
} Code;
#endif

/* Places a program's registers in memory; 0 where there is none. */
static int NAME(start)(Machine *m, const Code *code) {
    m->head = (const void *)code->steps;
    const int32_t *pins = code->steps + sizeof(Head) / 4;
    m->steps = (const void *)(pins + 2 * m->head->pins);
    m->constants = code->constants;
    m->memory = malloc(sizeof(float) * STRIDE * (m->head->registers + 1));
    if (!m->memory) return 0;
    uintptr_t base = ((uintptr_t)m->memory + 63) & ~(uintptr_t)63;
    for (int r = 0; r < m->head->registers; r++) m->reg[r] = (float *)base + (size_t)r * STRIDE;
    for (int p = 0; p < m->head->inputs; p++) memset(m->reg[p], 0, sizeof(float) * BLOCK);
    for (int p = 0; p < m->head->pins; p++)
        for (int i = 0; i < BLOCK; i++) m->reg[pins[2 * p]][i] = m->constants[pins[2 * p + 1]];
    return 1;
}

#define EACH(value)                                                                                \
    INDEPENDENT for (long i = 0; i < n; i++) o[i] = (value);                                       \
    break;
/* both sides are read first: a read that depends on the outcome is no vector instruction */
#define WHERE(truth)                                                                               \
    INDEPENDENT for (long i = 0; i < n; i++) {                                                     \
        float yes = c[i], no = d[i];                                                               \
        o[i] = (truth) ? yes : no;                                                                 \
    }                                                                                              \
    break;
/* the smaller, the larger, NaN where either is: torch's minimum and maximum */
#define LEAST(x, y) (((x) < (y)) | ((x) != (x)) ? (x) : (y))
#define MOST(x, y) (((x) > (y)) | ((x) != (x)) ? (x) : (y))
#define LOGISTIC(which)                                                                            \
    case LOGISTIC_OP + (which):                                                                    \
        NAME(logistic)(a, o, m->reg[s->b], m->reg[s->c], m->reg[s->d], n, which);                  \
        break;

/* sigmoid(x), sigmoid(-x), log(1 + exp(x)), -log(1 + exp(-x)): those of the bits of `which`. Three
 * short loops are faster than a long one, which holds more numbers than there are registers. */
static inline ALWAYS_INLINE void NAME(logistic)(
    const float *x, float *sig, float *other, float *plus, float *minus, long n, const int which) {
    float e[BLOCK];
    INDEPENDENT for (long i = 0; i < n; i++) e[i] = NAME(decay)(x[i]);
    if (which & 3) {
        INDEPENDENT for (long i = 0; i < n; i++) {
            float near = 1.0f / (1.0f + e[i]), far = e[i] * near;
            if (which & 1) sig[i] = x[i] >= 0.0f ? near : far;
            if (which & 2) other[i] = x[i] >= 0.0f ? far : near;
        }
    }
    if (which & 12) {
        INDEPENDENT for (long i = 0; i < n; i++) {
            float rest = NAME(log1p_unit)(e[i]), y = x[i];
            if (which & 4) plus[i] = (y > 0.0f ? y : 0.0f) + rest;
            if (which & 8) minus[i] = (y < 0.0f ? y : 0.0f) - rest;
        }
    }
}

#define RUN(id, name, loop, value) case OP_##id: loop(value)
/* Runs the program over the first `length` numbers (rounded up to whole vectors) of its inputs. */
static void NAME(play)(Machine *m, long length) {
    const long n = (length + 15) / 16 * 16;
    const Step *s = m->steps, *end = s + m->head->steps;
    for (; s < end; s++) {
        float *o = m->reg[s->out];
        const float *a = m->reg[s->a], *b = m->reg[s->b], *c = m->reg[s->c], *d = m->reg[s->d];
        const float k = m->constants[s->k], l = m->constants[s->l];
        switch (s->op) {
            STEPS(RUN)
            LOGISTIC(1) LOGISTIC(2) LOGISTIC(3) LOGISTIC(4) LOGISTIC(5) LOGISTIC(6) LOGISTIC(7)
            LOGISTIC(8) LOGISTIC(9) LOGISTIC(10) LOGISTIC(11) LOGISTIC(12) LOGISTIC(13)
            LOGISTIC(14) LOGISTIC(15)
        }
    }
}
#undef RUN
#undef EACH
#undef WHERE
#undef LEAST
#undef MOST
#undef LOGISTIC
