// From scores to logits: scores that are no products, factor, cap and bias.
#pragma once

#include "core/product.h"
#include "core/mask.h"

namespace regard {
namespace ISA {

INLINE int32_t score_of(const Problem& p) { return PAIRS ? int32_t(PRODUCTS) : p.score; }  // numbers, in pairs, are products

// ---- scores of pairs that are no products: lanes are features ------------------------------------------------

template <class T, int S, size_t... C>
INLINE V<T> swapped(V<T> x, std::index_sequence<C...>) {
    return __builtin_shufflevector(x, x, (int(C) ^ S)...);
}
// The sum of all lanes, the same tree for any number.
template <class T, int S = L<T> / 2>
INLINE T sum(V<T> x) {
    if constexpr (S == 0) return x[0];
    else return sum<T, S / 2>(x + swapped<T, S>(x, std::make_index_sequence<L<T>>()));
}

// The largest of all lanes; where one is NaN, that or another.
template <class T, int S = L<T> / 2>
INLINE T largest(V<T> x) {
    if constexpr (S == 0) return x[0];
    else return largest<T, S / 2>(larger(x, swapped<T, S>(x, std::make_index_sequence<L<T>>())));
}

INLINE V<float> reciprocal(V<float> x) {
#if defined(__AVX512F__)
    V<float> y = (V<float>)_mm512_rcp14_ps((__m512)x);
    return fma(fma(-x, y, all(1.0f)), y, y);
#else
    return 1.0f / x;
#endif
}
INLINE V<double> reciprocal(V<double> x) { return 1.0 / x; }

// Rows of the perceptron's two sides as exp(2 x), so that tanh(x + y) = 1 - 2 / (1 + exp(2 x) exp(2 y)) needs no
// exponential for a pair. Rows with a number too large for that are wild, and their pairs are done one by one.
template <class T>
struct Features {
    T* exps;  // (rows, width), filled up with 1; all 1 where wild
    bool* wild;
    int64_t width;
    Block<T> rows;
};

template <class T>
int64_t width_of(int64_t d) {
    return (d + L<T> - 1) / L<T> * L<T>;
}

template <class T>
COLD Features<T> features(const Problem& p, Room& room, int64_t rows) {
    Features<T> x{};
    if (score_of(p) != PERCEPTRON) return x;
    x.width = width_of<T>(p.d);
    x.exps = room.take<T>(rows * x.width);
    x.wild = room.take<bool>(rows);
    return x;
}

template <class T>
ONCE void prepare(const Problem& p, Features<T>& x, Block<T> rows, int64_t first, int64_t last) {
    x.rows = rows;
    if (score_of(p) != PERCEPTRON) return;
    for (int64_t r = first; r < last; r++) {
        T* out = x.exps + r * x.width;
        const T* in = rows.at + r * rows.stride;
        bool wild = false;
        for (int64_t c = 0; c < p.d; c++) wild |= !(std::abs(in[c]) <= Numbers<T>::WILD);
        x.wild[r] = wild;
        memset(out, 0, x.width * sizeof(T));
        if (!x.wild[r]) memcpy(out, in, p.d * sizeof(T));
        for (int64_t c = 0; c < x.width; c += L<T>) store(out + c, exp2<T>(load(out + c) * T(2 * LOG2E)));
    }
}

template <class T>
struct Learned {      // by a score of pairs
    const T* vector;  // PERCEPTRON: (width,), filled up with 0
    T total;          // its sum
    T inverse;        // DISTANCES: 1 / width
};

template <class T>
COLD Learned<T> learned(const Problem& p, Room& room) {
    Learned<T> x{};
    if (score_of(p) == DISTANCES) x.inverse = T(1 / p.width);
    if (score_of(p) != PERCEPTRON) return x;
    int64_t width = width_of<T>(p.d);
    T* vector = room.take<T>(width);
    memcpy(vector, p.vector, p.d * sizeof(T));
    memset(vector + p.d, 0, (width - p.d) * sizeof(T));
    V<T> total{};
    for (int64_t c = 0; c < width; c += L<T>) total += load(vector + c);
    x.vector = vector, x.total = sum<T>(total);
    return x;
}

template <class T>
INLINE V<T> load_some(const T* at, int64_t count) {  // 0 beyond `count`
    if (count >= L<T>) return load(at);
    T some[L<T>] = {};
    memcpy(some, at, count * sizeof(T));
    return load(some);
}

template <class T>
ONCE T wild_pair(const Problem& p, const Learned<T>& w, const T* left, const T* right) {
    V<T> found{};
    for (int64_t c = 0; c < p.d; c += L<T>) {
        V<T> x = load_some(left + c, p.d - c) + load_some(right + c, p.d - c);
        found = fma(load(w.vector + c), tanh<T>(x), found);
    }
    return sum<T>(found);
}

// Scores of one query with R keys.
template <class T, int R>
INLINE void perceptron(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t i, const Features<T>& k,
                       int64_t j, T* out, int64_t step) {
    V<T> found[R] = {};
    for (int64_t c = 0; c < q.width; c += L<T>) {
        V<T> left = load(q.exps + i * q.width + c), vector = load(w.vector + c);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> grown = fma(left, load(k.exps + (j + r) * k.width + c), all(T(1)));
            found[r] = fma(vector, reciprocal(grown), found[r]);
        }
    }
    for (int r = 0; r < R; r++)
        out[(j + r) * step] = q.wild[i] || k.wild[j + r]
                                  ? wild_pair(p, w, q.rows.at + i * q.rows.stride, k.rows.at + (j + r) * k.rows.stride)
                                  : w.total - 2 * sum<T>(found[r]);
}

template <class T, int R>
INLINE void distances(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t i, const Features<T>& k,
                      int64_t j, T* out, int64_t step) {
    const T *left = q.rows.at + i * q.rows.stride, *right = k.rows.at + j * k.rows.stride;
    V<T> found[R] = {};
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>)
        UNROLL for (int r = 0; r < R; r++) {
            V<T> apart = (load(left + c) - load(right + r * k.rows.stride + c)) * w.inverse;
            found[r] = fma(apart, apart, found[r]);
        }
    for (int r = 0; r < R; r++) {
        T total = sum<T>(found[r]);
        for (int64_t t = c; t < p.d; t++) {
            T apart = (left[t] - right[r * k.rows.stride + t]) * w.inverse;
            total = fma1(apart, apart, total);
        }
        out[(j + r) * step] = total;
    }
}

