// Scores that are not dot products, and the steps from scores to logits: scale, cap and bias.
#pragma once

#include "core/product.h"
#include "core/mask.h"

namespace regard {
namespace ISA {

// pairs only support products
INLINE int32_t score_of(const Problem& p) { return PAIRS ? int32_t(PRODUCTS) : p.score; }

// ---- scores that are not products: lanes are features -------------------------------------------------------

template <class T, int S, size_t... C>
INLINE V<T> swapped(V<T> x, std::index_sequence<C...>) {
    return __builtin_shufflevector(x, x, (int(C) ^ S)...);
}
// The sum of all lanes, always by the same tree.
template <class T, int S = L<T> / 2>
INLINE T sum(V<T> x) {
    if constexpr (S == 0) return x[0];
    else return sum<T, S / 2>(x + swapped<T, S>(x, std::make_index_sequence<L<T>>()));
}

// The maximum of all lanes; with a NaN lane, any lane.
template <class T, int S = L<T> / 2>
INLINE T largest(V<T> x) {
    if constexpr (S == 0) return x[0];
    else return largest<T, S / 2>(larger(x, swapped<T, S>(x, std::make_index_sequence<L<T>>())));
}

INLINE V<float> reciprocal(V<float> x) {
#if defined(__AVX512F__)
    V<float> y = (V<float>)_mm512_rcp14_ps((__m512)x);
    return fma(fma(-x, y, broadcast(1.0f)), y, y);
#else
    return 1.0f / x;
#endif
}
INLINE V<double> reciprocal(V<double> x) { return 1.0 / x; }

// exp(2 x) of the rows of queries or keys for the additive (perceptron) score: tanh(x + y) = 1 - 2 / (1 + exp(2 x)
// exp(2 y)) needs no exponential per pair. Rows where exp(2 x) could overflow are marked, and their pairs are computed
// exactly.
template <class T>
struct Features {
    T* exps;  // (rows, width), padded with 1; all 1 in rows that overflow
    bool* overflows;
    int64_t width;
    Block<T> rows;
};

template <class T>
int64_t width_of(int64_t d) {
    return (d + L<T> - 1) / L<T> * L<T>;
}

template <class T>
COLD Features<T> features(const Problem& p, Arena& arena, int64_t rows) {
    Features<T> x{};
    if (score_of(p) != PERCEPTRON) return x;
    x.width = width_of<T>(p.d);
    x.exps = arena.allocate<T>(rows * x.width);
    x.overflows = arena.allocate<bool>(rows);
    return x;
}

template <class T>
NOINLINE void prepare_features(const Problem& p, Features<T>& x, Block<T> rows, int64_t first, int64_t last) {
    x.rows = rows;
    if (score_of(p) != PERCEPTRON) return;
    for (int64_t r = first; r < last; r++) {
        T* out = x.exps + r * x.width;
        const T* in = rows.at + r * rows.stride;
        bool overflows = false;
        for (int64_t c = 0; c < p.d; c++) overflows |= !(std::abs(in[c]) <= MathConstants<T>::EXP_LIMIT);
        x.overflows[r] = overflows;
        memset(out, 0, x.width * sizeof(T));
        if (!x.overflows[r]) memcpy(out, in, p.d * sizeof(T));
        for (int64_t c = 0; c < x.width; c += L<T>) store(out + c, exp2<T>(load(out + c) * T(2 * LOG2E)));
    }
}

template <class T>
struct PairParameters {  // of scores that are not products
    const T* vector;  // PERCEPTRON: (width,), padded with 0
    T total;  // sum of the vector
    T inverse;  // DISTANCES: 1 / width
};

template <class T>
COLD PairParameters<T> pair_parameters(const Problem& p, Arena& arena) {
    PairParameters<T> x{};
    if (score_of(p) == DISTANCES) x.inverse = T(1 / p.width);
    if (score_of(p) != PERCEPTRON) return x;
    int64_t width = width_of<T>(p.d);
    T* vector = arena.allocate<T>(width);
    memcpy(vector, p.vector, p.d * sizeof(T));
    memset(vector + p.d, 0, (width - p.d) * sizeof(T));
    V<T> total{};
    for (int64_t c = 0; c < width; c += L<T>) total += load(vector + c);
    x.vector = vector, x.total = sum<T>(total);
    return x;
}

template <class T>
INLINE V<T> load_padded(const T* at, int64_t count) {  // padded with 0
    if (count >= L<T>) return load(at);
    T padded[L<T>] = {};
    memcpy(padded, at, count * sizeof(T));
    return load(padded);
}

template <class T>
NOINLINE T exact_pair(const Problem& p, const PairParameters<T>& w, const T* left, const T* right) {
    V<T> sums{};
    for (int64_t c = 0; c < p.d; c += L<T>) {
        V<T> x = load_padded(left + c, p.d - c) + load_padded(right + c, p.d - c);
        sums = fma(load(w.vector + c), tanh<T>(x), sums);
    }
    return sum<T>(sums);
}

// Scores of one query and R keys.
template <class T, int R>
INLINE void perceptron(const Problem& p, const PairParameters<T>& w, const Features<T>& q, int64_t i,
                       const Features<T>& k, int64_t j, T* out, int64_t step) {
    V<T> sums[R] = {};
    for (int64_t c = 0; c < q.width; c += L<T>) {
        V<T> left = load(q.exps + i * q.width + c), vector = load(w.vector + c);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> exponential = fma(left, load(k.exps + (j + r) * k.width + c), broadcast(T(1)));
            sums[r] = fma(vector, reciprocal(exponential), sums[r]);
        }
    }
    for (int r = 0; r < R; r++)
        out[(j + r) * step] = q.overflows[i] || k.overflows[j + r]
                                  ? exact_pair(p, w, q.rows.at + i * q.rows.stride, k.rows.at + (j + r) * k.rows.stride)
                                  : w.total - 2 * sum<T>(sums[r]);
}

template <class T, int R>
INLINE void distances(const Problem& p, const PairParameters<T>& w, const Features<T>& q, int64_t i,
                      const Features<T>& k, int64_t j, T* out, int64_t step) {
    const T *left = q.rows.at + i * q.rows.stride, *right = k.rows.at + j * k.rows.stride;
    V<T> sums[R] = {};
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>) UNROLL for (int r = 0; r < R; r++) {
            V<T> difference = (load(left + c) - load(right + r * k.rows.stride + c)) * w.inverse;
            sums[r] = fma(difference, difference, sums[r]);
        }
    for (int r = 0; r < R; r++) {
        T total = sum<T>(sums[r]);
        for (int64_t t = c; t < p.d; t++) {
            T difference = (left[t] - right[r * k.rows.stride + t]) * w.inverse;
            total = fma1(difference, difference, total);
        }
        out[(j + r) * step] = total;
    }
}

