// Forward pass for few queries (decoding): lanes are keys, then values.
#pragma once

#include "decode/partial.h"

namespace regard {
namespace ISA {

template <class T>
class Decode {
    static constexpr int64_t K = KEY_BLOCK;
    // whether sums of several queries stay in memory: registers hold eight only
    static constexpr bool ROW_WISE = BYTES == 32;
    // vectors of a value kept in registers, for one query
    static constexpr int MAX_VECTORS = BYTES == 64 && sizeof(T) == 4 && !PAIRS ? 16 : 8;
    // rows of values that are converted at a time, or read by more than four queries
    static constexpr int64_t VALUE_BATCH = 32;
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    const Problem& p;
    const int64_t first_item, row, rows, first_key, last_key;  // `rows` query rows from `row` on, which share the keys
    const Scale<T> scale;
    Arena arena;
    T *queries, *score_blocks, *score_block, *bias, *keys_buffer, *values_buffer, *tile_out, *sums, *score_scale,
        *zeros, *block_sums;
    char* key_scratch;
    PairParameters<T> parameters;
    Features<T> left, right;
    Partial<T>*partials, *partial;  // results of all chunks; of the current chunk
    bool excludes_nonfinite = false;
    RowPrefetcher keys_prefetcher, values_prefetcher;
    SequentialReader keys_reader;
    const bool sequential;  // whether rows of keys and values are contiguous and the hardware prefetcher handles them
    const int64_t blocks_per_pass;  // blocks whose keys are read before their values

   public:
    Decode(const Problem& p, int64_t first_item, int64_t row, int64_t rows, int64_t first_key, int64_t last_key,
           Arena memory)
        : p(p), first_item(first_item), row(row), rows(rows), first_key(first_key), last_key(last_key),
          scale(scale_of<T>(p)), arena(memory), sequential(hardware_prefetches(p.keys, p.d, p.keys_type) &&
                                                           hardware_prefetches(p.values, p.e, p.values_type)),
          blocks_per_pass(reads_sequentially() ? ceil_div(last_key - first_key, K) : 1) {
        // padded by three rows, since sums are computed for four rows at a time
        score_blocks = arena.allocate<T>((blocks_per_pass * rows + 3) * K);
        memset(score_blocks, 0, (blocks_per_pass * rows + 3) * K * sizeof(T));
        zeros = arena.allocate<T>(width_of<T>(p.e));
        memset(zeros, 0, width_of<T>(p.e) * sizeof(T));
        // sums of one block from zero, as in a tile
        block_sums = arena.allocate<T>(MATRIX_UNIT ? 0 : rows * width_of<T>(p.e));
        bias = arena.allocate<T>(K);
        queries = arena.allocate<T>(std::max(rows + 3, MATRIX_UNIT ? TILE_SIDE / 2 : 0) * p.d);
        memset(queries + rows * p.d, 0, 3 * p.d * sizeof(T));
        score_scale = arena.allocate<T>(rows);
        key_scratch = arena.allocate<char>(2 * BYTES * p.d);
        keys_buffer = arena.allocate<T>(p.keys_type == p.compute ? 0 : K * padded_columns(p.d));
        values_buffer = arena.allocate<T>(VALUE_BATCH * width_of<T>(p.e));
        tile_out = arena.allocate<T>(MATRIX_UNIT ? TILE_SIDE * TILE_SIDE : 0);
        sums = arena.allocate<T>(MATRIX_UNIT ? rows * round_up(DOT_STEP, p.e) : 0);
        parameters = pair_parameters<T>(p, arena);
        left = features<T>(p, arena, rows), right = features<T>(p, arena, K);
        load_queries();
    }

