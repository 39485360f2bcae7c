// Logits of a tile of queries and a block of keys.
#pragma once

#include "core/scores.h"

namespace regard {
namespace ISA {

// What the tiles of a task share: the buffer for one block of scores, and the current block of keys and values. The
// first tile that uses a block widens, pairs or transposes it for all of them.
template <class T>
struct Workspace {
    static constexpr int64_t K = KEY_BLOCK;
    const Problem& p;
    const int64_t item, i, stop, tiles;  // queries from i to stop - 1
    Arena arena;
    T *score_block, *bias = nullptr, *keys_buffer, *values_buffer;
    PairParameters<T> parameters;
    Features<T> right;
    BlockPrefetcher keys_prefetcher, values_prefetcher;  // of the next block

    COLD Workspace(const Problem& p, int64_t item, int64_t width, Arena memory, int64_t i, int64_t stop)
        : p(p), item(item), i(i), stop(stop), tiles((stop - i + width - 1) / width), arena(memory) {
        score_block = arena.allocate<T>(K * width);
        keys_prefetcher.at = values_prefetcher.at = reinterpret_cast<const char*>(score_block);
        if (score_of(p) != PRODUCTS) memset(score_block, 0, K * width * sizeof(T));  // padding lanes must be finite
        if (p.bias) bias = arena.allocate<T>(K * width), memset(bias, 0, K * width * sizeof(T));
        keys_buffer = arena.allocate<T>(K * padded_columns(p.d));
        values_buffer = arena.allocate<T>(K * width_of<T>(p.e));
        parameters = pair_parameters<T>(p, arena);
        right = features<T>(p, arena, K);
    }

    // After the last block, prefetch the next tiles' queries and the lines that the contexts will be written to.
    NOINLINE void prefetch_next_block(int64_t j, bool last) {
        if (last) {
            keys_prefetcher = block_prefetcher(p.queries, item, stop - K, p.d, p.queries_type, K);
            values_prefetcher = line_prefetcher(static_cast<T*>(p.context) + (item * p.n + i) * p.e, (stop - i) * p.e);
            return;
        }
        const int64_t distance = tiles < COPY_MIN_TILES ? K / 4 : K;
        keys_prefetcher = block_prefetcher(p.keys, item, j, p.d, p.keys_type, distance);
        values_prefetcher = block_prefetcher(p.values, item, j, p.e, p.values_type, K);
    }

    // Prefetch what the next tile's gradients start with, some of it with each block of keys.
    NOINLINE void prefetch_next_tile(int64_t block) {
        const int64_t row = item * p.n + stop, rows = stop - i;
        keys_prefetcher = block == 0   ? block_prefetcher(p.queries, item, stop - K, p.d, p.queries_type, K)
                          : block == 1 ? block_prefetcher(p.dcontext, item, stop - K, p.e, p.compute, K)
                          : block == 2 ? line_prefetcher(static_cast<T*>(p.dqueries) + row * p.d, rows * p.d)
                                       : line_prefetcher(static_cast<T*>(p.context) + row * p.e, rows * p.e);
    }

    Block<T> keys(int64_t j) { return compact(p.keys, p.keys_type, j, p.d, keys_buffer, is_cached(cached_keys, j)); }

    // Pairs of values are stored in rows of two keys, or transposed for the matrix unit.
    NOINLINE Block<T> values(int64_t j) {
        const bool cached = is_cached(cached_values, j);
#if defined(__AMX_BF16__)
        auto* halves = reinterpret_cast<uint16_t*>(values_buffer);
        for (int64_t c = 0; c < rows(j) && !cached; c += DOT_STEP) {
            values_prefetcher.prefetch(DOT_STEP * 2 * p.e / 64);
            transpose_step(p.values, item, j + c, std::min(DOT_STEP, rows(j) - c), p.e, halves + c, K);
        }
        return {values_buffer, K / 2};
#elif defined(__AVX512BF16__)
        if (!cached) pair_rows(p.values, item, j, rows(j), p.e, values_buffer, width_of<T>(p.e));
        return {values_buffer, width_of<T>(p.e)};
#else
        return compact(p.values, p.values_type, j, p.e, values_buffer, cached);
#endif
    }
    void invalidate() { cached_keys = cached_values = -1; }  // the buffers no longer hold a block

   private:
    static constexpr int64_t COPY_MIN_TILES = 3;
    int64_t cached_keys = -1, cached_values = -1;  // first row of the block in each buffer
    // Rows with a large stride map to few cache sets, so for many tiles they are copied.
    NOINLINE Block<T> compact(const Matrices& x, int32_t type, int64_t j, int64_t columns, T* to, bool cached) {
        const Block<T> stored = rows_of<T>(x, type, item, j, cached ? 0 : rows(j), columns, to);
        if (PAIRS || tiles < COPY_MIN_TILES || stored.stride == columns) return stored;
        for (int64_t r = 0; r < rows(j) && !cached; r++)
            memcpy(to + r * columns, stored.at + r * stored.stride, columns * sizeof(T));
        return {to, columns};
    }
    int64_t rows(int64_t j) const { return std::min(K, p.m - j); }
    static bool is_cached(int64_t& cached_block, int64_t j) { return std::exchange(cached_block, j) == j; }
};

template <class T, int NV>
class ScoreBlock {
   protected:
    static constexpr int64_t W = NV * L<T>;
    Workspace<T>& workspace;
    const Problem& p;
    const int64_t item, i, rows;
    const Scale<T> scale;
    Arena& arena;
    T *queries, *const score_block, *const bias;
    Block<T> query_rows;
    Features<T> left;
    V<T> score_scale[NV];
    bool scaled;  // whether any score_scale is not 1
    bool needs_finish;  // whether logits need more than scaled products

