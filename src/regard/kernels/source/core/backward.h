// Backward, for a tile of NV vectors of queries.
#pragma once

#include "core/score_block.h"

namespace regard {
namespace ISA {

// c[r][lanes] += sum over k < depth of a[r][k] * b[k][lanes], in memory, for `lanes` lanes (filled up to vectors).
template <class T>
void add_product(T* c, int64_t ldc, int64_t count, int64_t lanes, const T* a, int64_t lda, const T* b, int64_t ldb,
                 int64_t depth) {
    auto strip = [&](auto width, int64_t x) {
        constexpr int NV = decltype(width)::value, AT_ONCE = NV < 4 ? ROWS : ROWS == 8 ? 6 : 2;  // what registers hold
        in_steps<AT_ONCE>(0, count, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
            T* at = c + r * ldc + x;
            V<T> sums[R][NV];
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) {
                    sums[u][v] = load(at + u * ldc + v * L<T>);
                    if (v * BYTES % 64 == 0) __builtin_prefetch(at + (R + u) * ldc + v * L<T>, 1);  // the next step's
                }
            product<T, R, NV, true>(sums, a + r * lda, lda, b + x, ldb, depth);
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) store(at + u * ldc + v * L<T>, sums[u][v]);
        });
    };
    int64_t x = 0;
    for (; x + 4 * L<T> <= lanes || x + 3 * L<T> < lanes; x += 4 * L<T>) strip(std::integral_constant<int, 4>{}, x);
    for (; x + L<T> < lanes; x += 2 * L<T>) strip(std::integral_constant<int, 2>{}, x);
    for (; x < lanes; x += L<T>) strip(std::integral_constant<int, 1>{}, x);
}

template <class T>
ONCE bool all_finite(Block<T> x, int64_t first, int64_t last, int64_t columns) {
    T rest = 0;
    V<T> witness[4] = {};  // that don't wait for each other
    for (int64_t c = first; c < last; c++) {
        const T* row = x.at + c * x.stride;
        int64_t f = 0;
        for (; f + 4 * L<T> <= columns; f += 4 * L<T>)
            UNROLL for (int u = 0; u < 4; u++) witness[u] += load(row + f + u * L<T>) * T(0);
        for (; f + L<T> <= columns; f += L<T>) witness[0] += load(row + f) * T(0);
        for (; f < columns; f++) rest += row[f] * T(0);
    }
    return rest + sum<T>((witness[0] + witness[1]) + (witness[2] + witness[3])) == 0;
}

// Whether keys are known to be finite before they are asked one block at a time.
template <class T>
bool finite_as_stored(const Problem& p, int64_t item, int64_t first, int64_t last) {
    if (p.score != PRODUCTS || p.keys_type != p.compute) return false;
    return all_finite<T>(rows_of<T>(p.keys, p.keys_type, item, 0, last, p.d, static_cast<T*>(nullptr)), first, last, p.d);
}

// Rows of gradients are filled up to a multiple of this many numbers; the Python side knows it.
constexpr int64_t FILLED = 16;
inline int64_t filled(int64_t count) { return (count + FILLED - 1) / FILLED * FILLED; }

// Where a task collects.
template <class T>
struct Collected {
    T *dkeys, *dvalues;  // (m, filled(d)), (m, filled(e))
    T* dlearned;
    char* dbias;
};

// The gradients of scores of pairs that are no products: lanes are features, so tiles of all widths share this.
template <class T>
struct PairsBack {
    const Problem& p;
    const Workspace<T>& workspace;
    const Features<T>& left;
    const int64_t rows, step;  // queries, and from key to key in the strip
    T *dstrip, *dqueries, *dlearned;