// out[j * step + i * row] for queries i < rows and keys j from first to last - 1.
template <class T>
ONCE void score_pairs(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t rows, const Features<T>& k,
                 int64_t first, int64_t last, T* out, int64_t step, int64_t row) {
    for (int64_t i = 0; i < rows; i++)
        in_steps<4>(first, last, [&](auto size, int64_t j) {
            constexpr int R = decltype(size)::value;
            if (score_of(p) == PERCEPTRON) perceptron<T, R>(p, w, q, i, k, j, out + i * row, step);
            else distances<T, R>(p, w, q, i, k, j, out + i * row, step);
        });
}

// ---- from scores to logits -----------------------------------------------------------------------------------

// Logits are counted in base 2: exp2 is then all that a softmax needs.
template <class T>
struct Scale {
    T factor;  // of what the products or pairs give
    T cap;     // of the hyperbolic tangent after that; 0: none
};
template <class T>
Scale<T> scale_of(const Problem& p) {
    double factor = p.scale * (score_of(p) == DISTANCES ? -0.5 : 1.0);
    return p.softcap != 0 ? Scale<T>{T(factor / p.softcap), T(p.softcap * LOG2E)} : Scale<T>{T(factor * LOG2E), T(0)};
}

// The largest and the least absolute values, but for zeros.
template <class T>
struct Extent {
    static constexpr T LIMIT = std::numeric_limits<T>::max();
    V<T> most{}, least = all(-LIMIT);  // the least, negated: one maximum is all that waits for the number before
    INLINE void take(V<T> x) {
        x = x < 0 ? -x : x;
        most = larger(most, x);
        least = larger(least, x > 0 ? -x : all(-LIMIT));
    }
    INLINE I<T> bear(T factor) const {  // whether no digit is lost
        const T size = std::abs(factor);
        return most * size <= LIMIT && least * -size >= std::numeric_limits<T>::min();
    }
};

