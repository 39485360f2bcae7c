// Forward, for tiles of NV vectors of queries.
#pragma once

#include "core/score_block.h"

#include <new>

namespace regard {
namespace ISA {

// The softmax so far: largest logit, sum of exp2(logit - largest), and the sums of the values [value][query].
template <class T, int NV>
struct Running {
    V<T> top[NV], total[NV];
    T* context;
};

template <class T>
INLINE V<T> countable(V<T> top) {  // what logits are counted from: no -inf
    return top == -INF<T> ? V<T>{} : top;
}

// Take in what was found in other keys.
template <class T, int NV>
ONCE void absorb(Running<T, NV>& x, const Running<T, NV>& y, int64_t e) {
    constexpr int64_t width = NV * L<T>;
    V<T> a[NV], b[NV];
    UNROLL for (int v = 0; v < NV; v++) {
        V<T> top = larger(x.top[v], y.top[v]), from = countable<T>(top);
        a[v] = exp2<T>(x.top[v] - from), b[v] = exp2<T>(y.top[v] - from);
        x.total[v] = fma(x.total[v], a[v], y.total[v] * b[v]);
        x.top[v] = top;
    }
    for (int64_t c = 0; c < e; c++)
        UNROLL for (int v = 0; v < NV; v++) {
            T* at = x.context + c * width + v * L<T>;
            store(at, fma(load(at), a[v], load(y.context + c * width + v * L<T>) * b[v]));
        }
}

// Values +inf, -inf and NaN that each query sees: so that no others reach its context.
enum Taint : uint8_t { PLUS = 1, MINUS = 2, LOST = 4 };

// The same NaN for all: whose sign it has of two operands' is the compiler's choice, and another one for each width of a tile.
template <class T>
INLINE V<T> one_nan(V<T> x) {
    return x == x ? x : all(std::numeric_limits<T>::quiet_NaN());
}
template <class T>
INLINE uint8_t taint_of(T x) {
    return std::isfinite(x) ? 0 : std::isnan(x) ? LOST : x > 0 ? PLUS : MINUS;
}
template <class T>
INLINE T tainted(T context, uint8_t taint) {
    if (taint & LOST || (taint & PLUS && taint & MINUS)) return std::numeric_limits<T>::quiet_NaN();
    return taint & PLUS ? context + INF<T> : taint & MINUS ? context - INF<T> : context;
}

// Put 0 in place of what is not finite in pairs of values [pair][value], or TURNED [value][pair], and tell of it.
template <bool TURNED, class T, class F>
void clean_pairs(T* pairs, int64_t width, int64_t e, int64_t keys, F&& tell) {
    auto* halves = reinterpret_cast<uint16_t*>(pairs);
    for (int64_t c = 0; c < keys; c++)
        for (int64_t f = 0; f < e; f++) {
            uint16_t& half = halves[TURNED ? 2 * f * width + c : 2 * (c / 2 * width + f) + c % 2];
            if (uint8_t taint = taint_of(widen_bfloat16(half))) {
                tell(c, f, taint);
                half = 0;
            }
        }
}

template <class T, int NV>
class Tile : ScoreBlock<T, NV> {
    using ScoreBlock<T, NV>::W, ScoreBlock<T, NV>::p, ScoreBlock<T, NV>::item, ScoreBlock<T, NV>::i, ScoreBlock<T, NV>::rows;
    using ScoreBlock<T, NV>::strip, ScoreBlock<T, NV>::workspace;
    Running<T, NV> whole, part;  // of all keys so far, and of a chunk
    uint8_t* taints;
    bool sees;           // anybody of this chunk
    bool clean = false;  // whether values that are not finite are taken out and counted

   public:
    Tile(Workspace<T>& workspace, int64_t i, int64_t rows) : ScoreBlock<T, NV>(workspace, i, rows) {
        whole.context = workspace.room.template take<T>(rows_of_context() * W);
        part.context = workspace.room.template take<T>(chunks() ? rows_of_context() * W : 0);
        taints = workspace.room.template take<uint8_t>(p.e * W);
    }

    // The keys come in order, by chunks, and in them by blocks.
    void begin() {
        clear(whole);
        if (p.from_key) resume();
    }
    void begin_chunk(int64_t first, int64_t last) {
        sees = !chunks() || guess(p, item, i, rows, first, last - first) != NOBODY;
        if (chunks() && sees) clear(part);
    }
    ONCE void take(int64_t j, int64_t keys) {
        if (!sees) return;
        Visibility visibility;
        Seen seen = look(p, item, i, rows, j, keys, visibility);
        if (seen != NOBODY) block(chunks() ? part : whole, j, seen, visibility);
    }
    void end_chunk() {
        if (chunks() && sees) absorb<T, NV>(whole, part, p.e);
    }

    // Whether all has to be done once more, so that nothing unseen reaches anybody.
    ONCE bool must_clean() {
        V<T> witness{};
        for (int64_t c = 0; c < p.e * W; c += W)
            UNROLL for (int v = 0; v < NV; v++) witness += load(whole.context + c + v * L<T>) * T(0);
        for (int c = 0; c < L<T>; c++) clean |= !(witness[c] == 0);
        if (clean) memset(taints, 0, p.e * W);
        return clean;
    }

