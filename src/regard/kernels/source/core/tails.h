// Vectors at the ends of rows, where fewer numbers are left than there are lanes: one copy of what is rarely needed.
#pragma once

#include "core/scores.h"

namespace regard {
namespace ISA {

using Lane = V<float>;
constexpr int64_t UNITS = L<float>;  // of a vector

ONCE inline Lane load_rest(const float* at, int64_t count) {
    float some[UNITS] = {};
    for (int64_t u = 0; u < count; u++) some[u] = at[u];
    return load(some);
}
ONCE inline void store_rest(float* at, Lane x, int64_t count) {
    for (int64_t u = 0; u < count; u++) at[u] = x[u];
}

// The first `count` numbers, and 0 beyond.
INLINE Lane load_first(const float* at, int64_t count) {
    return count >= UNITS ? load(at) : load_rest(at, count);
}
INLINE void store_first(float* at, Lane x, int64_t count) {
    if (count >= UNITS) store(at, x);
    else store_rest(at, x, count);
}

// Call f(whether all lanes are there, first number) for the vectors of a row: whole ones are spared the look at its end.
template <class F>
INLINE void in_vectors(int64_t count, F&& f) {
    int64_t i = 0;
    for (; i + UNITS <= count; i += UNITS) f(std::true_type{}, i);
    if (i < count) f(std::false_type{}, i);
}
template <class Whole>
INLINE Lane load_some(Whole whole, const float* at, int64_t count) {
    return whole ? load(at) : load_rest(at, count);
}
template <class Whole>
INLINE void store_some(Whole whole, float* at, Lane x, int64_t count) {
    if (whole) store(at, x);
    else store_rest(at, x, count);
}

// -inf where a row has ended, 0 before.
INLINE Lane absent(int64_t left) {
    Lane x{};
    if (left < UNITS)
        for (int64_t u = left; u < UNITS; u++) x[u] = -INF<float>;
    return x;
}

}  // namespace ISA
}  // namespace regard