    // Fill `results`, one for each row of each chunk.
    void run(Partial<T>* results) {
        TileConfig config(rows, p.d % DOT_STEP ? p.d % DOT_STEP : DOT_STEP);
        partials = results;
        const int64_t results_count = ceil_div(last_key - first_key, CHUNK) * rows;
        attend(results_count);
        V<T> witness{};
        for (int64_t r = 0; r < results_count; r++)
            for (int64_t c = 0; c < p.e; c += L<T>) witness += load(partials[r].context() + c) * T(0);
        bool finite = true;
        for (int c = 0; c < L<T>; c++) finite &= witness[c] == 0;
        if (finite) return;
        excludes_nonfinite = true;
        attend(results_count);
    }

   private:
    // Whether all keys and then all values are read sequentially. Doubles are faster with software prefetch.
    bool reads_sequentially() const {
        return BYTES >= 32 && !MATRIX_UNIT && sizeof(T) == 4 && rows == 1 && p.e <= MAX_VECTORS * L<T> && sequential;
    }
    int64_t item(int64_t r) const { return first_item + (row + r) / p.n; }
    int64_t query(int64_t r) const { return (row + r) % p.n; }

    COLD void load_queries() {
        for (int64_t r = 0; r < rows; r++) {
            T *query_row = (MATRIX_UNIT && rows > 1 ? keys_buffer : queries) + r * p.d, query_scale;
            Block<T> q = rows_of<T>(p.queries, p.queries_type, item(r), query(r), 1, p.d, query_row);
            split_scale<T>(p, scale.factor, q.at, query_scale, score_scale[r]);
            if (MATRIX_UNIT && rows == 1)
                widen(reinterpret_cast<const uint16_t*>(q.at), p.d, BFLOAT16, reinterpret_cast<float*>(query_row));
            else if (PAIRS) memcpy(query_row, q.at, elements(p.d) * sizeof(T));
            else
                for (int64_t c = 0; c < p.d; c++) query_row[c] = query_scale == 1 ? q.at[c] : q.at[c] * query_scale;
        }
        if (MATRIX_UNIT && rows > 1)
            transpose_rows<T>(keys_buffer, p.d, TILE_SIDE, elements(p.d), queries, TILE_SIDE, TILE_SIDE);
        if (!PAIRS) prepare_features<T>(p, left, {queries, p.d}, 0, rows);
    }

    struct BlockState {
        Visibility visibility[QUERIES_PER_TASK], any;  // of each row; the most visible one
        T rescale[QUERIES_PER_TASK];
    };
    // Read the keys of some blocks, then their values: the hardware prefetcher is faster on longer sequential runs.
    NOINLINE void attend(int64_t results_count) {
        for (int64_t r = 0; r < results_count; r++) partials[r].clear(p.e);
        if (MATRIX_UNIT && rows > 1) std::fill_n(sums, rows * round_up(DOT_STEP, p.e), T(0));
        BlockState blocks[CHUNKS_PER_TASK * CHUNK / K];
        for (int64_t first = first_key; first < last_key; first += blocks_per_pass * K) {
            const int64_t end = std::min(first + blocks_per_pass * K, last_key);
            for (int64_t j = first; j < end; j += K) classify(j, std::min(K, end - j), blocks[(j - first) / K]);
            auto each = [&](auto&& work) INLINE_LAMBDA {
                score_block = score_blocks;
                for (int64_t j = first; j < end; j += K, score_block += rows * K) {
                    BlockState& block = blocks[(j - first) / K];
                    partial = partials + (j - first_key) / CHUNK * rows;
                    if (block.any != NO_PAIR) work(j, std::min(K, end - j), block);
                }
            };
            each([&](int64_t j, int64_t keys, BlockState&) INLINE_LAMBDA { scores(j, keys, end); });
            each([&](int64_t j, int64_t keys, BlockState& block) INLINE_LAMBDA { make_weights(j, keys, block); });
            each([&](int64_t j, int64_t keys, BlockState& block) INLINE_LAMBDA { add_values(j, keys, block.rescale); });
        }
        if (MATRIX_UNIT && rows > 1) store_sums();
    }

