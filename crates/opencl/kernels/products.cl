// Sums of products that read every operand once and write the sum once: with plaintexts, of ciphertexts, with
// the rows of a matrix. `places` holds the slots of operands, term by term: operands may lie anywhere.

// Limb j becomes, or with `is_added` grows by, the sum of a_t w_t. places: by term, the slot of a_t, the word
// at which plaintext w_t begins, and the logarithm of how many values in a row each of its words stands for.
// Limbs repeat those of the plaintexts, which have `limbs`.
__kernel void sum_products(ELEMENTS, uint is_added, uint terms, __global const uint *places, uint limbs,
                           __global const T *plaintexts) {
    OF_THIS_VALUE
    T sum = is_added ? AT(out) : 0;
    for (uint t = 0; t < terms; t++) {
        uint a = places[3 * t], word = places[3 * t + 1], run = places[3 * t + 2];
        T w = plaintexts[word + (size_t)(limb % limbs) * (N >> run) + (i >> run)];
        sum = sum + product(AT(a), w, m);
        if (t % LAZY_TERMS == LAZY_TERMS - 1) sum = reduce(sum, m);
    }
    AT(out) = canonical(sum, m);
}

// The same of tensor products (a0, a1) (b0, b1) = (a0 b0, a0 b1 + a1 b0, a1 b1) into out, out1 and out2.
// places: by term, the slots of a0, a1, b0 and b1.
__kernel void sum_tensors(ELEMENTS, uint out1, uint out2, uint is_added, uint terms,
                          __global const uint *places) {
    OF_THIS_VALUE
    T sum0 = is_added ? AT(out) : 0, sum1 = is_added ? AT(out1) : 0, sum2 = is_added ? AT(out2) : 0;
    for (uint t = 0; t < terms; t++) {
        __global const uint *place = places + 4 * t;
        T a0 = AT(place[0]), a1 = AT(place[1]), b0 = AT(place[2]), b1 = AT(place[3]);
        sum0 = sum0 + product(a0, b0, m);
        sum1 = sum1 + product(a0, b1, m) + product(a1, b0, m);
        sum2 = sum2 + product(a1, b1, m);
        if (t % (LAZY_TERMS / 2) == LAZY_TERMS / 2 - 1) {
            sum0 = reduce(sum0, m);
            sum1 = reduce(sum1, m);
            sum2 = reduce(sum2, m);
        }
    }
    AT(out) = canonical(sum0, m);
    AT(out1) = canonical(sum1, m);
    AT(out2) = canonical(sum2, m);
}

// The product with a matrix of integers. A centred residue is low + 2^25 high with halves of at most 2^24, and
// the absolute values of a row sum to 2^29 at most: sums of either half are integers of 2^53 at most, exact in
// both flavours without a reduction. A work-item makes one value of four rows.

#ifdef F64
// x = low + 2^25 high, x canonical.
static inline T2 halves(T x, T4 m) {
    T centred = x + x > m.x ? x - m.x : x, high = nearest(centred * 0x1p-25);
    return (T2)(fma(-high, 0x1p25, centred), high);
}

// Exact: one rounding of an integer that is a double.
static inline T4 add_weighted(T4 sum, T4 w, T x) { return fma(w, (T4)(x), sum); }

// a w for an integer |a| <= 2^53: below 5p/8 in absolute value.
static inline T multiply_signed(T a, T2 w, T4 m) { return multiply_factor(reduce(a, m), w, m); }
#else
// Negative numbers are those of two's complement.
static inline T2 halves(T x, T4 m) {
    long centred = x + x > m.x ? (long)(x - m.x) : (long)x, high = (centred + (1l << 24)) >> 25;
    return (T2)((T)(centred - (high << 25)), (T)high);
}

static inline T4 add_weighted(T4 sum, T4 w, T x) { return sum + w * x; }

// At most 4p.
static inline T multiply_signed(T a, T2 w, T4 m) {
    bool is_negative = a >> 63;
    T multiple = multiply_factor(is_negative ? -a : a, w, m);
    return is_negative ? 4 * m.x - multiple : multiple;
}
#endif

// places: the slots of `depth` inputs, then those of `rows` outputs. weights: by four rows, by input, theirs.
// factors: by row and limb, what its sum of low halves and that of high halves are multiplied by.
__kernel void multiply_matrix(ELEMENTS, __global const uint *places, uint depth, uint rows, uint limbs,
                              __global const T4 *weights, __global const T2 *factors) {
    uint i = get_global_id(0), limb = get_group_id(1) % limbs, block = get_group_id(1) / limbs;
    T4 m = moduli[basis[limb]], low = 0, high = 0;
    for (uint k = 0; k < depth; k++) {
        T2 x = halves(AT(places[k]), m);
        T4 w = weights[(size_t)block * depth + k];
        low = add_weighted(low, w, x.x);
        high = add_weighted(high, w, x.y);
    }
#define STORE_ROW(r, element)                                                                                \
    if (4 * block + (r) < rows) {                                                                            \
        __global const T2 *factor = factors + 2 * ((size_t)(4 * block + (r)) * limbs + limb);                \
        T sum = multiply_signed(low.element, factor[0], m) + multiply_signed(high.element, factor[1], m);    \
        AT(places[depth + 4 * block + (r)]) = canonical(sum, m);                                             \
    }
    STORE_ROW(0, x) STORE_ROW(1, y) STORE_ROW(2, z) STORE_ROW(3, w)
}
