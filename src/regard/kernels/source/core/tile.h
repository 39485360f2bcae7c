// Forward pass for tiles of NV vectors of queries.
#pragma once

#include "core/score_block.h"

#include <new>

namespace regard {
namespace ISA {

// The online softmax: running maximum, running sum of exp2(logit - maximum), and the context [value][query] before
// normalisation.
template <class T, int NV>
struct Running {
    V<T> maximum[NV], total[NV];
    T* context;
};

template <class T>
INLINE V<T> exp_base(V<T> maximum) {  // the reference of exponentials; finite even if the maximum is -inf
    return maximum == -INF<T> ? V<T>{} : maximum;
}

// Merge the softmax over other keys into x.
template <class T, int NV>
NOINLINE void merge(Running<T, NV>& x, const Running<T, NV>& y, int64_t e) {
    constexpr int64_t width = NV * L<T>;
    V<T> a[NV], b[NV];
    UNROLL for (int v = 0; v < NV; v++) {
        V<T> maximum = larger(x.maximum[v], y.maximum[v]), base = exp_base<T>(maximum);
        a[v] = exp2<T>(x.maximum[v] - base), b[v] = exp2<T>(y.maximum[v] - base);
        x.total[v] = fma(x.total[v], a[v], y.total[v] * b[v]);
        x.maximum[v] = maximum;
    }
    for (int64_t c = 0; c < e; c++) UNROLL for (int v = 0; v < NV; v++) {
            T* at = x.context + c * width + v * L<T>;
            store(at, fma(load(at), a[v], load(y.context + c * width + v * L<T>) * b[v]));
        }
}

// Which non-finite values are visible to a query. They are kept out of the sums, because 0 * inf is NaN and would reach queries
// that do not see the key, and added to the context at the end.
enum Taint : uint8_t { PLUS_INF = 1, MINUS_INF = 2, NOT_A_NUMBER = 4 };

// One NaN for all results: which operand's NaN an operation returns is the compiler's choice and differs between tile
// widths.
template <class T>
INLINE V<T> canonical_nan(V<T> x) {
    return x == x ? x : broadcast(std::numeric_limits<T>::quiet_NaN());
}

// Divide vectors that are `step` apart; only so many first lanes are needed, and few are divided in less time.
template <class T>
NOINLINE void divide(T* at, int64_t step, int64_t count, V<T> divisor, int64_t lanes) {
    typedef T Few __attribute__((vector_size(16)));
    if (BYTES == 16 || lanes > L<T> / 2) {
        for (int64_t c = 0; c < count * step; c += step) store(at + c, canonical_nan<T>(load(at + c) / divisor));
        return;
    }
    T divisors[L<T>];
    store(divisors, divisor);
    for (int64_t r = 0; r < lanes; r += 16 / sizeof(T))
        for (int64_t c = r; c < count * step; c += step) {
            Few x, y;
            memcpy(&x, at + c, 16), memcpy(&y, divisors + r, 16);
            x /= y, x = x == x ? x : std::numeric_limits<T>::quiet_NaN() - Few{};
            memcpy(at + c, &x, 16);
        }
}
template <class T>
INLINE uint8_t taint_of(T x) {
    return std::isfinite(x) ? 0 : std::isnan(x) ? NOT_A_NUMBER : x > 0 ? PLUS_INF : MINUS_INF;
}
template <class T>
INLINE T tainted(T context, uint8_t taint) {
    if (taint & NOT_A_NUMBER || (taint & PLUS_INF && taint & MINUS_INF)) return std::numeric_limits<T>::quiet_NaN();
    return taint & PLUS_INF ? context + INF<T> : taint & MINUS_INF ? context - INF<T> : context;
}

// Replace non-finite values by 0 in pairs of values [pair][value], or [value][pair] if TRANSPOSED, and call record(key,
// value, taint) for each.
template <bool TRANSPOSED, class T, class F>
void remove_nonfinite(T* pairs, int64_t width, int64_t e, int64_t keys, F&& record) {
    auto* halves = reinterpret_cast<uint16_t*>(pairs);
    for (int64_t c = 0; c < keys; c++)
        for (int64_t f = 0; f < e; f++) {
            uint16_t& half = halves[TRANSPOSED ? 2 * f * width + c : 2 * (c / 2 * width + f) + c % 2];
            if (uint8_t taint = taint_of(widen_bfloat16(half))) {
                record(c, f, taint);
                half = 0;
            }
        }
}

template <class T, int NV>
class Tile : ScoreBlock<T, NV> {
    using ScoreBlock<T, NV>::W, ScoreBlock<T, NV>::p, ScoreBlock<T, NV>::item, ScoreBlock<T, NV>::i,
        ScoreBlock<T, NV>::rows;
    using ScoreBlock<T, NV>::score_block, ScoreBlock<T, NV>::workspace;
    Running<T, NV> running, chunk;  // over all keys so far; over the current chunk
    uint8_t* taints;
    bool chunk_visible;  // whether a key of this chunk is visible to any query
    bool excludes_nonfinite = false;  // whether non-finite values are kept out of the sums and recorded in `taints`