// What a query is multiplied with before its products, and what its scores are multiplied with after: the factor goes
// first where that costs no digit.
template <class T>
ONCE void place_factor(const Problem& p, T factor, const T* row, T& before, T& after) {
    before = 1, after = factor;
    if (PAIRS || score_of(p) != PRODUCTS) return;  // a pair can't be multiplied without being rounded
    Extent<T> extent;
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>) extent.take(load(row + c));
    T most = largest<T>(extent.most), least = largest<T>(extent.least);
    for (; c < p.d; c++) {
        T x = std::abs(row[c]);
        most = std::max(most, x), least = x > 0 ? std::max(least, -x) : least;
    }
    extent.most = all(most), extent.least = all(least);
    if (extent.bear(factor)[0]) before = factor, after = 1;
}
// The same for NV vectors of queries [number][query], which are multiplied with what goes before.
template <class T, int NV>
ONCE void place_factors(const Problem& p, T factor, T* queries, V<T> (&after)[NV]) {
    constexpr int64_t W = NV * L<T>;
    T* const end = queries + p.d * W;
    Extent<T> extent[NV];
    for (T* at = queries; at < end; at += W)
        UNROLL for (int v = 0; v < NV; v++) extent[v].take(load(at + v * L<T>));
    V<T> before[NV];
    UNROLL for (int v = 0; v < NV; v++) {
        const I<T> bear = extent[v].bear(factor);
        before[v] = bear ? all(factor) : all(T(1)), after[v] = bear ? all(T(1)) : all(factor);
    }
    for (T* at = queries; at < end; at += W)
        UNROLL for (int v = 0; v < NV; v++) store(at + v * L<T>, load(at + v * L<T>) * before[v]);
}

template <class T>
T bias_number(const Problem& p, const char* at) {
    switch (p.bias_type) {
        case FLOAT32: return T(*reinterpret_cast<const float*>(at));
        case FLOAT64: return T(*reinterpret_cast<const double*>(at));
        case FLOAT16: return T(widen_float16(*reinterpret_cast<const uint16_t*>(at)));
        default: return T(widen_bfloat16(*reinterpret_cast<const uint16_t*>(at)));
    }
}
// The bias of query i and key j lies at start + i * row + j * column.
struct BiasAt {
    const char* start;
    int64_t row, column;
};
template <class T>
BiasAt bias_at(const Problem& p, int64_t item) {
    auto* start = reinterpret_cast<const char*>(p.bias_address[item]);
    if (p.bias == ARRAY_BIAS) return {start, p.bias_row, p.bias_column};
    return {start + (p.m - 1) * int64_t(sizeof(T)), int64_t(sizeof(T)), -int64_t(sizeof(T))};
}

// Copy a tile of the bias to [key][query].
template <class T>
ONCE void fetch_bias(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t first, int64_t last,
                T* out, int64_t width) {
    BiasAt b = bias_at<T>(p, item);
    const char* at = b.start + i * b.row + (j + first) * b.column;
    constexpr int64_t size = sizeof(T);
    bool own = p.bias_type == (size == 4 ? FLOAT32 : FLOAT64) && b.row % size == 0;
    if (own && b.column == size)
        return turn_rows<T>(reinterpret_cast<const T*>(at), b.row / size, rows, last - first, out + first * width,
                            width, width);
    for (int64_t c = first; c < last; c++, at += b.column)
        if (own && b.row == size) memcpy(out + c * width, at, rows * size);
        else
            for (int64_t r = 0; r < rows; r++) out[c * width + r] = bias_number<T>(p, at + r * b.row);
}

// Logits count in base 2, in which the largest numbers have no place: such a bias is as large as there is, and still finite.
template <class T>
INLINE V<T> add_bias(V<T> logits, V<T> bias) {
    const V<T> most = all(std::numeric_limits<T>::max() * T(0.693));  // below ln 2
    const V<T> finite = -larger(-most, -larger(-most, bias));         // NaN stays
    return bias == -INF<T> ? bias : fma(bias == INF<T> ? bias : finite, all(T(LOG2E)), logits);
}

// Logits whose lanes have their bit set, and -inf in place of others.
template <class T>
INLINE V<T> seen_by(uint64_t bits, V<T> logits) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return (V<T>)_mm512_mask_mov_ps(_mm512_set1_ps(-INF<T>), __mmask16(bits), (__m512)logits);
    else return (V<T>)_mm512_mask_mov_pd(_mm512_set1_pd(-INF<T>), __mmask8(bits), (__m512d)logits);
#else
    I<T> lane = {};
    UNROLL for (int c = 0; c < L<T>; c++) lane[c] = typename Lanes<T>::Int(1) << c;
    return ((typename Lanes<T>::Int(bits) - I<T>{}) & lane) != 0 ? logits : all(-INF<T>);
#endif
}

}  // namespace ISA
}  // namespace regard