    // Keys from `first` to `last` - 1 of the block whose gradients these are.
    ONCE void pull(int64_t first, int64_t last, T* dkeys) {
        for (int64_t c = first; c < last; c++)
            for (int64_t r = 0; r < rows; r++) {
                T down = dstrip[c * step + r] * T(p.scale);
                if (p.score == DISTANCES) pull_distance(r, c, down, dkeys);
                else if (left.wild[r] || workspace.right.wild[c]) pull_wild(r, c, down, dkeys), down = 0;
                dstrip[c * step + r] = down;
            }
        if (p.score == PERCEPTRON) in_steps<4>(0, rows, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
            pull_perceptron<R>(r, first, last, dkeys);
        });
    }

    // With s = 1 / (1 + exp(2 x)): tanh x = 1 - 2 s, and its slope is 4 (s - s^2).
    template <int R>
    INLINE void pull_perceptron(int64_t r, int64_t first, int64_t last, T* dkeys) {
        for (int64_t f = 0; f < left.width; f += L<T>) {
            V<T> exps[R], dleft[R], dvector{}, slope = load(workspace.of_pairs.vector + f) * T(4);
            UNROLL for (int u = 0; u < R; u++) {
                exps[u] = load(left.exps + (r + u) * left.width + f);
                dleft[u] = load(dqueries + (r + u) * filled(p.d) + f);
            }
            for (int64_t c = first; c < last; c++) {
                V<T> key = load(workspace.right.exps + c * workspace.right.width + f), dright = load(dkeys + c * filled(p.d) + f);
                UNROLL for (int u = 0; u < R; u++) {
                    V<T> down = all(dstrip[c * step + r + u]);
                    V<T> s = reciprocal(fma(exps[u], key, all(T(1))));
                    V<T> steep = fma(-s, s, s) * slope;
                    dleft[u] = fma(down, steep, dleft[u]);
                    dright = fma(down, steep, dright);
                    dvector = fma(down, fma(all(T(-2)), s, all(T(1))), dvector);
                }
                store(dkeys + c * filled(p.d) + f, dright);
            }
            UNROLL for (int u = 0; u < R; u++) store(dqueries + (r + u) * filled(p.d) + f, dleft[u]);
            store(dlearned + f, load(dlearned + f) + dvector);
        }
    }

    void pull_wild(int64_t r, int64_t c, T down, T* dkeys) {
        if (down == 0) return;
        const T *one = left.rows.at + r * left.rows.stride, *other = workspace.right.rows.at + c * workspace.right.rows.stride;
        auto add = [](T* at, V<T> x) { store(at, load(at) + x); };
        for (int64_t f = 0; f < p.d; f += L<T>) {
            V<T> high = tanh<T>(load_some(one + f, p.d - f) + load_some(other + f, p.d - f));
            V<T> steep = load(workspace.of_pairs.vector + f) * (T(1) - high * high) * down;
            add(dqueries + r * filled(p.d) + f, steep), add(dkeys + c * filled(p.d) + f, steep);
            add(dlearned + f, high * down);
        }
    }

    void pull_distance(int64_t r, int64_t c, T down, T* dkeys) {
        if (down == 0) return;  // not seen: no influence, be it infinitely far
        const T inverse = workspace.of_pairs.inverse;
        T squares = 0;
        for (int64_t f = 0; f < p.d; f++) {
            T apart = (left.rows.at[r * left.rows.stride + f] - workspace.right.rows.at[c * workspace.right.rows.stride + f]) * inverse;
            squares += apart * apart;
            dqueries[r * filled(p.d) + f] -= down * apart * inverse;
            dkeys[c * filled(p.d) + f] += down * apart * inverse;
        }
        *dlearned += down * squares * inverse;
    }
};

template <class T, int NV>
class Back : ScoreBlock<T, NV> {
    using ScoreBlock<T, NV>::W, ScoreBlock<T, NV>::p, ScoreBlock<T, NV>::item, ScoreBlock<T, NV>::i, ScoreBlock<T, NV>::rows;
    using ScoreBlock<T, NV>::strip, ScoreBlock<T, NV>::room, ScoreBlock<T, NV>::scale, ScoreBlock<T, NV>::left, ScoreBlock<T, NV>::workspace;
    static constexpr int64_t K = KEYS_AT_ONCE;
    const Collected<T> out;
    const bool finite_keys_only;  // nobody has to look
    T *dstrip, *caps = nullptr, *values_room, *turned, *rows_q, *rows_d, *dqueries;
    V<T> base[NV], logsum[NV], mean[NV], lost[NV];