    ONCE void write() {
        if (p.to_key < p.m) return suspend();
        const Running<T, NV>& x = whole;
        T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, total[W], top[W];
        UNROLL for (int v = 0; v < NV; v++) {
            store(total + v * L<T>, one_nan<T>(x.total[v])), store(top + v * L<T>, one_nan<T>(countable<T>(x.top[v])));
            V<T> divisor = x.total[v] == 0 ? all(T(1)) : x.total[v];
            for (int64_t c = v * L<T>; c < p.e * W; c += W) store(x.context + c, one_nan<T>(load(x.context + c) / divisor));
        }
        turn_back<T>(x.context, W, rows, p.e, out, p.e);
        if (clean)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t f = 0; f < p.e; f++) out[r * p.e + f] = tainted(out[r * p.e + f], taints[f * W + r]);
        else if (p.from_key)
            for (int64_t c = 0; c < rows * p.e; c++) out[c] = tainted(out[c], taints_kept()[c]);
        if (!p.statistic) return;
        T* statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
        for (int64_t r = 0; r < rows; r++)
            statistic[r] = top[r], statistic[p.n + r] = T(std::log2(double(total[r])));
    }

   private:
    bool chunks() const { return p.m > CHUNK; }
    uint8_t* taints_kept() const { return p.taints + (item * p.n + i) * p.e; }

    // What the calls before found in their keys.
    COLD void resume() {
        T top[W] = {}, total[W] = {};
        const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
        turn_rows<T>(static_cast<const T*>(p.context) + (item * p.n + i) * p.e, p.e, rows, p.e, whole.context, W, W);
        for (int64_t r = 0; r < rows; r++) top[r] = statistic[r], total[r] = statistic[p.n + r];
        UNROLL for (int v = 0; v < NV; v++) whole.top[v] = load(top + v * L<T>), whole.total[v] = load(total + v * L<T>);
        for (int64_t c = 0; c < rows * p.e && clean; c++) taints[c % p.e * W + c / p.e] = taints_kept()[c];
    }
    // The same for the call to come.
    COLD void suspend() {
        T top[W], total[W], *statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
        turn_back<T>(whole.context, W, rows, p.e, static_cast<T*>(p.context) + (item * p.n + i) * p.e, p.e);
        UNROLL for (int v = 0; v < NV; v++) store(top + v * L<T>, whole.top[v]), store(total + v * L<T>, whole.total[v]);
        for (int64_t r = 0; r < rows; r++) statistic[r] = top[r], statistic[p.n + r] = total[r];
        for (int64_t c = 0; c < rows * p.e && clean; c++) taints_kept()[c] = taints[c % p.e * W + c / p.e];
    }
    int64_t rows_of_context() const { return UNIT ? up_to(SIDE, p.e) : p.e; }

    void clear(Running<T, NV>& x) {
        UNROLL for (int v = 0; v < NV; v++) x.top[v] = all(-INF<T>), x.total[v] = V<T>{};
        memset(x.context, 0, rows_of_context() * W * sizeof(T));
    }

    ONCE void block(Running<T, NV>& x, int64_t j, Seen seen, const Visibility& visibility) {
        const int64_t first = visibility.first, last = visibility.last;
        V<T> top[NV], from[NV], faded[NV];
        UNROLL for (int v = 0; v < NV; v++) top[v] = x.top[v];
        this->logits(j, seen, visibility, top);
        UNROLL for (int v = 0; v < NV; v++) {
            from[v] = countable<T>(top[v]);
            faded[v] = exp2<T>(x.top[v] - from[v]);
            x.top[v] = top[v];
        }
        if (UNIT) fade(x.context, faded);
        const Block<T> values = clean ? clean_values(j, first, last) : workspace.values(j);
        weigh(x, first, last, from, faded);
        // Pairs begin with those of weights that have been taken together.
        const int64_t start = PAIRS ? (first & -TOGETHER) / 2 : first;
        const int64_t stop = UNIT ? up_to(SUMMED, last) / 2 : numbers(last);
#if defined(__AMX_BF16__)
        in_steps<2>(0, up_to(SIDE, p.e) / SIDE, [&](auto size, int64_t number) {
            const int64_t c = number * SIDE;
            multiply_unit<decltype(size)::value, W>(x.context + c * W, W,
                                                    bytes_of(values.at + c * values.stride + start, values.stride),
                                                    bytes_of(strip + start * W, W), 2 * (stop - start), true);
        });
#else
        in_steps<ROWS>(0, p.e, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};  // of this block alone: rounding errors of long sums could add up in one direction
            T* context = x.context + c * W;
            product<T, R, NV, false>(sums, values.at + start * values.stride + c, values.stride, strip + start * W, W,
                                     stop - start, workspace.values_ahead);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) {
                    T* at = context + r * W + v * L<T>;
                    store(at, fma(load(at), faded[v], sums[r][v]));
                }
        });