    NOINLINE void classify(int64_t j, int64_t keys, BlockState& block) const {
        block.any = NO_PAIR;
        for (int64_t r = 0; r < rows; r++)
            block.any = std::max(block.any, block.visibility[r] = classify_block(p, item(r), query(r), 1, j, keys));
    }
    NOINLINE void make_weights(int64_t j, int64_t keys, BlockState& block) {
        for (int64_t r = 0; r < rows; r++) block.rescale[r] = row_weights(r, j, keys, block.visibility[r]);
        add_totals(padded_keys(keys), block.rescale);
        if (PAIRS) pair_weights();
    }

    const char* row_of(const Matrices& x, int64_t j) const {
        return reinterpret_cast<const char*>(x.at(first_item)) + j * x.row;
    }
    NOINLINE void scores(int64_t j, int64_t keys, int64_t end) {
        keys_prefetcher = row_prefetcher(p.keys, first_item, j, p.d, p.keys_type);
        // as many as are transposed at a time
        const int64_t distance = std::max<int64_t>(16, BYTES / (PAIRS ? 4 : size_of(p.keys_type)));
        keys_reader = {row_of(p.keys, j + distance), row_of(p.keys, end) - 1};
#if defined(__AMX_BF16__)
        if (rows > 1) return scores_amx(j, keys);
        FlushSubnormals flush_mode;
#endif
        if (score_of(p) != PRODUCTS) {
            Block<T> block = rows_of<T>(p.keys, p.keys_type, first_item, j, keys, p.d, keys_buffer);
            prepare_features<T>(p, right, block, 0, keys);
            return score_pairs<T>(p, parameters, left, rows, right, 0, keys, score_block, 1, K);
        }
        const char* at = row_of(p.keys, j);
        if constexpr (WIDENS && sizeof(T) == 4) {
            if (p.keys_type == FLOAT16) return products<Half<FLOAT16>>(at, p.keys.row, keys);
            if (p.keys_type == BFLOAT16) return products<Half<BFLOAT16>>(at, p.keys.row, keys);
        }
        Block<T> plain = rows_of<T>(p.keys, p.keys_type, first_item, j, keys, p.d, keys_buffer);
        products<InPlace<T>>(reinterpret_cast<const char*>(plain.at), plain.stride * int64_t(sizeof(T)), keys);
    }

    template <class S>
    inline void products(const char* at, int64_t row, int64_t keys);

    template <class S, int R, int M>
    inline void products_in_registers(const char* at, int64_t row, int64_t keys);

    template <class S, int R, int M>
    inline void multiply(const char* from, int64_t row, int64_t first, int64_t c);

    template <class S, int R, int NV>
    inline void products_in_memory(const char* at, int64_t row, int64_t keys);

    static int64_t padded_keys(int64_t keys) {  // including padding lanes
        constexpr int64_t step = std::max(L<T>, 4);
        return (keys + step - 1) / step * step;
    }

    // Turn the scores of a row into weights. Returns the rescale factor of its context.
    T row_weights(int64_t r, int64_t j, int64_t keys, Visibility visibility) {
        T* at = score_block + r * K;
        const int64_t stop = padded_keys(keys);
        finish_logits(r, j, keys, visibility);
        if (excludes_nonfinite) record_taints(r, j, keys);
        V<T> largest_score = broadcast(partial[r].maximum());
        for (int64_t c = 0; c < stop; c += L<T>) largest_score = larger(largest_score, load(at + c));
        const T maximum = largest<T>(largest_score);
        T base = maximum == -INF<T> ? T(0) : maximum, rescale = exp2<T>(partial[r].maximum() - base);
        int64_t c = 0;
        for (; c < stop; c += L<T>) store(at + c, exp2<T>(load(at + c) - base));
        if (MATRIX_UNIT)
            for (; c < K; c += L<T>) store(at + c, V<T>{});  // the matrix unit takes DOT_STEP keys at a time
        partial[r].maximum() = maximum;
        return rescale;
    }