// out[j * step + i * row] for queries i < rows and keys j from first to last - 1.
template <class T>
NOINLINE void score_pairs(const Problem& p, const PairParameters<T>& w, const Features<T>& q, int64_t rows,
                          const Features<T>& k, int64_t first, int64_t last, T* out, int64_t step, int64_t row) {
    for (int64_t i = 0; i < rows; i++)
        for_steps<4>(first, last, [&](auto size, int64_t j) {
            constexpr int R = decltype(size)::value;
            if (score_of(p) == PERCEPTRON) perceptron<T, R>(p, w, q, i, k, j, out + i * row, step);
            else distances<T, R>(p, w, q, i, k, j, out + i * row, step);
        });
}

// ---- from scores to logits ----------------------------------------------------------------------------------

// Logits are in base 2, so that the softmax needs exp2 only.
template <class T>
struct Scale {
    T factor;  // applied to scores
    T cap;  // applied after tanh; 0: no cap
};
template <class T>
Scale<T> scale_of(const Problem& p) {
    double factor = p.scale * (score_of(p) == DISTANCES ? -0.5 : 1.0);
    return p.softcap != 0 ? Scale<T>{T(factor / p.softcap), T(p.softcap * LOG2E)} : Scale<T>{T(factor * LOG2E), T(0)};
}

// The largest absolute value and the smallest nonzero one.
template <class T>
struct Extent {
    static constexpr T LIMIT = std::numeric_limits<T>::max();
    V<T> largest_size{}, negated_smallest = broadcast(-LIMIT);  // negated, so that each update is a maximum
    INLINE void include(V<T> x) {
        x = x < 0 ? -x : x;
        largest_size = larger(largest_size, x);
        negated_smallest = larger(negated_smallest, x > 0 ? -x : broadcast(-LIMIT));
    }
    INLINE I<T> scales_exactly(T factor) const {  // whether scaling by the factor neither overflows nor underflows
        const T size = std::abs(factor);
        return largest_size * size <= LIMIT && negated_smallest * -size >= std::numeric_limits<T>::min();
    }
};

