// The logits of a tile of queries and a block of keys.
#pragma once

#include "core/scores.h"

namespace regard {
namespace ISA {

// What the tiles of a task share: room for one strip of logits, and the block of keys and values that they work on. It is
// widened, paired or turned over by the first tile that asks for it, once for all of them.
template <class T>
struct Workspace {
    static constexpr int64_t K = KEYS_AT_ONCE;
    const Problem& p;
    const int64_t item, i, stop, tiles;  // queries from i to stop - 1
    Room room;
    T *strip, *bias = nullptr, *keys_room, *values_room;
    Learned<T> of_pairs;
    Features<T> right;
    Ahead keys_ahead, values_ahead;  // what comes after the block

    COLD Workspace(const Problem& p, int64_t item, int64_t width, Room given, int64_t i, int64_t stop)
        : p(p), item(item), i(i), stop(stop), tiles((stop - i + width - 1) / width), room(given) {
        strip = room.take<T>(K * width);
        keys_ahead.at = values_ahead.at = reinterpret_cast<const char*>(strip);
        if (score_of(p) != PRODUCTS) memset(strip, 0, K * width * sizeof(T));  // lanes of no queries stay finite
        if (p.bias) bias = room.take<T>(K * width), memset(bias, 0, K * width * sizeof(T));
        keys_room = room.take<T>(K * filled_columns(p.d));
        values_room = room.take<T>(K * width_of<T>(p.e));
        of_pairs = learned<T>(p, room);
        right = features<T>(p, room, K);
    }

    // From the last block on: to the next tiles' queries, and to where the contexts of these go.
    ONCE void look_ahead(int64_t j, bool last) {
        if (last) {
            keys_ahead = rows_ahead(p.queries, item, stop - K, p.d, p.queries_type, K);
            values_ahead = lines_ahead(static_cast<T*>(p.context) + (item * p.n + i) * p.e, (stop - i) * p.e);
            return;
        }
        const int64_t away = tiles < WORTH_A_COPY ? K / 4 : K;
        keys_ahead = rows_ahead(p.keys, item, j, p.d, p.keys_type, away);
        values_ahead = rows_ahead(p.values, item, j, p.e, p.values_type, K);
    }

    // To what the next tile's gradients begin with: some of it beside each block of keys.
    ONCE void look_beyond(int64_t block) {
        const int64_t row = item * p.n + stop, rows = stop - i;
        keys_ahead = block == 0   ? rows_ahead(p.queries, item, stop - K, p.d, p.queries_type, K)
                     : block == 1 ? rows_ahead(p.dcontext, item, stop - K, p.e, p.compute, K)
                     : block == 2 ? lines_ahead(static_cast<T*>(p.dqueries) + row * p.d, rows * p.d)
                                  : lines_ahead(static_cast<T*>(p.context) + row * p.e, rows * p.e);
    }

    // Keys from j on.
    Block<T> keys(int64_t j) {
        return near(p.keys, p.keys_type, j, p.d, keys_room, has(keys_of, j));
    }

    // Values from j on; pairs of them lie in rows of two or, where a unit multiplies, turned over.
    ONCE Block<T> values(int64_t j) {
        const bool here = has(values_of, j);
#if defined(__AMX_BF16__)
        auto* halves = reinterpret_cast<uint16_t*>(values_room);
        for (int64_t c = 0; c < rows(j) && !here; c += SUMMED) {
            values_ahead.ask(SUMMED * 2 * p.e / 64);
            turn_step(p.values, item, j + c, std::min(SUMMED, rows(j) - c), p.e, halves + c, K);
        }
        return {values_room, K / 2};
#elif defined(__AVX512BF16__)
        if (!here) pair_rows(p.values, item, j, rows(j), p.e, values_room, width_of<T>(p.e));
        return {values_room, width_of<T>(p.e)};
#else
        return near(p.values, p.values_type, j, p.e, values_room, here);
#endif
    }
    void forget() { keys_of = values_of = -1; }  // what somebody changes for himself

   private:
    static constexpr int64_t WORTH_A_COPY = 3;
    int64_t keys_of = -1, values_of = -1;  // whose block is here
    // Rows that lie far apart share few places of a cache. So for many tiles they are copied, unless they are here.
    ONCE Block<T> near(const Matrices& x, int32_t type, int64_t j, int64_t columns, T* to, bool here) {
        const Block<T> found = rows_of<T>(x, type, item, j, here ? 0 : rows(j), columns, to);
        if (PAIRS || tiles < WORTH_A_COPY || found.stride == columns) return found;
        for (int64_t r = 0; r < rows(j) && !here; r++) memcpy(to + r * columns, found.at + r * found.stride, columns * sizeof(T));
        return {to, columns};
    }
    int64_t rows(int64_t j) const { return std::min(K, p.m - j); }
    static bool has(int64_t& mine, int64_t j) { return std::exchange(mine, j) == j; }
};

template <class T, int NV>
class ScoreBlock {
   protected:
    static constexpr int64_t W = NV * L<T>;
    Workspace<T>& workspace;
    const Problem& p;
    const int64_t item, i, rows;
    const Scale<T> scale;
    Room& room;
    T *queries, *const strip, *const bias;
    Block<T> query_rows;
    Features<T> left;
    V<T> after[NV];
    bool scaled;      // whether any of these is not 1
    bool unfinished;  // whether logits need more than the products give

