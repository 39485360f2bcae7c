// Other operations of training: cross-entropy, scatter-add of rows, Adam; float32.
#include "core/tails.h"

namespace regard {
namespace ISA {

INLINE Vector square_root(Vector x) {
#if defined(__AVX512F__)
    return (Vector)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (Vector)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (Vector)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (Vector)vsqrtq_f32((float32x4_t)x);
#else
    for (int u = 0; u < L<float>; u++) x[u] = std::sqrt(x[u]);
    return x;
#endif
}

INLINE float largest(Vector x) {
    float maximum = x[0];
    for (int u = 1; u < LANES; u++) maximum = x[u] > maximum ? x[u] : maximum;
    return maximum;
}

// Replace rows of logits by the gradient of the mean loss.
void cross_entropy(const Softmax& p, bool, char*) {
    const int64_t words = p.words;
    for (int64_t r = 0; r < p.rows; r++) {
        float *x = p.logits + r * words, *statistics = p.statistics + r * 3;
        Vector tops = broadcast(-INF<float>);
        for (int64_t i = 0; i < words; i += LANES) {
            Vector logits = load_partial(x + i, words - i);
            if (p.bias) store_partial(x + i, logits += load_partial(p.bias + i, words - i), words - i);
            tops = larger(logits + tail_mask(words - i), tops);
        }
        const float maximum = largest(tops);
        statistics[1] = x[p.targets[r]] - maximum;
        Vector totals{}, sums{};
        for (int64_t i = 0; i < words; i += LANES) {
            const Vector logits = load_partial(x + i, words - i) - maximum;
            const Vector exponentials = exp2<float>((logits + tail_mask(words - i)) * float(LOG2E));
            store_partial(x + i, exponentials, words - i);
            totals += exponentials;
            sums += tail_mask(words - i) < 0 ? Vector{} : logits;
        }
        statistics[0] = sum<float>(totals), statistics[2] = sum<float>(sums);
        const float factor = p.scale / statistics[0];
        for (int64_t i = 0; i < words; i += LANES)
            store_partial(x + i, load_partial(x + i, words - i) * factor - p.smoothing, words - i);
        x[p.targets[r]] -= p.target_weight;
        if (!p.dbias) continue;
        for (int64_t i = 0; i < words; i += LANES)
            store_partial(p.dbias + i, load_partial(p.dbias + i, words - i) + load_partial(x + i, words - i),
                          words - i);
    }
}

void add_rows(const Rows& p, bool, char*) {
    for (int64_t r = 0; r < p.rows; r++) {
        const float* from = p.updates + r * p.size;
        float* to = p.table + p.indices[r] * p.size;
        if (r + 4 < p.rows)  // rows are in random order
            for (int64_t i = 0; i < p.size; i += 16) __builtin_prefetch(p.table + p.indices[r + 4] * p.size + i, 1);
        for (int64_t i = 0; i < p.size; i += LANES)
            store_partial(to + i, load_partial(to + i, p.size - i) + load_partial(from + i, p.size - i), p.size - i);
    }
}

// The same operations in the same order as in NumPy, so that results agree bitwise.
void adam(const Adam& p, bool, char*) {
    for (int64_t i = 0; i < p.count; i += LANES) {
        const int64_t remaining = p.count - i;
        const Vector g = load_partial(p.gradient + i, remaining);
        const Vector mean = load_partial(p.mean + i, remaining) * p.keep_mean + p.add_mean * g;
        const Vector square = load_partial(p.square + i, remaining) * p.keep_square + g * g * p.add_square;
        const Vector step = mean / (square_root(square) + p.epsilon) * p.rate;
        store_partial(p.mean + i, mean, remaining), store_partial(p.square + i, square, remaining);
        store_partial(p.parameters + i, load_partial(p.parameters + i, remaining) - step, remaining);
    }
}

}  // namespace ISA
}  // namespace regard
