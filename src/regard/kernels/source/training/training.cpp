// What else takes time where small networks are trained: a softmax, rows of tables, and Adam; float32.
#include "core/tails.h"

namespace regard {
namespace ISA {

INLINE Lane root(Lane x) {
#if defined(__AVX512F__)
    return (Lane)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (Lane)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (Lane)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (Lane)vsqrtq_f32((float32x4_t)x);
#else
    for (int u = 0; u < L<float>; u++) x[u] = std::sqrt(x[u]);
    return x;
#endif
}

INLINE float largest(Lane x) {
    float top = x[0];
    for (int u = 1; u < UNITS; u++) top = x[u] > top ? x[u] : top;
    return top;
}

// Rows of logits become gradients of the mean loss.
void cross_entropy(const Softmax& p) {
    const int64_t words = p.words;
    for (int64_t r = 0; r < p.rows; r++) {
        float *x = p.logits + r * words, *found = p.found + r * 3;
        Lane tops = all(-INF<float>);
        for (int64_t i = 0; i < words; i += UNITS) {
            Lane here = load_first(x + i, words - i);
            if (p.bias) store_first(x + i, here += load_first(p.bias + i, words - i), words - i);
            tops = larger(here + absent(words - i), tops);
        }
        const float top = largest(tops);
        found[1] = x[p.targets[r]] - top;
        Lane totals{}, sums{};
        for (int64_t i = 0; i < words; i += UNITS) {
            const Lane here = load_first(x + i, words - i) - top;
            const Lane grown = exp2<float>((here + absent(words - i)) * float(LOG2E));
            store_first(x + i, grown, words - i);
            totals += grown;
            sums += absent(words - i) < 0 ? Lane{} : here;
        }
        found[0] = sum<float>(totals), found[2] = sum<float>(sums);
        const float factor = p.share / found[0];
        for (int64_t i = 0; i < words; i += UNITS)
            store_first(x + i, load_first(x + i, words - i) * factor - p.spread, words - i);
        x[p.targets[r]] -= p.taken;
        if (!p.dbias) continue;
        for (int64_t i = 0; i < words; i += UNITS)
            store_first(p.dbias + i, load_first(p.dbias + i, words - i) + load_first(x + i, words - i), words - i);
    }
}

void add_rows(const Rows& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float* from = p.added + r * p.size;
        float* to = p.table + p.places[r] * p.size;
        if (r + 4 < p.rows)  // words lie anywhere
            for (int64_t i = 0; i < p.size; i += 16) __builtin_prefetch(p.table + p.places[r + 4] * p.size + i, 1);
        for (int64_t i = 0; i < p.size; i += UNITS)
            store_first(to + i, load_first(to + i, p.size - i) + load_first(from + i, p.size - i), p.size - i);
    }
}

// The same operations in the same order as in NumPy: the same numbers, to the bit.
void adam(const Adam& p) {
    for (int64_t i = 0; i < p.count; i += UNITS) {
        const int64_t some = p.count - i;
        const Lane g = load_first(p.gradient + i, some);
        const Lane mean = load_first(p.mean + i, some) * p.keep_mean + p.add_mean * g;
        const Lane square = load_first(p.square + i, some) * p.keep_square + g * g * p.add_square;
        const Lane step = mean / (root(square) + p.epsilon) * p.rate;
        store_first(p.mean + i, mean, some), store_first(p.square + i, square, some);
        store_first(p.parameters + i, load_first(p.parameters + i, some) - step, some);
    }
}

}  // namespace ISA
}  // namespace regard