   public:
    Tile(Workspace<T>& workspace, int64_t i, int64_t rows) : ScoreBlock<T, NV>(workspace, i, rows) {
        running.context = workspace.arena.template allocate<T>(context_rows() * W);
        chunk.context = workspace.arena.template allocate<T>(chunks() ? context_rows() * W : 0);
        taints = workspace.arena.template allocate<uint8_t>(p.e * W);
    }

    // Keys arrive in order: by chunks, and within a chunk by blocks.
    void begin() {
        clear(running);
        if (p.from_key) resume();
    }
    void begin_chunk(int64_t first, int64_t last) {
        chunk_visible = !chunks() || classify_block(p, item, i, rows, first, last - first) != NO_PAIR;
        if (chunks() && chunk_visible) clear(chunk);
    }
    NOINLINE void add_block(int64_t j, int64_t keys) {
        if (!chunk_visible) return;
        BlockMask mask;
        Visibility visibility = evaluate_mask(p, item, i, rows, j, keys, mask);
        if (visibility != NO_PAIR) update(chunks() ? chunk : running, j, visibility, mask);
    }
    void end_chunk() {
        if (chunks() && chunk_visible) merge<T, NV>(running, chunk, p.e);
    }

    // Whether the pass has to be repeated without non-finite values, which also reach queries that do not see them.
    NOINLINE bool needs_second_pass() {
        I<T> witness{};  // bits, since a chain of sums would take longer
        for (int64_t c = 0; c < p.e * W; c += W)
            UNROLL for (int v = 0; v < NV; v++) witness |= (I<T>)(load(running.context + c + v * L<T>) * T(0));
        const auto sums = (V<T>)witness;
        for (int c = 0; c < L<T>; c++) excludes_nonfinite |= !(sums[c] == 0);
        if (excludes_nonfinite) memset(taints, 0, p.e * W);
        return excludes_nonfinite;
    }

    NOINLINE void write() {
        if (p.to_key < p.m) return suspend();
        const Running<T, NV>& x = running;
        T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, total[W], maximum[W];
        UNROLL for (int v = 0; v < NV; v++) {
            store(total + v * L<T>, canonical_nan<T>(x.total[v])),
                store(maximum + v * L<T>, canonical_nan<T>(exp_base<T>(x.maximum[v])));
            divide<T>(x.context + v * L<T>, W, p.e, x.total[v] == 0 ? broadcast(T(1)) : x.total[v], rows - v * L<T>);
        }
        store_transposed<T>(x.context, W, rows, p.e, out, p.e);
        if (excludes_nonfinite)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t f = 0; f < p.e; f++) out[r * p.e + f] = tainted(out[r * p.e + f], taints[f * W + r]);
        else if (p.from_key)
            for (int64_t c = 0; c < rows * p.e; c++) out[c] = tainted(out[c], saved_taints()[c]);
        if (!p.statistic) return;
        T* statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
        for (int64_t r = 0; r < rows; r++)
            statistic[r] = maximum[r], statistic[p.n + r] = T(std::log2(double(total[r])));
    }

   private:
    bool chunks() const { return p.m > CHUNK; }
    uint8_t* saved_taints() const { return p.taints + (item * p.n + i) * p.e; }

