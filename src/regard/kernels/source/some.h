// Vectors at the ends of rows, where fewer numbers are left than there are lanes: one copy of what is rarely needed.
#pragma once

#include "scores.h"

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

}  // namespace ISA
}  // namespace regard
