/* The two sums in which a search spends its time, eight doubles to a vector.
 *
 * Vectors are the compiler's own (GCC and Clang): each machine gets its widest instructions. */
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));

#ifdef __clang__
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef long long lanes __attribute__((vector_size(64)));
#define MIX(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif

#define INLINE static inline __attribute__((always_inline))

/* out_q = a_q.b for four vectors, n being a multiple of 8 */
INLINE void double_dots(const double *const *a, const double *b, long n, double *out) {
    eight p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0};
    const double *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    for (long i = 0; i < n; i += 8) {
        eight c = *(const eight *)(b + i);
        p0 += *(const eight *)(a0 + i) * c;
        p1 += *(const eight *)(a1 + i) * c;
        p2 += *(const eight *)(a2 + i) * c;
        p3 += *(const eight *)(a3 + i) * c;
    }
    eight low = MIX(p0, p1, 0, 8, 2, 10, 4, 12, 6, 14) + MIX(p0, p1, 1, 9, 3, 11, 5, 13, 7, 15);
    eight high = MIX(p2, p3, 0, 8, 2, 10, 4, 12, 6, 14) + MIX(p2, p3, 1, 9, 3, 11, 5, 13, 7, 15);
    eight both =
        MIX(low, high, 0, 1, 8, 9, 4, 5, 12, 13) + MIX(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
    for (int q = 0; q < 4; q++) out[q] = both[q] + both[q + 4];
}

/* y += sum of c_q a_q for four vectors, n being a multiple of 8 */
INLINE void double_add(double *y, const double *const *a, const double *c, long n) {
    const double *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    double c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    for (long i = 0; i < n; i += 8)
        *(eight *)(y + i) += (c0 * *(const eight *)(a0 + i) + c1 * *(const eight *)(a1 + i)) +
                             (c2 * *(const eight *)(a2 + i) + c3 * *(const eight *)(a3 + i));
}
