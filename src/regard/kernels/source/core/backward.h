// Backward pass for a tile of NV vectors of queries.
#pragma once

#include "core/score_block.h"

namespace regard {
namespace ISA {

// c[r][lanes] += sum over k < depth of a[r][k] * b[k][lanes], in memory; `lanes` is rounded up to vectors.
template <class T>
void add_product(T* c, int64_t ldc, int64_t count, int64_t lanes, const T* a, int64_t lda, const T* b, int64_t ldb,
                 int64_t depth) {
    auto add_columns = [&](auto width, int64_t x) {
        // as many as registers hold
        constexpr int NV = decltype(width)::value, AT_ONCE = NV < 4 ? ROWS : ROWS == 8 ? 6 : 2;
        for_steps<AT_ONCE>(0, count, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
            T* at = c + r * ldc + x;
            V<T> sums[R][NV];
            UNROLL for (int u = 0; u < R; u++) UNROLL for (int v = 0; v < NV; v++) {
                sums[u][v] = load(at + u * ldc + v * L<T>);
                if (v * BYTES % 64 == 0) __builtin_prefetch(at + (R + u) * ldc + v * L<T>, 1);  // of the next step
            }
            product<T, R, NV, true>(sums, a + r * lda, lda, b + x, ldb, depth);
            UNROLL for (int u = 0; u < R; u++) UNROLL for (int v = 0; v < NV; v++)
                store(at + u * ldc + v * L<T>, sums[u][v]);
        });
    };
    int64_t x = 0;
    for (; x + 4 * L<T> <= lanes || x + 3 * L<T> < lanes; x += 4 * L<T>)
        add_columns(std::integral_constant<int, 4>{}, x);
    for (; x + L<T> < lanes; x += 2 * L<T>) add_columns(std::integral_constant<int, 2>{}, x);
    for (; x < lanes; x += L<T>) add_columns(std::integral_constant<int, 1>{}, x);
}

template <class T>
NOINLINE bool all_finite(Block<T> x, int64_t first, int64_t last, int64_t columns) {
    T tail_witness = 0;
    V<T> witness[4] = {};  // independent chains
    for (int64_t c = first; c < last; c++) {
        const T* row = x.at + c * x.stride;
        int64_t f = 0;
        for (; f + 4 * L<T> <= columns; f += 4 * L<T>)
            UNROLL for (int u = 0; u < 4; u++) witness[u] += load(row + f + u * L<T>) * T(0);
        for (; f + L<T> <= columns; f += L<T>) witness[0] += load(row + f) * T(0);
        for (; f < columns; f++) tail_witness += row[f] * T(0);
    }
    return tail_witness + sum<T>((witness[0] + witness[1]) + (witness[2] + witness[3])) == 0;
}

// Whether all keys are finite, tested once instead of per block.
template <class T>
bool finite_as_stored(const Problem& p, int64_t item, int64_t first, int64_t last) {
    if (p.score != PRODUCTS || p.keys_type != p.compute) return false;
    return all_finite<T>(rows_of<T>(p.keys, p.keys_type, item, 0, last, p.d, static_cast<T*>(nullptr)), first, last,
                         p.d);
}

// The length of a row of gradients.
inline int64_t padded(int64_t count) { return (count + PADDING - 1) / PADDING * PADDING; }

// Where a task accumulates gradients.
template <class T>
struct GradientBuffers {
    T *dkeys, *dvalues;  // (m, padded(d)), (m, padded(e)) or null
    T* dparameters;
    char* dbias;
};

// Gradients of scores that are not products. Lanes are features, so tiles of all widths share this code.
template <class T>
struct PairsBackward {
    const Problem& p;
    const Workspace<T>& workspace;
    const Features<T>& left;
    const int64_t rows, step;  // queries; stride between keys of the block of scores
    T *dscore_block, *dqueries, *dparameters;

    // For keys from `first` to `last` - 1 of the block.
    NOINLINE void run(int64_t first, int64_t last, T* dkeys) {
        for (int64_t c = first; c < last; c++)
            for (int64_t r = 0; r < rows; r++) {
                T dlogit = dscore_block[c * step + r] * T(p.scale);
                if (p.score == DISTANCES) distance_backward(r, c, dlogit, dkeys);
                else if (left.overflows[r] || workspace.right.overflows[c])
                    exact_backward(r, c, dlogit, dkeys), dlogit = 0;
                dscore_block[c * step + r] = dlogit;
            }
        if (p.score == PERCEPTRON)
            for_steps<4>(0, rows, [&](auto size, int64_t r) {
                constexpr int R = decltype(size)::value;
                perceptron_backward<R>(r, first, last, dkeys);
            });
    }