   public:
    Back(Workspace<T>& workspace, int64_t i, int64_t rows, const Collected<T>& out, bool finite)
        : ScoreBlock<T, NV>(workspace, i, rows), out(out), finite_keys_only(finite) {
        dstrip = room.template take<T>(K * W);
        if (scale.cap != 0) caps = room.template take<T>(K * W);
        values_room = room.template take<T>(p.values_type == p.compute ? 0 : K * p.e);
        turned = room.template take<T>(p.e * W);
        rows_q = room.template take<T>(W * filled(p.d));
        rows_d = room.template take<T>(W * filled(p.e));
        dqueries = room.template take<T>(std::max(W * filled(p.d), p.d * W));
        memset(dqueries, 0, W * filled(p.d) * sizeof(T));
        take_rows();
    }

    // What the keys from `first` to `last` - 1 give; ranges of keys come in order.
    void run(int64_t first, int64_t last) {
        if (guess(p, item, i, rows, first, last - first) == NOBODY) return;
        if (first) read();
        Visibility visibility;
        for (int64_t j = first; j < last; j += K) {
            Seen seen = look(p, item, i, rows, j, std::min(K, last - j), visibility);
            if (ASKS) workspace.look_beyond((j - first) / K);
            if (seen != NOBODY) block(j, seen, visibility);
        }
        write();
    }

   private:
    static T finite(T x) { return std::isfinite(x) ? x : T(0); }

    // Copy a row with 0 in place of what is not finite, filled up.
    static void copy_finite(const T* in, int64_t count, T* out) {
        int64_t c = 0;
        for (; c + L<T> <= count; c += L<T>) {
            V<T> x = load(in + c), witness = x * T(0);
            store(out + c, witness == 0 ? x : V<T>{});
        }
        for (; c < filled(count); c++) out[c] = c < count ? finite(in[c]) : T(0);
    }

    void take_rows() {
        Block<T> d = rows_of<T>(p.dcontext, p.compute, item, i, rows, p.e, static_cast<T*>(nullptr));
        turn_rows<T>(d.at, d.stride, rows, p.e, turned, W, W);
        const T* context = static_cast<const T*>(p.context) + (item * p.n + i) * p.e;
        const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
        T found[4][W] = {};
        for (int64_t r = 0; r < rows; r++) {
            const T *own = d.at + r * d.stride, *its = context + r * p.e;
            copy_finite(own, p.e, rows_d + r * filled(p.e));
            copy_finite(this->query_rows.at + r * this->query_rows.stride, p.d, rows_q + r * filled(p.d));
            V<T> means{}, witnesses{};
            int64_t c = 0;
            for (; c + L<T> <= p.e; c += L<T>) {
                means = fma(load(own + c), load(its + c), means);
                witnesses += load(own + c) * T(0);
            }
            T mean = sum<T>(means), witness = sum<T>(witnesses);
            for (; c < p.e; c++) mean = fma1(own[c], its[c], mean), witness += own[c] * T(0);
            found[0][r] = statistic[r], found[1][r] = statistic[p.n + r];
            found[2][r] = mean, found[3][r] = witness == 0 ? T(0) : std::numeric_limits<T>::quiet_NaN();
        }
        UNROLL for (int v = 0; v < NV; v++) {
            base[v] = load(found[0] + v * L<T>), logsum[v] = countable<T>(load(found[1] + v * L<T>));
            mean[v] = load(found[2] + v * L<T>), lost[v] = load(found[3] + v * L<T>);
        }
    }

