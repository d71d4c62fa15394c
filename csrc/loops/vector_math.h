/* exp, log and their kin in single precision, to about one unit in the last place.
 *
 * No calls, no tables and no branches, so that loops over them become vector instructions. NaN goes
 * through, exp overflows to infinity, and underflows gradually where the processor keeps small
 * numbers. Polynomials are minimax fits. */

#define LN2_HIGH 0.693145752f /* few bits: its multiples by a whole number are exact */
#define LN2_LOW 1.42860677e-6f
#define ROUNDER 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */

static inline uint32_t NAME(bits)(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float NAME(real)(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* 2^k for k in [-126, 127] */
static inline float NAME(two_to)(int32_t k) { return NAME(real)((uint32_t)(k + 127) << 23); }

/* exp(x) = p 2^k: p, and k in the low bits of `shifted` */
static inline float NAME(exp_parts)(float x, float *shifted) {
    *shifted = x * 1.44269504f + ROUNDER;
    float k = *shifted - ROUNDER, r = (x - k * LN2_HIGH) - k * LN2_LOW;
    float p = 0.001395164054f;
    p = p * r + 0.008369564317f;
    p = p * r + 0.04166618886f;
    p = p * r + 0.1666651326f;
    p = p * r + 0.50000001f;
    return 1.0f + (r + (r * r) * p);
}

static inline float NAME(exp)(float x) {
    x = x > 89.0f ? 89.0f : x; /* beyond: infinity, and nothing */
    x = x < -104.0f ? -104.0f : x;
    float shifted, p = NAME(exp_parts)(x, &shifted);
    int32_t whole = (int32_t)(NAME(bits)(shifted) - NAME(bits)(ROUNDER));
    int32_t half = whole >> 1; /* in two steps, as 2^128 and 2^-149 are no normal numbers */
    return p * NAME(two_to)(half) * NAME(two_to)(whole - half);
}

/* exp(x), x <= 0; exactly 0 below the smallest normal number, which saves a quarter of the work */
static inline float NAME(fall)(float x) {
    float shifted, p = NAME(exp_parts)(x, &shifted);
    float y = NAME(real)(NAME(bits)(p) + (NAME(bits)(shifted) << 23));
    return x < -87.0f ? 0.0f : x == x ? y : x;
}

static inline float NAME(decay)(float x) { return NAME(fall)(-fabsf(x)); }

/* log(1 + f) + k log 2, for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static inline float NAME(log_parts)(float f, float k) {
    float p = -0.0787103471f, z = f * f;
    p = p * f + 0.1287671784f;
    p = p * f + -0.1312193911f;
    p = p * f + 0.1418166476f;
    p = p * f + -0.1662537397f;
    p = p * f + 0.2000227715f;
    p = p * f + -0.2500078313f;
    p = p * f + 0.3333331688f;
    return ((z * (f * p - 0.5f) + k * LN2_LOW) + f) + k * LN2_HIGH;
}

/* log(1 + e), e in [0, 1] */
static inline float NAME(log1p_unit)(float e) {
    float f = e > 0.41421356f ? e * 0.5f - 0.5f : e;
    return NAME(log_parts)(f, e > 0.41421356f ? 1.0f : 0.0f);
}

/* log(1 + x): 1 + x = 2^k (1 + f), f made from x itself, so that a tiny x is not rounded away */
static inline float NAME(log1p)(float x) {
    float big = x > 1e30f ? 1.0f : 0.0f;
    float y = big > 0.0f ? x * 5.42101086e-20f : x; /* 2^-64, beside which the 1 is nothing */
    int32_t e = (int32_t)((NAME(bits)(1.0f + y) - 0x3f3504f3u) & 0xff800000u);
    float s = NAME(real)(0x3f800000u - (uint32_t)e);
    float out = NAME(log_parts)(y * s + (s - 1.0f), (float)(e >> 23) + 64.0f * big);
    out = x > -1.0f ? out : x == -1.0f ? -INFINITY : NAN;
    return x == INFINITY ? x : out;
}

static inline float NAME(log)(float x) {
    float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f;
    float y = tiny > 0.0f ? x * 8388608.0f : x;
    int32_t e = (int32_t)((NAME(bits)(y) - 0x3f3504f3u) & 0xff800000u);
    float m = NAME(real)(NAME(bits)(y) - (uint32_t)e);
    float out = NAME(log_parts)(m - 1.0f, (float)(e >> 23) - 23.0f * tiny);
    out = x > 0.0f ? out : x == 0.0f ? -INFINITY : NAN;
    return x == INFINITY ? x : out;
}

static inline float NAME(tanh)(float x) {
    float e = NAME(exp)(-2.0f * fabsf(x)), z = x * x;
    float far = (1.0f - e) / (1.0f + e);
    float p = -0.00576320648f;
    p = p * z + 0.02069691578f;
    p = p * z + -0.05375982478f;
    p = p * z + 0.1333172511f;
    p = p * z + -0.3333329495f;
    return fabsf(x) < 0.625f ? x + x * (z * p) : x < 0.0f ? -far : far;
}

static inline uint64_t NAME(bits_of)(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}

static inline double NAME(real_of)(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}

/* |x|^p in double precision: the logarithm of a large number, times p, leaves single precision few
 * digits. log m = 2 artanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)]. */
static inline double NAME(power_of)(double x, double p) {
    uint64_t u = NAME(bits_of)(x);
    uint64_t e = (u - 0x3fe6a09e667f3bcdull) & 0xfff0000000000000ull;
    double m = NAME(real_of)(u - e), s = (m - 1.0) / (m + 1.0), z = s * s;
    double k = NAME(real_of)(((e >> 52) ^ 0x800) + 0x4338000000000000ull) - 6755399441057792.0;
    double series = 1.0 / 13.0;
    series = series * z + 1.0 / 11.0;
    series = series * z + 1.0 / 9.0;
    series = series * z + 1.0 / 7.0;
    series = series * z + 1.0 / 5.0;
    series = series * z + 1.0 / 3.0;
    double y = p * (k * 0.6931471805599453 + 2.0 * (s + s * (z * series)));
    y = y > 200.0 ? 200.0 : y; /* single precision ends long before */
    y = y < -200.0 ? -200.0 : y;
    double shifted = y * 1.4426950408889634 + 6755399441055744.0; /* 1.5 * 2^52 */
    double r = y - (shifted - 6755399441055744.0) * 0.6931471805599453, q = 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    q = 1.0 + (r + (r * r) * q);
    return q * NAME(real_of)((NAME(bits_of)(shifted) - 0x4338000000000000ull + 1023) << 52);
}

/* x^p for a constant p; `whole` tells how a negative x is taken: 0 not at all, 1 odd, 2 even */
static inline float NAME(power)(float x, double p, int whole) {
    float a = fabsf(x), start = p > 0.0 ? 0.0f : INFINITY, end = p > 0.0 ? INFINITY : 0.0f;
    float out = (float)NAME(power_of)((double)a, p);
    out = a == 0.0f ? start : a == INFINITY ? end : out;
    out = whole == 1 ? copysignf(out, x) : x < 0.0f && whole == 0 ? NAN : out;
    return x == x ? out : x;
}