    // With s = 1 / (1 + exp(2 x)): tanh x = 1 - 2 s, and its derivative is 4 (s - s^2).
    template <int R>
    INLINE void perceptron_backward(int64_t r, int64_t first, int64_t last, T* dkeys) {
        for (int64_t f = 0; f < left.width; f += L<T>) {
            V<T> exps[R], dleft[R], dvector{}, slope = load(workspace.parameters.vector + f) * T(4);
            UNROLL for (int u = 0; u < R; u++) {
                exps[u] = load(left.exps + (r + u) * left.width + f);
                dleft[u] = load(dqueries + (r + u) * padded(p.d) + f);
            }
            for (int64_t c = first; c < last; c++) {
                V<T> key = load(workspace.right.exps + c * workspace.right.width + f),
                     dright = load(dkeys + c * padded(p.d) + f);
                UNROLL for (int u = 0; u < R; u++) {
                    V<T> dlogit = broadcast(dscore_block[c * step + r + u]);
                    V<T> s = reciprocal(fma(exps[u], key, broadcast(T(1))));
                    V<T> dinput = fma(-s, s, s) * slope;
                    dleft[u] = fma(dlogit, dinput, dleft[u]);
                    dright = fma(dlogit, dinput, dright);
                    dvector = fma(dlogit, fma(broadcast(T(-2)), s, broadcast(T(1))), dvector);
                }
                store(dkeys + c * padded(p.d) + f, dright);
            }
            UNROLL for (int u = 0; u < R; u++) store(dqueries + (r + u) * padded(p.d) + f, dleft[u]);
            store(dparameters + f, load(dparameters + f) + dvector);
        }
    }

    void exact_backward(int64_t r, int64_t c, T dlogit, T* dkeys) {
        if (dlogit == 0) return;
        const T *query = left.rows.at + r * left.rows.stride,
                *key = workspace.right.rows.at + c * workspace.right.rows.stride;
        auto add = [](T* at, V<T> x) { store(at, load(at) + x); };
        for (int64_t f = 0; f < p.d; f += L<T>) {
            V<T> squashed = tanh<T>(load_padded(query + f, p.d - f) + load_padded(key + f, p.d - f));
            V<T> dinput = load(workspace.parameters.vector + f) * (T(1) - squashed * squashed) * dlogit;
            add(dqueries + r * padded(p.d) + f, dinput), add(dkeys + c * padded(p.d) + f, dinput);
            add(dparameters + f, squashed * dlogit);
        }
    }

    void distance_backward(int64_t r, int64_t c, T dlogit, T* dkeys) {
        if (dlogit == 0) return;  // masked: no gradient even if the distance is infinite
        const T inverse = workspace.parameters.inverse;
        T squares = 0;
        for (int64_t f = 0; f < p.d; f++) {
            T difference = (left.rows.at[r * left.rows.stride + f] -
                            workspace.right.rows.at[c * workspace.right.rows.stride + f]) *
                           inverse;
            squares += difference * difference;
            dqueries[r * padded(p.d) + f] -= dlogit * difference * inverse;
            dkeys[c * padded(p.d) + f] += dlogit * difference * inverse;
        }
        *dparameters += dlogit * squares * inverse;
    }
};

template <class T, int NV>
class BackwardTile : ScoreBlock<T, NV> {
    using ScoreBlock<T, NV>::W, ScoreBlock<T, NV>::p, ScoreBlock<T, NV>::item, ScoreBlock<T, NV>::i,
        ScoreBlock<T, NV>::rows;
    using ScoreBlock<T, NV>::score_block, ScoreBlock<T, NV>::arena, ScoreBlock<T, NV>::scale, ScoreBlock<T, NV>::left,
        ScoreBlock<T, NV>::workspace;
    static constexpr int64_t K = KEY_BLOCK;
    const GradientBuffers<T> out;
    const bool keys_are_finite;  // tested before
    T *dscore_block, *caps = nullptr, *values_buffer, *transposed_dcontext, *query_rows_finite, *dcontext_rows,
                     *dqueries;
    V<T> base[NV], logsum[NV], delta[NV], nan_rows[NV];

