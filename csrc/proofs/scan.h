/* The rows that are worst off at the points of many label sets: pricing in single precision.
 *
 * Unit rows lie in panels of PANEL, feature by feature, so that a panel meets SIDE points at a time
 * in registers, and no margin is ever written to memory. Of every label set the `count` rows of
 * least margin are kept, of those outside its working set that lie below a limit. */
#define PANEL 32
#define SIDE 6
#define PANELS(n) (((n) + PANEL - 1) / PANEL)

typedef float sixteen __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct {
    long filled, count;
    float limit; /* rows from here on are not wanted, or are known not to be among the worst */
    float *value; /* 2 x count of them */
    int *row;
} Worst;

/* Keep the `count` least of those found. */
static void least(Worst *w) {
    long low = 0, high = w->filled - 1, k = w->count - 1;
    while (low < high) { /* Hoare's selection */
        float pivot = w->value[(low + high) / 2];
        long i = low, j = high;
        while (i <= j) {
            while (w->value[i] < pivot) i++;
            while (w->value[j] > pivot) j--;
            if (i > j) break;
            float v = w->value[i];
            int r = w->row[i];
            w->value[i] = w->value[j], w->row[i++] = w->row[j];
            w->value[j] = v, w->row[j--] = r;
        }
        if (k <= j) high = j;
        else if (k >= i) low = i;
        else break;
    }
    w->filled = w->count, w->limit = w->value[k];
}

/* Look through one panel's dot products with the point of one label set. */
INLINE void look(Worst *w, const float *dot, const signed char *sign, const char *has, int row) {
    float value[PANEL];
    int below = 0;
    for (int i = 0; i < PANEL; i++) value[i] = dot[i] * sign[i];
    for (int i = 0; i < PANEL; i++) below |= value[i] < w->limit;
    if (!below) return;
    for (int i = 0; i < PANEL; i++) {
        if (!(value[i] < w->limit) || !sign[i] || has[row + i]) continue;
        w->value[w->filled] = value[i], w->row[w->filled++] = row + i;
        if (w->filled == 2 * w->count) least(w);
    }
}

/* For label sets which[0..sets], whose points lie in x, SIDE side by side, feature by feature;
 * sign holds whole panels of `all` label sets each, 0 where a row is left out; has, n to a label
 * set, tells the rows of the working sets. */
SPREAD static void scan(const float *panels, long count, long d, const float *x, const long *which,
                        long sets, const signed char *sign, long all, const char *has, long n,
                        Worst *worst) {
    for (long p = 0; p < count; p++)
        for (long g = 0; g < sets; g += SIDE) {
            sixteen a0 = {0}, a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;
            sixteen b0 = a0, b1 = a0, b2 = a0, b3 = a0, b4 = a0, b5 = a0;
            const float *rows = panels + p * d * PANEL, *point = x + g * d;
            for (long j = 0; j < d; j++, rows += PANEL, point += SIDE) {
                sixteen first = *(const sixteen *)rows, second = *(const sixteen *)(rows + 16);
                a0 += first * point[0], b0 += second * point[0];
                a1 += first * point[1], b1 += second * point[1];
                a2 += first * point[2], b2 += second * point[2];
                a3 += first * point[3], b3 += second * point[3];
                a4 += first * point[4], b4 += second * point[4];
                a5 += first * point[5], b5 += second * point[5];
            }
            const sixteen dots[] = {a0, b0, a1, b1, a2, b2, a3, b3, a4, b4, a5, b5};
            for (long s = 0; s < SIDE && g + s < sets; s++)
                look(worst + g + s, (const float *)(dots + 2 * s),
                     sign + (p * all + which[g + s]) * PANEL, has + which[g + s] * n,
                     (int)(p * PANEL));
        }
}