    // Load the state that the previous call saved.
    COLD void resume() {
        T maximum[W] = {}, total[W] = {};
        const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
        transpose_rows<T>(static_cast<const T*>(p.context) + (item * p.n + i) * p.e, p.e, rows, p.e, running.context, W,
                          W);
        for (int64_t r = 0; r < rows; r++) maximum[r] = statistic[r], total[r] = statistic[p.n + r];
        UNROLL for (int v = 0; v < NV; v++) running.maximum[v] = load(maximum + v * L<T>),
                                            running.total[v] = load(total + v * L<T>);
        for (int64_t c = 0; c < rows * p.e && excludes_nonfinite; c++)
            taints[c % p.e * W + c / p.e] = saved_taints()[c];
    }
    // Save the state for the next call.
    COLD void suspend() {
        T maximum[W], total[W], *statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
        store_transposed<T>(running.context, W, rows, p.e, static_cast<T*>(p.context) + (item * p.n + i) * p.e, p.e);
        UNROLL for (int v = 0; v < NV; v++) store(maximum + v * L<T>, running.maximum[v]),
            store(total + v * L<T>, running.total[v]);
        for (int64_t r = 0; r < rows; r++) statistic[r] = maximum[r], statistic[p.n + r] = total[r];
        for (int64_t c = 0; c < rows * p.e && excludes_nonfinite; c++)
            saved_taints()[c] = taints[c % p.e * W + c / p.e];
    }
    int64_t context_rows() const { return MATRIX_UNIT ? round_up(TILE_SIDE, p.e) : p.e; }

    void clear(Running<T, NV>& x) {
        UNROLL for (int v = 0; v < NV; v++) x.maximum[v] = broadcast(-INF<T>), x.total[v] = V<T>{};
        memset(x.context, 0, context_rows() * W * sizeof(T));
    }

    NOINLINE void update(Running<T, NV>& x, int64_t j, Visibility visibility, const BlockMask& mask) {
        const int64_t first = mask.first, last = mask.last;
        V<T> maximum[NV], base[NV], rescale[NV];
        UNROLL for (int v = 0; v < NV; v++) maximum[v] = x.maximum[v];
        this->logits(j, visibility, mask, maximum);
        UNROLL for (int v = 0; v < NV; v++) {
            base[v] = exp_base<T>(maximum[v]);
            rescale[v] = exp2<T>(x.maximum[v] - base[v]);
            x.maximum[v] = maximum[v];
        }
        if (MATRIX_UNIT) rescale_context(x.context, rescale);
        const Block<T> values = excludes_nonfinite ? finite_values(j, first, last) : workspace.values(j);
        make_weights(x, first, last, base, rescale);
        // Pairs start at a multiple of the keys whose weights are computed together.
        const int64_t start = PAIRS ? (first & -WEIGHT_STEP) / 2 : first;
        const int64_t stop = MATRIX_UNIT ? round_up(DOT_STEP, last) / 2 : elements(last);
#if defined(__AMX_BF16__)
        for_steps<2>(0, round_up(TILE_SIDE, p.e) / TILE_SIDE, [&](auto size, int64_t index) {
            const int64_t c = index * TILE_SIDE;
            amx_multiply<decltype(size)::value, W>(x.context + c * W, W,
                                                   byte_rows(values.at + c * values.stride + start, values.stride),
                                                   byte_rows(score_block + start * W, W), 2 * (stop - start), true);
        });
#else
        for_steps<ROWS>(0, p.e, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            // of this block alone: in one long sum, rounding errors could accumulate with one sign
            V<T> sums[R][NV] = {};
            T* context = x.context + c * W;
            product<T, R, NV, false>(sums, values.at + start * values.stride + c, values.stride,
                                     score_block + start * W, W, stop - start, workspace.values_prefetcher);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < NV; v++) {
                T* at = context + r * W + v * L<T>;
                store(at, fma(load(at), rescale[v], sums[r][v]));
            }
        });
#endif
    }

    void rescale_context(T* context, const V<T> (&rescale)[NV]) {
        V<T> change{};
        UNROLL for (int v = 0; v < NV; v++) change += rescale[v] - T(1);
        if (largest<T>(-change) == 0) return;  // no factor is above 1
        for (int64_t c = 0; c < p.e * W; c += W)
            UNROLL for (int v = 0; v < NV; v++)
                store(context + c + v * L<T>, load(context + c + v * L<T>) * rescale[v]);
    }

    // Replace logits by unnormalised weights and update the running sum. It is accumulated in four sums by the key's
    // index modulo 4, the order that decode uses too. For bfloat16, weights of two keys are packed into a pair at the
    // front.
    static constexpr int64_t WEIGHT_STEP = MATRIX_UNIT ? DOT_STEP : 4;
    void make_weights(Running<T, NV>& x, int64_t first, int64_t last, const V<T> (&base)[NV],
                      const V<T> (&rescale)[NV]) {
        static_assert(KEY_BLOCK % WEIGHT_STEP == 0, "so many keys at a time");
        const int64_t start = first & -WEIGHT_STEP, stop = round_up(WEIGHT_STEP, last);
        T* const logits = score_block;
        std::fill(logits + start * W, logits + first * W, -INF<T>);  // so that the loop needs no tail
        std::fill(logits + last * W, logits + stop * W, -INF<T>);
        V<T> sums[4][NV] = {};
        for (int64_t c = start; c < stop; c += 4) {
            V<T> weights[4][NV];
            UNROLL for (int u = 0; u < 4; u++) UNROLL for (int v = 0; v < NV; v++) {
                T* at = logits + (c + u) * W + v * L<T>;
                weights[u][v] = exp2<T>(load(at) - base[v]);
                sums[u][v] += weights[u][v];
                if (!PAIRS) store(at, weights[u][v]);
#if defined(__AVX512BF16__)
                if (u % 2) store(logits + (c + u) / 2 * W + v * L<T>, pair(weights[u - 1][v], weights[u][v]));
#endif
            }
        }
        UNROLL for (int v = 0; v < NV; v++) x.total[v] =
            fma(x.total[v], rescale[v], (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]));
    }

    // Copy the values with 0 for non-finite ones, which are recorded for the queries that see them. Products may read
    // keys outside of `first` to `last` - 1.
    COLD Block<T> finite_values(int64_t j, int64_t first, int64_t last) {
        workspace.invalidate();
        T* buffer = workspace.values_buffer;
        auto record = [&](int64_t c, int64_t f, uint8_t taint) {
            for (int64_t r = 0; r < rows && c >= first && c < last; r++)
                if (!(score_block[c * W + r] == -INF<T>)) taints[f * W + r] |= taint;
        };
#if defined(__AVX512BF16__)
        const Block<T> values = workspace.values(j);
        remove_nonfinite<MATRIX_UNIT>(buffer, values.stride, p.e, std::min<int64_t>(KEY_BLOCK, p.m - j), record);
        workspace.invalidate();
        return values;
#else
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, buffer);
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.e; f++) {
                T x = values.at[c * values.stride + f];
                uint8_t taint = taint_of(x);
                buffer[c * p.e + f] = taint ? T(0) : x;
                if (taint) record(c, f, taint);
            }
        return {buffer, p.e};
