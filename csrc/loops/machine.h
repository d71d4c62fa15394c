/* A formula run step by step over a block of numbers: each step is one loop over buffers that stay in
 * the nearest cache. Steps are what kernels/native/program.py wrote; see there for what each one means. */

#ifndef MACHINE_TYPES
#define MACHINE_TYPES /* what builds for all widths share */
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

/* Runs the program over the first `length` numbers (rounded up to whole vectors) of its inputs. */
static void NAME(play)(Machine *m, long length) {
    const long n = (length + 15) / 16 * 16;
    const Step *s = m->steps, *end = s + m->head->steps;
    for (; s < end; s++) {
        float *o = m->reg[s->out];
        const float *a = m->reg[s->a], *b = m->reg[s->b], *c = m->reg[s->c], *d = m->reg[s->d];
        const float k = m->constants[s->k], l = m->constants[s->l];
        switch (s->op) {
            case 0: EACH(a[i] + b[i])
            case 1: EACH(a[i] - b[i])
            case 2: EACH(a[i] * b[i])
            case 3: EACH(a[i] / b[i])
            case 4: EACH(LEAST(a[i], b[i]))
            case 5: EACH(MOST(a[i], b[i]))
            case 6: EACH(LEAST(a[i], k))
            case 7: EACH(MOST(a[i], k))
            case 8: EACH(a[i] * k + l)
            case 9: EACH(a[i] * k)
            case 10: EACH(k / a[i])
            case 11: EACH(a[i] * b[i] + c[i])
            case 12: EACH(a[i] * b[i] - c[i])
            case 13: EACH(c[i] - a[i] * b[i])
            case 14: EACH(a[i] * k + b[i] * l)
            case 15: EACH(a[i] * b[i] * k)
            case 16: EACH(a[i] * b[i] * c[i])
            case 17: EACH(a[i] * b[i] + k)
            case 20: WHERE(a[i] > b[i])
            case 21: WHERE(a[i] >= b[i])
            case 22: WHERE(a[i] == b[i])
            case 23: WHERE(a[i] > k)
            case 24: WHERE(a[i] >= k)
            case 25: WHERE(a[i] < k)
            case 26: WHERE(a[i] <= k)
            case 27: WHERE(a[i] == k)
            case 28: WHERE(a[i] != 0.0f)
            case 29: EACH(a[i] > b[i] ? 1.0f : 0.0f)
            case 30: EACH(a[i] >= b[i] ? 1.0f : 0.0f)
            case 31: EACH(a[i] == b[i] ? 1.0f : 0.0f)
            case 32: EACH(k)
            case 40: EACH(NAME(exp)(a[i]))
            case 41: EACH(NAME(log)(a[i]))
            case 42: EACH(NAME(log1p)(a[i]))
            case 43: EACH(sqrtf(a[i]))
            case 44: EACH(NAME(tanh)(a[i]))
            case 45: EACH(fabsf(a[i]))
            case 46: EACH(NAME(decay)(a[i]))
            case 47: EACH(1.0f / (1.0f + a[i]))
            case 48: EACH(NAME(log1p_unit)(a[i]))
            case 50: EACH(NAME(power)(a[i], (double)k + l, 0))
            case 51: EACH(NAME(power)(a[i], (double)k + l, 1))
            case 52: EACH(NAME(power)(a[i], (double)k + l, 2))
            LOGISTIC(1) LOGISTIC(2) LOGISTIC(3) LOGISTIC(4) LOGISTIC(5) LOGISTIC(6) LOGISTIC(7)
            LOGISTIC(8) LOGISTIC(9) LOGISTIC(10) LOGISTIC(11) LOGISTIC(12) LOGISTIC(13)
            LOGISTIC(14) LOGISTIC(15)
        }
    }
}
#undef EACH
#undef WHERE
#undef LEAST
#undef MOST
#undef LOGISTIC
