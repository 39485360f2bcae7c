// Partial vectors at the ends of rows. Not inlined, since they are rarely needed.
#pragma once

#include "core/scores.h"

namespace regard {
namespace ISA {

using Vector = V<float>;
constexpr int64_t LANES = L<float>;

NOINLINE inline Vector load_tail(const float* at, int64_t count) {
    float padded[LANES] = {};
    for (int64_t u = 0; u < count; u++) padded[u] = at[u];
    return load(padded);
}
NOINLINE inline void store_tail(float* at, Vector x, int64_t count) {
    for (int64_t u = 0; u < count; u++) at[u] = x[u];
}

// The first `count` elements, padded with 0.
INLINE Vector load_partial(const float* at, int64_t count) { return count >= LANES ? load(at) : load_tail(at, count); }
INLINE void store_partial(float* at, Vector x, int64_t count) {
    if (count >= LANES) store(at, x);
    else store_tail(at, x, count);
}

// Call f(whether the vector is full, index) for the vectors of a row, so that full vectors need no test.
template <class F>
INLINE void for_vectors(int64_t count, F&& f) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) f(std::true_type{}, i);
    if (i < count) f(std::false_type{}, i);
}
template <class Full>
INLINE Vector load_vector(Full full, const float* at, int64_t count) {
    return full ? load(at) : load_tail(at, count);
}
template <class Full>
INLINE void store_vector(Full full, float* at, Vector x, int64_t count) {
    if (full) store(at, x);
    else store_tail(at, x, count);
}

// -inf in lanes beyond the end of a row, 0 in others.
INLINE Vector tail_mask(int64_t remaining) {
    Vector x{};
    if (remaining < LANES)
        for (int64_t u = remaining; u < LANES; u++) x[u] = -INF<float>;
    return x;
}

}  // namespace ISA
}  // namespace regard