   public:
    BackwardTile(Workspace<T>& workspace, int64_t i, int64_t rows, const GradientBuffers<T>& out, bool finite)
        : ScoreBlock<T, NV>(workspace, i, rows), out(out), keys_are_finite(finite) {
        dscore_block = arena.template allocate<T>(K * W);
        if (scale.cap != 0) caps = arena.template allocate<T>(K * W);
        values_buffer = arena.template allocate<T>(p.values_type == p.compute ? 0 : K * p.e);
        transposed_dcontext = arena.template allocate<T>(p.e * W);
        query_rows_finite = arena.template allocate<T>(W * padded(p.d));
        dcontext_rows = arena.template allocate<T>(W * padded(p.e));
        dqueries = arena.template allocate<T>(std::max(W * padded(p.d), p.d * W));
        memset(dqueries, 0, W * padded(p.d) * sizeof(T));
        load_rows();
    }

    // Add the gradients from the keys `first` to `last` - 1; ranges of keys come in order.
    void run(int64_t first, int64_t last) {
        if (classify_block(p, item, i, rows, first, last - first) == NO_PAIR) return;
        if (first) load_dqueries();
        BlockMask mask;
        for (int64_t j = first; j < last; j += K) {
            Visibility visibility = evaluate_mask(p, item, i, rows, j, std::min(K, last - j), mask);
            if (PREFETCHES) workspace.prefetch_next_tile((j - first) / K);
            if (visibility != NO_PAIR) add_block(j, visibility, mask);
        }
        store_dqueries();
    }

   private:
    static T finite(T x) { return std::isfinite(x) ? x : T(0); }

    // Copy a row with 0 for non-finite elements, padded with 0.
    static void copy_finite(const T* in, int64_t count, T* out) {
        int64_t c = 0;
        for (; c + L<T> <= count; c += L<T>) {
            V<T> x = load(in + c), witness = x * T(0);
            store(out + c, witness == 0 ? x : V<T>{});
        }
        for (; c < padded(count); c++) out[c] = c < count ? finite(in[c]) : T(0);
    }

    void load_rows() {
        Block<T> d = rows_of<T>(p.dcontext, p.compute, item, i, rows, p.e, static_cast<T*>(nullptr));
        transpose_rows<T>(d.at, d.stride, rows, p.e, transposed_dcontext, W, W);
        const T* context = static_cast<const T*>(p.context) + (item * p.n + i) * p.e;
        const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
        T row_statistics[4][W] = {};
        for (int64_t r = 0; r < rows; r++) {
            const T *drow = d.at + r * d.stride, *output = context + r * p.e;
            copy_finite(drow, p.e, dcontext_rows + r * padded(p.e));
            copy_finite(this->query_rows.at + r * this->query_rows.stride, p.d, query_rows_finite + r * padded(p.d));
            V<T> deltas{}, witnesses{};
            int64_t c = 0;
            for (; c + L<T> <= p.e; c += L<T>) {
                deltas = fma(load(drow + c), load(output + c), deltas);
                witnesses += load(drow + c) * T(0);
            }
            T delta = sum<T>(deltas), witness = sum<T>(witnesses);
            for (; c < p.e; c++) delta = fma1(drow[c], output[c], delta), witness += drow[c] * T(0);
            row_statistics[0][r] = statistic[r], row_statistics[1][r] = statistic[p.n + r];
            row_statistics[2][r] = delta,
            row_statistics[3][r] = witness == 0 ? T(0) : std::numeric_limits<T>::quiet_NaN();
        }
        UNROLL for (int v = 0; v < NV; v++) {
            base[v] = load(row_statistics[0] + v * L<T>), logsum[v] = exp_base<T>(load(row_statistics[1] + v * L<T>));
            delta[v] = load(row_statistics[2] + v * L<T>), nan_rows[v] = load(row_statistics[3] + v * L<T>);
        }
    }