    // Update the running sums, each from four sums by the key's index modulo 4. Four rows at a time, so that no chain
    // of additions stalls.
    NOINLINE void add_totals(int64_t stop, const T* rescale) {
        for (int64_t r = 0; r < rows; r += 4) {
            Four sums[4] = {};
            for (int64_t c = 0; c < stop; c += 4)
                UNROLL for (int u = 0; u < 4; u++) sums[u] +=
                    *reinterpret_cast<const Four*>(score_block + (r + u) * K + c);
            for (int u = 0; u < 4 && r + u < rows; u++) {
                T& total = partial[r + u].total();
                total = fma1(total, rescale[r + u], (sums[u][0] + sums[u][1]) + (sums[u][2] + sums[u][3]));
            }
        }
    }

    COLD void finish_logits(int64_t r, int64_t j, int64_t keys, Visibility visibility) {
        T* at = score_block + r * K;
        const int64_t stop = padded_keys(keys);
        BlockMask mask;
        if (visibility != NO_PAIR) visibility = evaluate_mask(p, item(r), query(r), 1, j, keys, mask);
        if (visibility == ALL_PAIRS && mask.last - mask.first == keys && !p.bias && scale.cap == 0) {
            if (score_scale[r] != 1)
                for (int64_t c = 0; c < stop; c += L<T>) store(at + c, load(at + c) * score_scale[r]);
            for (int64_t c = keys; c < stop; c++) at[c] = -INF<T>;
            return;
        }
        uint64_t bits[K / 64 + 1] = {};
        if (visibility != NO_PAIR)
            for (int64_t c = mask.first; c < mask.last; c++)
                bits[c / 64] |= uint64_t(visibility == ALL_PAIRS || mask.words[c]) << (c % 64);
        if (p.bias) {
            BiasView b = bias_view<T>(p, item(r));
            const char* start = b.start + query(r) * b.row + j * b.column;
            for (int64_t c = 0; c < stop; c++) bias[c] = c < keys ? bias_value<T>(p, start + c * b.column) : T(0);
        }
        for (int64_t c = 0; c < stop; c += L<T>) {
            V<T> x = load(at + c) * score_scale[r];
            if (scale.cap != 0) x = tanh<T>(x) * scale.cap;
            if (p.bias) x = add_bias<T>(x, load(bias + c));
            store(at + c, apply_mask<T>(bits[c / 64] >> (c % 64), x));
        }
    }

    void pair_weights() {
#if defined(__AMX_BF16__)
        if (rows == 1)
            for (int64_t c = 0; c < K; c += L<T>)  // rounded, but not paired
                store(score_block + c, widened<BFLOAT16>((__m256i)_mm512_cvtneps_pbh((__m512)load(score_block + c))));
        else
#endif
#if defined(__AVX512BF16__)
            for (int64_t c = 0; c < rows * K; c += L<T>)  // in place, since pairs are smaller
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(score_block + c / K * K + c % K / 2),
                                    (__m256i)_mm512_cvtneps_pbh((__m512)load(score_block + c)));
#endif
    }

    // Record the non-finite values of visible keys.
    COLD void record_taints(int64_t r, int64_t j, int64_t keys) {
        for (int64_t b = 0; b < keys; b += VALUE_BATCH) {
            const int64_t count = std::min(VALUE_BATCH, keys - b);
            const T* logits = score_block + r * K + b;
            auto record = [&](int64_t c, int64_t f, uint8_t taint) {
                if (!taint || logits[c] == -INF<T>) return;
                T& taints = partial[r].taints()[f];
                taints = T(uint8_t(taints) | taint), partial[r].tainted() = 1;
            };
#if defined(__AVX512BF16__)
            const int64_t width = width_of<T>(p.e);
            pair_rows(p.values, first_item, j + b, count, p.e, values_buffer, width);
            remove_nonfinite<false>(values_buffer, width, p.e, count, record);
#else
            Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j + b, count, p.e, values_buffer);
            for (int64_t c = 0; c < count; c++)
                for (int64_t f = 0; f < p.e; f++) record(c, f, taint_of(values.at[c * values.stride + f]));
#endif
        }
    }