#endif
    }

    void fade(T* context, const V<T> (&faded)[NV]) {
        V<T> change{};
        UNROLL for (int v = 0; v < NV; v++) change += faded[v] - T(1);
        if (largest<T>(-change) == 0) return;  // none is above 1
        for (int64_t c = 0; c < p.e * W; c += W)
            UNROLL for (int v = 0; v < NV; v++) store(context + c + v * L<T>, load(context + c + v * L<T>) * faded[v]);
    }

    // Turn logits into weights, unnormalised, and add up their sum: four sums, by the key's number modulo 4. Where pairs
    // are multiplied, weights of two keys each become one, and move to the front.
    static constexpr int64_t TOGETHER = UNIT ? SUMMED : 4;
    void weigh(Running<T, NV>& x, int64_t first, int64_t last, const V<T> (&from)[NV], const V<T> (&faded)[NV]) {
        static_assert(KEYS_AT_ONCE % TOGETHER == 0, "so many keys at a time");
        const int64_t start = first & -TOGETHER, stop = up_to(TOGETHER, last);
        T* const logits = strip;
        std::fill(logits + start * W, logits + first * W, -INF<T>);  // so that so many at a time are no more than there are
        std::fill(logits + last * W, logits + stop * W, -INF<T>);
        V<T> sums[4][NV] = {};
        for (int64_t c = start; c < stop; c += 4) {
            V<T> weights[4][NV];
            UNROLL for (int u = 0; u < 4; u++)
                UNROLL for (int v = 0; v < NV; v++) {
                    T* at = logits + (c + u) * W + v * L<T>;
                    weights[u][v] = exp2<T>(load(at) - from[v]);
                    sums[u][v] += weights[u][v];
                    if (!PAIRS) store(at, weights[u][v]);
#if defined(__AVX512BF16__)
                    if (u % 2) store(logits + (c + u) / 2 * W + v * L<T>, pair(weights[u - 1][v], weights[u][v]));
#endif
                }
        }
        UNROLL for (int v = 0; v < NV; v++)
            x.total[v] = fma(x.total[v], faded[v], (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]));
    }

    // The values with 0 in place of what is not finite, which is counted for those who see it. Products may take more keys
    // at a time than are seen.
    COLD Block<T> clean_values(int64_t j, int64_t first, int64_t last) {
        workspace.forget();
        T* room = workspace.values_room;
        auto tell = [&](int64_t c, int64_t f, uint8_t taint) {
            for (int64_t r = 0; r < rows && c >= first && c < last; r++)
                if (!(strip[c * W + r] == -INF<T>)) taints[f * W + r] |= taint;
        };
#if defined(__AVX512BF16__)
        const Block<T> values = workspace.values(j);
        clean_pairs<UNIT>(room, values.stride, p.e, std::min<int64_t>(KEYS_AT_ONCE, p.m - j), tell);
        workspace.forget();
        return values;
#else
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, room);
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.e; f++) {
                T x = values.at[c * values.stride + f];
                uint8_t taint = taint_of(x);
                room[c * p.e + f] = taint ? T(0) : x;
                if (taint) tell(c, f, taint);
            }
        return {room, p.e};
#endif
    }
};

template <class T, int NV>
ONCE void walk(const Problem& p, Workspace<T>& workspace, Tile<T, NV>* first, Tile<T, NV>* end) {
    auto each = [&](auto&& f) INLINE_LAMBDA {
        for (Tile<T, NV>* tile = first; tile < end; tile++) f(*tile);
    };
    each([](auto& x) { x.begin(); });
    const int64_t keys = std::min(p.to_key, end_of_sight(p, workspace.item, workspace.i, workspace.stop - workspace.i));
    for (int64_t j = p.from_key; j < keys; j += CHUNK) {
        const int64_t last = std::min(j + CHUNK, keys);
        each([&](auto& x) { x.begin_chunk(j, last); });
        for (int64_t b = j; b < last; b += KEYS_AT_ONCE) {
            if (stopped(p.stop)) return;
            if (ASKS) workspace.look_ahead(b, b + KEYS_AT_ONCE >= keys);
            each([&](auto& x) { x.take(b, std::min<int64_t>(KEYS_AT_ONCE, last - b)); });
        }
        each([](auto& x) { x.end_chunk(); });
    }
}

// All tiles of NV vectors for the queries from i to stop - 1: each block of keys meets them all before the next one comes.
template <class T, int NV>
void attend(const Problem& p, int64_t item, int64_t i, int64_t stop, Room room) {
    constexpr int64_t W = NV * L<T>;
    const int64_t count = (stop - i + W - 1) / W;
    Tile<T, NV>* const tiles = room.take<Tile<T, NV>>(count);
    Workspace<T> workspace(p, item, W, room, i, stop);
    for (int64_t t = 0; t < count; t++) new (tiles + t) Tile<T, NV>(workspace, i + t * W, std::min(W, stop - i - t * W));
    Unit unit;
    walk(p, workspace, tiles, tiles + count);
    for (Tile<T, NV>* tile = tiles; tile < tiles + count; tile++) {
        if (tile->must_clean()) walk(p, workspace, tile, tile + 1);
        tile->write();
    }
}

}  // namespace ISA
}  // namespace regard