    ScoreBlock(Workspace<T>& workspace, int64_t i, int64_t rows)
        : workspace(workspace), p(workspace.p), item(workspace.item), i(i), rows(rows), scale(scale_of<T>(p)), room(workspace.room),
          strip(workspace.strip), bias(workspace.bias), left(features<T>(p, room, W)) {
        take_queries();
    }

    ONCE void take_queries() {
        T* wide = room.take<T>(p.queries_type == p.compute ? 0 : W * p.d);
        Block<T> q = query_rows = rows_of<T>(p.queries, p.queries_type, item, i, rows, p.d, wide);
        UNROLL for (int v = 0; v < NV; v++) after[v] = all(scale.factor);
        unfinished = scale.cap != 0 || p.bias || score_of(p) != PRODUCTS;
        queries = room.take<T>(score_of(p) == PRODUCTS ? filled_columns(p.d) * W : 0);
        if (score_of(p) == PRODUCTS) {
            turn_rows<T>(q.at, q.stride, rows, numbers(p.d), queries, W, W);
            std::fill(queries + numbers(p.d) * W, queries + numbers(filled_columns(p.d)) * W, T(0));
            if (!PAIRS) place_factors<T, NV>(p, scale.factor, queries, after);
        } else
            prepare<T>(p, left, q, 0, rows);
        V<T> change{};
        UNROLL for (int v = 0; v < NV; v++) change = larger(change, after[v] == T(1) ? V<T>{} : all(T(1)));
        scaled = largest<T>(change) != 0;
    }

    // Fill the strip [key][query] with logits, and raise `top` to the largest of them.
    void logits(int64_t j, Seen seen, const Visibility& visibility, V<T> (&top)[NV], T* caps = nullptr) {
        V<T> ignored[NV] = {};
        const bool hides = seen == SOME, later = hides && (unfinished || UNIT);
        scores(j, visibility, unfinished || later ? ignored : top, hides && !later);
        if (unfinished) finish(j, visibility, hides ? ignored : top, caps);
        if (later) hide(visibility, top);
    }

   private:
    void scores(int64_t j, const Visibility& visibility, V<T> (&top)[NV], bool hides) {
        const int64_t first = visibility.first, last = visibility.last;
        if constexpr (UNIT) return scores_of_unit(j, first, last, top);
        Block<T> keys = workspace.keys(j);
        if (score_of(p) != PRODUCTS) {
            prepare<T>(p, workspace.right, keys, first, last);
            return score_pairs<T>(p, workspace.of_pairs, left, rows, workspace.right, first, last, strip, W, 1);
        }
        in_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, keys.at + c * keys.stride, keys.stride, queries, W, numbers(p.d),
                                    workspace.keys_ahead);
            if (scaled)
                UNROLL for (int r = 0; r < R; r++)
                    UNROLL for (int v = 0; v < NV; v++) sums[r][v] *= after[v];
            if (hides)
                UNROLL for (int r = 0; r < R; r++)
                    UNROLL for (int v = 0; v < NV; v++) sums[r][v] = seen_by<T>(visibility.words[c + r] >> (v * L<T>), sums[r][v]);
            T* to = strip + c * W;
            UNROLL for (int v = 0; v < NV; v++) {
                V<T> most = sums[0][v];
                UNROLL for (int r = 0; r < R; r++) {
                    store(to + r * W + v * L<T>, sums[r][v]);
                    most = larger(most, sums[r][v]);
                }
                top[v] = larger(top[v], most);
            }
        });
    }

    inline void scores_of_unit(int64_t j, int64_t first, int64_t last,
                               V<T> (&top)[NV]);

    // Make logits of scores that are no products, or have a cap or a bias.
    void finish(int64_t j, const Visibility& visibility, V<T> (&top)[NV], T* caps) {
        if (p.bias) fetch_bias<T>(p, item, i, rows, j, visibility.first, visibility.last, bias, W);
        for (int64_t c = visibility.first; c < visibility.last; c++)
            UNROLL for (int v = 0; v < NV; v++) {
                T* at = strip + c * W + v * L<T>;
                V<T> x = score_of(p) == PRODUCTS ? load(at) : load(at) * after[v];
                if (scale.cap != 0) {
                    x = tanh<T>(x);
                    if (caps) store(caps + c * W + v * L<T>, x);
                    x = x * scale.cap;
                }
                if (p.bias) x = add_bias<T>(x, load(bias + c * W + v * L<T>));
                store(at, x);
                top[v] = larger(top[v], x);
            }
    }

    // -inf where not seen, when logits are finished.
    void hide(const Visibility& visibility, V<T> (&top)[NV]) {
        V<T> most[NV];
        UNROLL for (int v = 0; v < NV; v++) most[v] = top[v];
        T* at = strip + visibility.first * W;
        for (int64_t c = visibility.first; c < visibility.last; c++, at += W)
            UNROLL for (int v = 0; v < NV; v++) {
                V<T> x = seen_by<T>(visibility.words[c] >> (v * L<T>), load(at + v * L<T>));
                store(at + v * L<T>, x);
                most[v] = larger(most[v], x);
            }
        UNROLL for (int v = 0; v < NV; v++) top[v] = most[v];
    }
};

}  // namespace ISA
}  // namespace regard

#include "amx/scores.h"