    // Add the weighted values, from their storage type if possible, otherwise converted in batches.
    NOINLINE void add_values(int64_t j, int64_t keys, T* rescale) {
        // Where the hardware prefetcher handles the values, the software prefetch goes to the next keys again, since
        // some of the earlier prefetches appear to be dropped.
        const bool read_once = rows <= 4 && p.e <= 8 * L<T> && p.values_type == p.compute;
        values_prefetcher = read_once && hardware_prefetches(p.values, p.e, p.values_type)
                                ? at_half_rate(row_prefetcher(p.keys, first_item, j, p.d, p.keys_type))
                                : row_prefetcher(p.values, first_item, j, p.e, p.values_type);
#if defined(__AMX_BF16__)
        if (rows > 1) return add_values_amx(j, keys, rescale);
        FlushSubnormals flush_mode;
        for (int64_t c = 0; c < keys; c += DOT_STEP) {
            const int64_t count = std::min(DOT_STEP, keys - c);
            const ByteRows values =
                excludes_nonfinite ? finite_rows(j + c, count) : ByteRows{row_of(p.values, j + c), p.values.row};
            add_values_vector<8>(values, c, count, *rescale, 0);
            *rescale = 1;
        }
#else
        const int64_t width = width_of<T>(p.e);
        memset(block_sums, 0, rows * width * sizeof(T));
        sum_values(j, keys);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < width; c += L<T>) {
                T* at = partial[r].context() + c;
                store(at, fma(load(at), broadcast(rescale[r]), load(block_sums + r * width + c)));
            }
#endif
    }

#if !defined(__AMX_BF16__)
    NOINLINE inline void sum_values(int64_t j, int64_t keys);
#endif

#if defined(__AMX_BF16__)
    inline void scores_amx(int64_t j, int64_t keys);

    template <int NV>
    inline void add_values_vector(ByteRows values, int64_t first, int64_t keys, T rescale, int64_t f);
    static uint16_t half(ByteRows x, int64_t k, int64_t f) {
        uint16_t value;
        memcpy(&value, x.at + k * x.row + 2 * f, 2);
        return value;
    }
    COLD inline ByteRows finite_rows(int64_t j, int64_t keys);

    inline void add_values_amx(int64_t j, int64_t keys, const T* rescale);
    inline void pair_values(int64_t j, int64_t count);
    INLINE __m512i finite_halves(__m512i x) const;
    inline void store_sums();
#else
    void store_sums() {}
#endif

    COLD inline Block<T> finite_values(int64_t j, int64_t keys);

    template <class S>
    inline void accumulate_values(const char* values, int64_t row, int64_t first, int64_t keys);

    template <class S, int R, int M>
    NOINLINE inline int64_t add_row_wise(const char* values, int64_t row, int64_t first, int64_t keys, int64_t r);

    template <class S>
    COLD inline void add_tail(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c);
    T* sums_of(int64_t r) const { return r < rows ? block_sums + r * width_of<T>(p.e) : zeros; }
    static T to_compute_type(T x, int32_t) { return x; }
    static T to_compute_type(uint16_t x, int32_t type) {
        return type == FLOAT16 ? widen_float16(x) : widen_bfloat16(x);
    }

    template <class S, int R, int NV, int PART>
    INLINE void accumulate(V<T> (&sums)[R][NV], const T* a, int64_t lda, int64_t depth, const char* from, int64_t row,
                           RowPrefetcher& shared_prefetcher);

    template <class S, int R, int NV>
    inline int64_t add_columns(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c);
};

}  // namespace ISA
}  // namespace regard
