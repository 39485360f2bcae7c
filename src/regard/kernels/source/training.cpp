// What else takes time where small networks are trained: the softmax over a vocabulary, and Adam; float32.
#include "scores.h"

#if !defined(__AVX512BF16__)

namespace regard {
namespace ISA {

using Lane = V<float>;

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

// Call f(first number, how many) for each vector; the last may be shorter.
template <class F>
INLINE void in_vectors(int64_t count, F&& f) {
    int64_t i = 0;
    for (; i + L<float> <= count; i += L<float>) f(i, std::integral_constant<int64_t, L<float>>{});
    if (i < count) f(i, count - i);
}
template <class N>
INLINE Lane take(const float* at, N count) {
    if constexpr (std::is_same_v<N, int64_t>) {
        float some[L<float>] = {};
        memcpy(some, at, count * sizeof(float));
        return load(some);
    }
    return load(at);
}
template <class N>
INLINE void give(float* at, Lane x, N count) {
    if constexpr (std::is_same_v<N, int64_t>) {
        float some[L<float>];
        store(some, x);
        memcpy(at, some, count * sizeof(float));
    } else {
        store(at, x);
    }
}

// Rows of logits become gradients of the mean loss.
void cross_entropy(const Softmax& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        float *x = p.logits + r * p.words, *found = p.found + r * 3;
        const float* bias = p.bias;
        Lane tops = all(-INF<float>);
        float top = -INF<float>;
        in_vectors(p.words, [&](int64_t i, auto count) INLINE_LAMBDA {
            Lane here = take(x + i, count);
            if (bias) give(x + i, here += take(bias + i, count), count);
            if (count == L<float>) tops = here > tops ? here : tops;
            else for (int u = 0; u < count; u++) top = here[u] > top ? here[u] : top;
        });
        for (int u = 0; u < L<float>; u++) top = tops[u] > top ? tops[u] : top;
        Lane totals{}, sums{};
        found[1] = x[p.targets[r]] - top;
        in_vectors(p.words, [&](int64_t i, auto count) INLINE_LAMBDA {
            Lane here = take(x + i, count) - top, grown = exp2<float>(here * float(LOG2E));
            give(x + i, grown, count);
            if (count < L<float>) for (int u = int(count); u < L<float>; u++) here[u] = grown[u] = 0;
            totals += grown, sums += here;
        });
        found[0] = sum<float>(totals), found[2] = sum<float>(sums);
        const float factor = p.share / found[0], spread = p.spread;
        in_vectors(p.words, [&](int64_t i, auto count) INLINE_LAMBDA {
            give(x + i, take(x + i, count) * factor - spread, count);
        });
        x[p.targets[r]] -= p.taken;
        if (p.dbias)
            in_vectors(p.words, [&](int64_t i, auto count) INLINE_LAMBDA {
                give(p.dbias + i, take(p.dbias + i, count) + take(x + i, count), count);
            });
    }
}

// The same operations in the same order as in NumPy: the same numbers, to the bit.
void adam(const Adam& p) {
    in_vectors(p.count, [&](int64_t i, auto count) INLINE_LAMBDA {
        const Lane g = take(p.gradient + i, count);
        const Lane mean = take(p.mean + i, count) * p.keep_mean + p.add_mean * g;
        const Lane square = take(p.square + i, count) * p.keep_square + g * g * p.add_square;
        const Lane step = mean / (root(square) + p.epsilon) * p.rate;
        give(p.mean + i, mean, count), give(p.square + i, square, count);
        give(p.parameters + i, take(p.parameters + i, count) - step, count);
    });
}

}  // namespace ISA
}  // namespace regard
#endif