    void add_block(int64_t j, Visibility visibility, const BlockMask& mask) {
        const int64_t first = mask.first, last = mask.last;
        V<T> ignored[NV] = {};
        this->logits(j, visibility, mask, ignored, caps);
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, values_buffer);
        for_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, values.at + c * values.stride, values.stride, transposed_dcontext, W, p.e);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++)
                store(dscore_block + (c + r) * W + v * L<T>, sums[r][v]);
        });
        const T factor = p.score == PRODUCTS ? T(p.scale) : T(1);
        const bool scales_last = out.dbias || caps;  // both need the unscaled gradient
        make_weights(first, last, scales_last ? T(1) : factor);
        if (out.dvalues)
            add_product<T>(out.dvalues + (j + first) * padded(p.e), padded(p.e), last - first, p.e,
                           score_block + first * W, W, dcontext_rows, padded(p.e), rows);
        if (out.dbias) add_bias_gradient(j, first, last);
        if (caps)
            for (int64_t c = first * W; c < last * W; c += L<T>) {
                V<T> cap = load(caps + c), dlogit = load(dscore_block + c) * (T(1) - cap * cap);
                store(dscore_block + c, load(score_block + c) == V<T>{} ? V<T>{} : dlogit);
            }
        if (scales_last && factor != 1)
            for (int64_t c = first * W; c < last * W; c += L<T>)
                store(dscore_block + c, load(dscore_block + c) * factor);
        if (p.score == PRODUCTS) products_backward(j, first, last);
        else
            PairsBackward<T>{p, workspace, left, rows, W, dscore_block, dqueries, out.dparameters}.run(
                first, last, out.dkeys + j * padded(p.d));
    }

    // Replace scores by weights, and write the gradients of the logits times a factor.
    void make_weights(int64_t first, int64_t last, T factor) {
        for (int64_t c = first; c < last; c++) UNROLL for (int v = 0; v < NV; v++) {
                T *at = score_block + c * W + v * L<T>, *dat = dscore_block + c * W + v * L<T>;
                V<T> logit = load(at);
                I<T> masked = logit == -INF<T>;
                V<T> weight = exp2<T>((logit - base[v]) - logsum[v]) + nan_rows[v];
                V<T> dlogit = weight * (load(dat) - delta[v]);
                store(at, masked ? V<T>{} : weight);
                store(dat, masked ? V<T>{} : dlogit * factor);
            }
    }

    void add_bias_gradient(int64_t j, int64_t first, int64_t last) {
        int64_t row = p.dbias_row, column = p.dbias_column;
        char* at = out.dbias + i * row + (j + first) * column;
        if (p.bias == DISTANCE_BIAS) {
            row = sizeof(T), column = -row;
            at = out.dbias + (p.m - 1 + i - j - first) * row;
        }
        int64_t c = first;
        if (row && column == sizeof(T))
            for (; c + L<T> <= last; c += L<T>, at += L<T> * column)
                for (int64_t r = 0; r < rows; r += L<T>) {
                    V<T> square[L<T>];
                    UNROLL for (int u = 0; u < L<T>; u++) square[u] = load(dscore_block + (c + u) * W + r);
                    transpose_square<T>(square);
                    for (int64_t u = 0; u < std::min<int64_t>(L<T>, rows - r); u++) {
                        T* to = reinterpret_cast<T*>(at + (r + u) * row);
                        store(to, load(to) + square[u]);
                    }
                }
        for (; c < last; c++, at += column)
            for (int64_t r = 0; r < rows; r++) *reinterpret_cast<T*>(at + r * row) += dscore_block[c * W + r];
    }

    void products_backward(int64_t j, int64_t first, int64_t last) {
        add_product<T>(out.dkeys + (j + first) * padded(p.d), padded(p.d), last - first, p.d, dscore_block + first * W,
                       W, query_rows_finite, padded(p.d), rows);
        Block<T> keys = finite_keys(workspace.keys(j), first, last);
        for_steps<ROWS>(0, p.d, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV];
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++) sums[r][v] =
                load(dqueries + (c + r) * W + v * L<T>);
            product<T, R, NV, false>(sums, keys.at + first * keys.stride + c, keys.stride, dscore_block + first * W, W,
                                     last - first);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++)
                store(dqueries + (c + r) * W + v * L<T>, sums[r][v]);
        });
    }

    // Keys with 0 for non-finite elements. Queries that see those have NaN weights already.
    Block<T> finite_keys(Block<T> keys, int64_t first, int64_t last) {
        if (keys_are_finite || all_finite<T>(keys, first, last, p.d)) return keys;
        workspace.invalidate();
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.d; f++) workspace.keys_buffer[c * p.d + f] = finite(keys.at[c * keys.stride + f]);
        return {workspace.keys_buffer, p.d};
    }

    T* stored_dqueries() const { return static_cast<T*>(p.dqueries) + (item * p.n + i) * p.d; }

    void load_dqueries() {
        if (p.score == PRODUCTS) return transpose_rows<T>(stored_dqueries(), p.d, rows, p.d, dqueries, W, W);
        for (int64_t r = 0; r < rows; r++)
            memcpy(dqueries + r * padded(p.d), stored_dqueries() + r * p.d, p.d * sizeof(T));
    }

    void store_dqueries() {
        if (p.score == PRODUCTS) return store_transposed<T>(dqueries, W, rows, p.d, stored_dqueries(), p.d);
        for (int64_t r = 0; r < rows; r++)
            memcpy(stored_dqueries() + r * p.d, dqueries + r * padded(p.d), p.d * sizeof(T));
    }
};

}  // namespace ISA
}  // namespace regard