#endif
    }
};

template <class T, int NV>
NOINLINE void process_keys(const Problem& p, Workspace<T>& workspace, Tile<T, NV>* first, Tile<T, NV>* end) {
    auto each = [&](auto&& f) INLINE_LAMBDA {
        for (Tile<T, NV>* tile = first; tile < end; tile++) f(*tile);
    };
    each([](auto& x) { x.begin(); });
    const int64_t keys = std::min(p.to_key, visible_end(p, workspace.item, workspace.i, workspace.stop - workspace.i));
    for (int64_t j = p.from_key; j < keys; j += CHUNK) {
        const int64_t last = std::min(j + CHUNK, keys);
        each([&](auto& x) { x.begin_chunk(j, last); });
        for (int64_t b = j; b < last; b += KEY_BLOCK) {
            if (stopped(p.stop)) return;
            if (PREFETCHES) workspace.prefetch_next_block(b, b + KEY_BLOCK >= keys);
            each([&](auto& x) { x.add_block(b, std::min<int64_t>(KEY_BLOCK, last - b)); });
        }
        each([](auto& x) { x.end_chunk(); });
    }
}

// Compute all tiles of NV vectors for the queries from i to stop - 1. All tiles process a block of keys before the next
// block, so that it is converted once and stays in the cache.
template <class T, int NV>
void attend(const Problem& p, int64_t item, int64_t i, int64_t stop, Arena arena) {
    constexpr int64_t W = NV * L<T>;
    const int64_t count = (stop - i + W - 1) / W;
    Tile<T, NV>* const tiles = arena.allocate<Tile<T, NV>>(count);
    Workspace<T> workspace(p, item, W, arena, i, stop);
    for (int64_t t = 0; t < count; t++)
        new (tiles + t) Tile<T, NV>(workspace, i + t * W, std::min(W, stop - i - t * W));
    TileConfig config;
    process_keys(p, workspace, tiles, tiles + count);
    for (Tile<T, NV>* tile = tiles; tile < tiles + count; tile++) {
        if (tile->needs_second_pass()) process_keys(p, workspace, tile, tile + 1);
        tile->write();
    }
}

}  // namespace ISA
}  // namespace regard
