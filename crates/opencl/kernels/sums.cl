// Sums over limbs: conversion between bases of primes, and the inner product of key switching.

// Limb j becomes the sum of y_i weights_ji over the sources, the y_i centred, modulo prime j of the target
// basis. a: the slot of y_0, canonical modulo the primes of `sources`. Behind the weights of a target stands
// that of `convert_exact`.
#define CONVERTED uint a, __global const uint *sources, uint terms, __global const T2 *weights
#define WEIGHT(t) weights[limb * (terms + 1) + (t)]

__kernel void convert(ELEMENTS, CONVERTED) {
    OF_THIS_VALUE
    T sum = 0;
    for (uint t = 0; t < terms; t++) {
        T y = slots[(size_t)(a + t) * N + i], p = moduli[sources[t]].x;
        sum = add_multiple_centred(sum, y, p, WEIGHT(t), m);
        if (t % LAZY_TERMS == LAZY_TERMS - 1) sum = reduce(sum, m);
    }
    AT(out) = canonical(sum, m);
}

// The same, less the overflow times the product of the sources. inverses: 1/p of each source, as doubles.
__kernel void convert_exact(ELEMENTS, CONVERTED, __global const T *inverses) {
    OF_THIS_VALUE
    T sum = 0;
    Real overflow = REAL_ZERO;
    for (uint t = 0; t < terms; t++) {
        T y = slots[(size_t)(a + t) * N + i], p = moduli[sources[t]].x;
        overflow = add_share(overflow, y, p, inverses[t]);
        sum = add_multiple_centred(sum, y, p, WEIGHT(t), m);
        if (t % LAZY_TERMS == LAZY_TERMS - 1) sum = reduce(sum, m);
    }
    AT(out) = canonical(add_nearest_multiple(sum, overflow, WEIGHT(terms), m), m);
}

// Residue i of a row of residues of so many bits, packed from the lowest bit on in 64-bit words.
static inline T unpacked(__global const ulong *row, uint i, uint bits) {
    ulong at = (ulong)i * bits, shift = at & 63;
    __global const ulong *word = row + (at >> 6);
    ulong low = word[0] >> shift, high = shift ? word[1] << (64 - shift) : 0;
    return of_integer((low | high) & ((1ul << bits) - 1));
}

// out0 = sum of d_t k0_t and out1 = sum of d_t k1_t over the digits. a: the slot of d_0; a digit has as many
// limbs as the basis. rows: by half, digit and limb, the word at which its residues begin.
__kernel void inner_product(ELEMENTS, uint a, uint terms, __global const ulong *keys,
                            __global const ulong *rows) {
    OF_THIS_VALUE
    uint limbs = get_num_groups(1), bits = (uint)m.w;
    T sum0 = 0, sum1 = 0;
    for (uint t = 0; t < terms; t++) {
        T d = AT(a + t * limbs);
        sum0 = sum0 + product(d, unpacked(keys + rows[t * limbs + limb], i, bits), m);
        sum1 = sum1 + product(d, unpacked(keys + rows[(terms + t) * limbs + limb], i, bits), m);
        if (t % LAZY_TERMS == LAZY_TERMS - 1) {
            sum0 = reduce(sum0, m);
            sum1 = reduce(sum1, m);
        }
    }
    AT(out) = canonical(sum0, m);
    AT(out + limbs) = canonical(sum1, m);
}