    void block(int64_t j, Seen seen, const Visibility& visibility) {
        const int64_t first = visibility.first, last = visibility.last;
        V<T> ignored[NV] = {};
        this->logits(j, seen, visibility, ignored, caps);
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, values_room);
        in_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, values.at + c * values.stride, values.stride, turned, W, p.e);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) store(dstrip + (c + r) * W + v * L<T>, sums[r][v]);
        });
        const T factor = p.score == PRODUCTS ? T(p.scale) : T(1);
        const bool later = out.dbias || caps;  // somebody wants them without it
        weigh(first, last, later ? T(1) : factor);
        add_product<T>(out.dvalues + (j + first) * filled(p.e), filled(p.e), last - first, p.e,
                             strip + first * W, W, rows_d, filled(p.e), rows);
        if (out.dbias) add_bias_gradient(j, first, last);
        if (caps)
            for (int64_t c = first * W; c < last * W; c += L<T>) {
                V<T> cap = load(caps + c), down = load(dstrip + c) * (T(1) - cap * cap);
                store(dstrip + c, load(strip + c) == V<T>{} ? V<T>{} : down);
            }
        if (later && factor != 1)
            for (int64_t c = first * W; c < last * W; c += L<T>) store(dstrip + c, load(dstrip + c) * factor);
        if (p.score == PRODUCTS) pull_products(j, first, last);
        else
            PairsBack<T>{p, workspace, left, rows, W, dstrip, dqueries, out.dlearned}.pull(first, last,
                                                                                      out.dkeys + j * filled(p.d));
    }

    // Weights into the strip, gradients of the logits, times a factor, into the other one.
    void weigh(int64_t first, int64_t last, T factor) {
        for (int64_t c = first; c < last; c++)
            UNROLL for (int v = 0; v < NV; v++) {
                T *at = strip + c * W + v * L<T>, *dat = dstrip + c * W + v * L<T>;
                V<T> logit = load(at);
                I<T> hidden = logit == -INF<T>;
                V<T> weight = exp2<T>((logit - base[v]) - logsum[v]) + lost[v];
                V<T> down = weight * (load(dat) - mean[v]);
                store(at, hidden ? V<T>{} : weight);
                store(dat, hidden ? V<T>{} : down * factor);
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
                    UNROLL for (int u = 0; u < L<T>; u++) square[u] = load(dstrip + (c + u) * W + r);
                    turn<T>(square);
                    for (int64_t u = 0; u < std::min<int64_t>(L<T>, rows - r); u++) {
                        T* to = reinterpret_cast<T*>(at + (r + u) * row);
                        store(to, load(to) + square[u]);
                    }
                }
        for (; c < last; c++, at += column)
            for (int64_t r = 0; r < rows; r++) *reinterpret_cast<T*>(at + r * row) += dstrip[c * W + r];
    }

    void pull_products(int64_t j, int64_t first, int64_t last) {
        add_product<T>(out.dkeys + (j + first) * filled(p.d), filled(p.d), last - first, p.d, dstrip + first * W,
                             W, rows_q, filled(p.d), rows);
        Block<T> keys = finite_keys(workspace.keys(j), first, last);
        in_steps<ROWS>(0, p.d, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV];
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) sums[r][v] = load(dqueries + (c + r) * W + v * L<T>);
            product<T, R, NV, false>(sums, keys.at + first * keys.stride + c, keys.stride, dstrip + first * W, W,
                                     last - first);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) store(dqueries + (c + r) * W + v * L<T>, sums[r][v]);
        });
    }

    // Keys with 0 in place of what is not finite; where that is seen, weights are NaN already.
    Block<T> finite_keys(Block<T> keys, int64_t first, int64_t last) {
        if (finite_keys_only || all_finite<T>(keys, first, last, p.d)) return keys;
        workspace.forget();
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.d; f++) workspace.keys_room[c * p.d + f] = finite(keys.at[c * keys.stride + f]);
        return {workspace.keys_room, p.d};
    }

    T* found() const { return static_cast<T*>(p.dqueries) + (item * p.n + i) * p.d; }

    void read() {
        if (p.score == PRODUCTS) return turn_rows<T>(found(), p.d, rows, p.d, dqueries, W, W);
        for (int64_t r = 0; r < rows; r++) memcpy(dqueries + r * filled(p.d), found() + r * p.d, p.d * sizeof(T));
    }

    void write() {
        if (p.score == PRODUCTS) return turn_back<T>(dqueries, W, rows, p.d, found(), p.d);
        for (int64_t r = 0; r < rows; r++) memcpy(found() + r * p.d, dqueries + r * filled(p.d), p.d * sizeof(T));
    }
};

}  // namespace ISA
}  // namespace regard