// Split the scale into a factor of the query and a factor of its scores. The query gets it where this is exact.
template <class T>
NOINLINE void split_scale(const Problem& p, T factor, const T* row, T& query_scale, T& score_scale) {
    query_scale = 1, score_scale = factor;
    if (PAIRS || score_of(p) != PRODUCTS) return;  // scaling a pair would round it
    Extent<T> extent;
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>) extent.include(load(row + c));
    T largest_size = largest<T>(extent.largest_size), negated_smallest = largest<T>(extent.negated_smallest);
    for (; c < p.d; c++) {
        T x = std::abs(row[c]);
        largest_size = std::max(largest_size, x),
        negated_smallest = x > 0 ? std::max(negated_smallest, -x) : negated_smallest;
    }
    extent.largest_size = broadcast(largest_size), extent.negated_smallest = broadcast(negated_smallest);
    if (extent.scales_exactly(factor)[0]) query_scale = factor, score_scale = 1;
}
// The same for NV vectors of queries [element][query], which are multiplied by their factor.
template <class T, int NV>
NOINLINE void split_scales(const Problem& p, T factor, T* queries, V<T> (&score_scale)[NV]) {
    constexpr int64_t W = NV * L<T>;
    T* const end = queries + p.d * W;
    Extent<T> extent[NV];
    for (T* at = queries; at < end; at += W) UNROLL for (int v = 0; v < NV; v++) extent[v].include(load(at + v * L<T>));
    V<T> query_scale[NV];
    UNROLL for (int v = 0; v < NV; v++) {
        const I<T> scales_exactly = extent[v].scales_exactly(factor);
        query_scale[v] = scales_exactly ? broadcast(factor) : broadcast(T(1)),
        score_scale[v] = scales_exactly ? broadcast(T(1)) : broadcast(factor);
    }
    for (T* at = queries; at < end; at += W)
        UNROLL for (int v = 0; v < NV; v++) store(at + v * L<T>, load(at + v * L<T>) * query_scale[v]);
}

template <class T>
T bias_value(const Problem& p, const char* at) {
    switch (p.bias_type) {
    case FLOAT32:
        return T(*reinterpret_cast<const float*>(at));
    case FLOAT64:
        return T(*reinterpret_cast<const double*>(at));
    case FLOAT16:
        return T(widen_float16(*reinterpret_cast<const uint16_t*>(at)));
    default:
        return T(widen_bfloat16(*reinterpret_cast<const uint16_t*>(at)));
    }
}
// The bias of query i and key j is at start + i * row + j * column.
struct BiasView {
    const char* start;
    int64_t row, column;
};
template <class T>
BiasView bias_view(const Problem& p, int64_t item) {
    auto* start = reinterpret_cast<const char*>(p.bias_address[item]);
    if (p.bias == ARRAY_BIAS) return {start, p.bias_row, p.bias_column};
    return {start + (p.m - 1) * int64_t(sizeof(T)), int64_t(sizeof(T)), -int64_t(sizeof(T))};
}

// Copy a tile of the bias to [key][query].
template <class T>
NOINLINE void load_bias(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t first, int64_t last,
                        T* out, int64_t width) {
    BiasView b = bias_view<T>(p, item);
    const char* at = b.start + i * b.row + (j + first) * b.column;
    constexpr int64_t size = sizeof(T);
    bool same_type = p.bias_type == (size == 4 ? FLOAT32 : FLOAT64) && b.row % size == 0;
    if (same_type && b.column == size)
        return transpose_rows<T>(reinterpret_cast<const T*>(at), b.row / size, rows, last - first, out + first * width,
                                 width, width);
    for (int64_t c = first; c < last; c++, at += b.column)
        if (same_type && b.row == size) memcpy(out + c * width, at, rows * size);
        else
            for (int64_t r = 0; r < rows; r++) out[c * width + r] = bias_value<T>(p, at + r * b.row);
}

// In base 2 the largest finite biases would overflow, so they are clamped to a value that stays finite.
template <class T>
INLINE V<T> add_bias(V<T> logits, V<T> bias) {
    const V<T> bound = broadcast(std::numeric_limits<T>::max() * T(0.693));  // below ln 2
    const V<T> finite = -larger(-bound, -larger(-bound, bias));  // NaN is kept
    return bias == -INF<T> ? bias : fma(bias == INF<T> ? bias : finite, broadcast(T(LOG2E)), logits);
}

// Replace logits by -inf in lanes whose bit is 0.
template <class T>
INLINE V<T> apply_mask(uint64_t bits, V<T> logits) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
        return (V<T>)_mm512_mask_mov_ps(_mm512_set1_ps(-INF<T>), __mmask16(bits), (__m512)logits);
    else return (V<T>)_mm512_mask_mov_pd(_mm512_set1_pd(-INF<T>), __mmask8(bits), (__m512d)logits);
#else
    I<T> lane = {};
    UNROLL for (int c = 0; c < L<T>; c++) lane[c] = typename Lanes<T>::Int(1) << c;
    return ((typename Lanes<T>::Int(bits) - I<T>{}) & lane) != 0 ? logits : broadcast(-INF<T>);
#endif
}

}  // namespace ISA
}  // namespace regard
