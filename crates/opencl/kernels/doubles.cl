// The overflow of an exact conversion: the nearest integer of a sum of doubles of which each product and each
// sum is rounded, in order. U64 computes on the parts of doubles and gives the same bits.

#ifdef F64
typedef T Real;
#define REAL_ZERO 0.0

// sum + y inverse, both rounded.
static inline Real add_share(Real sum, T y, T p, T inverse) {
    T share = (y + y > p ? y - p : y) * inverse;
    return sum + share;
}

// sum + w times the nearest integer.
static inline T add_nearest_multiple(T sum, Real real, T2 w, T4 m) {
    return sum + multiply_factor(nearest(real), w, m);
}
#else
// mantissa 2^exponent with 2^52 <= mantissa < 2^53, negative or not; or zero.
typedef struct {
    ulong mantissa;
    int exponent;
    bool is_negative;
} Real;
#define REAL_ZERO {0, 0, false}

// The double nearest to mantissa 2^exponent, ties to even. The lowest bit of a mantissa of more than 55 bits
// also stands for all that was below it.
static inline Real round_real(ulong mantissa, int exponent, bool is_negative) {
    Real real = REAL_ZERO;
    if (mantissa == 0) return real;
    int shift = clz(mantissa);
    mantissa <<= shift;
    ulong whole = mantissa >> 11, rest = mantissa & 2047;
    whole += rest > 1024 || (rest == 1024 && (whole & 1));
    bool is_carried = whole >> 53;
    real.mantissa = whole >> is_carried;
    real.exponent = exponent - shift + 11 + is_carried;
    real.is_negative = is_negative;
    return real;
}

static inline Real add_real(Real a, Real b) {
    if (a.mantissa == 0) return b;
    if (b.mantissa == 0) return a;
    bool is_less = a.exponent != b.exponent ? a.exponent < b.exponent : a.mantissa < b.mantissa;
    Real large = is_less ? b : a, small = is_less ? a : b;
    // Ten bits of room; what leaves them stays as the lowest bit.
    int distance = min(large.exponent - small.exponent, 63);
    ulong x = large.mantissa << 10, y = small.mantissa << 10, shifted = y >> distance;
    shifted |= (shifted << distance) != y;
    ulong sum = large.is_negative == small.is_negative ? x + shifted : x - shifted;
    return round_real(sum, large.exponent - 10, large.is_negative);
}

// y < 2^49, and the bits of a normal double, which is positive.
static inline Real multiply_real(ulong y, bool is_negative, ulong bits) {
    ulong mantissa = (bits & 0xffffffffffffful) | 0x10000000000000ul;
    int exponent = (int)(bits >> 52) - 1075;
    ulong low = y * mantissa, high = mul_hi(y, mantissa);
    if (high == 0) return round_real(low, exponent, is_negative);
    int shift = clz(high);
    ulong top = (high << shift) | (low >> (64 - shift));
    return round_real(top | ((low << shift) != 0), exponent + 64 - shift, is_negative);
}

static inline Real add_share(Real sum, T y, T p, T inverse) {
    bool is_negative = y + y > p;
    return add_real(sum, multiply_real(is_negative ? p - y : y, is_negative, inverse));
}

// 4p more than the sum at most. |real| < 2^52
static inline T add_nearest_multiple(T sum, Real real, T2 w, T4 m) {
    int shift = min(-real.exponent, 54);
    ulong whole = real.mantissa >> shift, rest = real.mantissa & ((1ul << shift) - 1);
    ulong middle = 1ul << (shift - 1);
    whole += rest > middle || (rest == middle && (whole & 1));
    T multiple = multiply_factor(whole, w, m);
    return real.is_negative ? sum + 4 * m.x - multiple : sum + multiple;
}
#endif