    ScoreBlock(Workspace<T>& workspace, int64_t i, int64_t rows)
        : workspace(workspace), p(workspace.p), item(workspace.item), i(i), rows(rows), scale(scale_of<T>(p)),
          arena(workspace.arena), score_block(workspace.score_block), bias(workspace.bias),
          left(features<T>(p, arena, W)) {
        load_queries();
    }

    NOINLINE void load_queries() {
        T* widened_queries = arena.allocate<T>(p.queries_type == p.compute ? 0 : W * p.d);
        Block<T> q = query_rows = rows_of<T>(p.queries, p.queries_type, item, i, rows, p.d, widened_queries);
        UNROLL for (int v = 0; v < NV; v++) score_scale[v] = broadcast(scale.factor);
        needs_finish = scale.cap != 0 || p.bias || score_of(p) != PRODUCTS;
        queries = arena.allocate<T>(score_of(p) == PRODUCTS ? padded_columns(p.d) * W : 0);
        if (score_of(p) == PRODUCTS) {
            transpose_rows<T>(q.at, q.stride, rows, elements(p.d), queries, W, W);
            std::fill(queries + elements(p.d) * W, queries + elements(padded_columns(p.d)) * W, T(0));
            if (!PAIRS) split_scales<T, NV>(p, scale.factor, queries, score_scale);
        } else prepare_features<T>(p, left, q, 0, rows);
        V<T> change{};
        UNROLL for (int v = 0; v < NV; v++) change = larger(change, score_scale[v] == T(1) ? V<T>{} : broadcast(T(1)));
        scaled = largest<T>(change) != 0;
    }

    // Fill the block of scores [key][query] with logits, and raise `maximum` to their maximum.
    void logits(int64_t j, Visibility visibility, const BlockMask& mask, V<T> (&maximum)[NV], T* caps = nullptr) {
        V<T> ignored[NV] = {};
        const bool masks = visibility == SOME_PAIRS, masks_last = masks && (needs_finish || MATRIX_UNIT);
        scores(j, mask, needs_finish || masks_last ? ignored : maximum, masks && !masks_last);
        if (needs_finish) finish_logits(j, mask, masks ? ignored : maximum, caps);
        if (masks_last) mask_scores(mask, maximum);
    }

   private:
    void scores(int64_t j, const BlockMask& mask, V<T> (&maximum)[NV], bool masks) {
        const int64_t first = mask.first, last = mask.last;
        if constexpr (MATRIX_UNIT) return scores_amx(j, first, last, maximum);
        Block<T> keys = workspace.keys(j);
        if (score_of(p) != PRODUCTS) {
            prepare_features<T>(p, workspace.right, keys, first, last);
            return score_pairs<T>(p, workspace.parameters, left, rows, workspace.right, first, last, score_block, W, 1);
        }
        for_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, keys.at + c * keys.stride, keys.stride, queries, W, elements(p.d),
                                    workspace.keys_prefetcher);
            if (scaled)
                UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++) sums[r][v] *= score_scale[v];
            if (masks)
                UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++) sums[r][v] =
                    apply_mask<T>(mask.words[c + r] >> (v * L<T>), sums[r][v]);
            T* to = score_block + c * W;
            UNROLL for (int v = 0; v < NV; v++) {
                V<T> largest_score = sums[0][v];
                UNROLL for (int r = 0; r < R; r++) {
                    store(to + r * W + v * L<T>, sums[r][v]);
                    largest_score = larger(largest_score, sums[r][v]);
                }
                maximum[v] = larger(maximum[v], largest_score);
            }
        });
    }

    inline void scores_amx(int64_t j, int64_t first, int64_t last, V<T> (&maximum)[NV]);

    // Turn scores into logits where they are not products, or have a cap or a bias.
    void finish_logits(int64_t j, const BlockMask& mask, V<T> (&maximum)[NV], T* caps) {
        if (p.bias) load_bias<T>(p, item, i, rows, j, mask.first, mask.last, bias, W);
        for (int64_t c = mask.first; c < mask.last; c++) UNROLL for (int v = 0; v < NV; v++) {
                T* at = score_block + c * W + v * L<T>;
                V<T> x = score_of(p) == PRODUCTS ? load(at) : load(at) * score_scale[v];
                if (scale.cap != 0) {
                    x = tanh<T>(x);
                    if (caps) store(caps + c * W + v * L<T>, x);
                    x = x * scale.cap;
                }
                if (p.bias) x = add_bias<T>(x, load(bias + c * W + v * L<T>));
                store(at, x);
                maximum[v] = larger(maximum[v], x);
            }
    }

    // Apply the mask to finished logits.
    void mask_scores(const BlockMask& mask, V<T> (&maximum)[NV]) {
        V<T> largest_score[NV];
        UNROLL for (int v = 0; v < NV; v++) largest_score[v] = maximum[v];
        T* at = score_block + mask.first * W;
        for (int64_t c = mask.first; c < mask.last; c++, at += W) UNROLL for (int v = 0; v < NV; v++) {
                V<T> x = apply_mask<T>(mask.words[c] >> (v * L<T>), load(at + v * L<T>));
                store(at + v * L<T>, x);
                largest_score[v] = larger(largest_score[v], x);
            }
        UNROLL for (int v = 0; v < NV; v++) maximum[v] = largest_score[v];
    }
};

}  // namespace ISA
}  // namespace regard

#include "amx/scores.h"
