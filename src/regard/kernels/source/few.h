// Forward, for few queries: lanes are keys, then values.
#pragma once

#include "tile.h"

namespace regard {
namespace ISA {

// What one chunk of the keys gives to one query: top, total, context (e), taints (e).
template <class T>
struct Partial {
    T* at;
    T& top() const { return at[0]; }
    T& total() const { return at[1]; }
    T* context() const { return at + 2; }
    T* taints(int64_t e) const { return at + 2 + width_of<T>(e); }
    static int64_t size(int64_t e) { return 2 + width_of<T>(e) + e; }
};

template <class T>
class Few {
    static constexpr int64_t AHEAD = 4 * L<T>;  // keys that are turned over at a time
    static constexpr int64_t K = KEYS_AT_ONCE;
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    const Problem& p;
    const int64_t first_item, row, rows, first_key, last_key;  // `rows` rows from `row` of those that share the keys
    const Scale<T> scale;
    Room room;
    T *queries, *strip, *bias, *turned, *keys_room, *values_room, *after;
    Learned<T> of_pairs;
    Features<T> left, right;
    Partial<T>* out;
    bool clean = false;

   public:
    Few(const Problem& p, int64_t first_item, int64_t row, int64_t rows, int64_t first_key, int64_t last_key,
        Room given)
        : p(p), first_item(first_item), row(row), rows(rows), first_key(first_key), last_key(last_key),
          scale(scale_of<T>(p)), room(given) {
        strip = room.take<T>(rows * K);
        bias = room.take<T>(K);
        queries = room.take<T>(rows * p.d);
        after = room.take<T>(rows);
        turned = room.take<T>(AHEAD * p.d);
        keys_room = room.take<T>(p.keys_type == p.compute ? 0 : K * p.d);
        values_room = room.take<T>(K * width_of<T>(p.e));
        of_pairs = learned<T>(p, room);
        left = features<T>(p, room, rows), right = features<T>(p, room, K);
        take_queries();
    }

    // Fill `found`, one for each row.
    void run(Partial<T>* found) {
        out = found;
        attend();
        bool finite = true;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < p.e; c++) finite &= bool(std::isfinite(out[r].context()[c]));
        if (finite) return;
        clean = true;
        attend();
    }

   private:
    int64_t item(int64_t r) const { return first_item + (row + r) / p.n; }
    int64_t query(int64_t r) const { return (row + r) % p.n; }

    void take_queries() {
        for (int64_t r = 0; r < rows; r++) {
            T *own = queries + r * p.d, before;
            Block<T> q = rows_of<T>(p.queries, p.queries_type, item(r), query(r), 1, p.d, own);
            place_factor<T>(p, scale.factor, q.at, before, after[r]);
            if (PAIRS) memcpy(own, q.at, numbers(p.d) * sizeof(T));
            else
                for (int64_t c = 0; c < p.d; c++) own[c] = before == 1 ? q.at[c] : q.at[c] * before;
        }
        prepare<T>(p, left, {queries, p.d}, 0, rows);
    }

    void attend() {
        for (int64_t r = 0; r < rows; r++) {
            memset(out[r].at, 0, Partial<T>::size(p.e) * sizeof(T));
            out[r].top() = -INF<T>;
        }
        for (int64_t j = first_key; j < last_key; j += K) block(j, std::min(K, last_key - j));
    }

    void block(int64_t j, int64_t keys) {
        Seen seen[PACK];
        Seen most = NOBODY;
        for (int64_t r = 0; r < rows; r++)
            most = std::max(most, seen[r] = guess(p, item(r), query(r), 1, j, keys));
        if (most == NOBODY) return;
        scores(j, keys);
        T faded[PACK];
        for (int64_t r = 0; r < rows; r++) faded[r] = weigh(r, j, keys, seen[r]);
        if (PAIRS) pair_weights();
        collect(values_of(j, keys), keys, faded);
    }

    void scores(int64_t j, int64_t keys_here) {
        Block<T> keys = rows_of<T>(p.keys, p.keys_type, first_item, j, keys_here, p.d, keys_room);
        if (p.score != PRODUCTS) {
            prepare<T>(p, right, keys, 0, keys_here);
            return score_pairs<T>(p, of_pairs, left, rows, right, 0, keys_here, strip, 1, K);
        }
        for (int64_t c = 0; c < keys_here; c += AHEAD) {
            for (int64_t u = 0; u < AHEAD; u += L<T>) {
                int64_t left = std::clamp<int64_t>(keys_here - c - u, 0, L<T>);
                turn_rows<T, 16>(keys.at + (c + u) * keys.stride, keys.stride, left, numbers(p.d), turned + u, AHEAD, L<T>, nullptr);
            }
            in_steps<4>(0, rows, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
                V<T> sums[R][4] = {};
                product<T, R, 4, true>(sums, queries + r * p.d, p.d, turned, AHEAD, numbers(p.d));
                UNROLL for (int u = 0; u < R; u++)
                    UNROLL for (int v = 0; v < 4; v++) store(strip + (r + u) * K + c + v * L<T>, sums[u][v]);
            });
        }
    }

    static int64_t whole(int64_t keys) {  // with the lanes that are filled up
        constexpr int64_t step = std::max(L<T>, 4);
        return (keys + step - 1) / step * step;
    }

    // Make weights of a row's scores; returns what its context so far fades by.
    T weigh(int64_t r, int64_t j, int64_t keys, Seen seen) {
        T* at = strip + r * K;
        const int64_t stop = whole(keys);
        finish(r, j, keys, seen);
        if (clean) note(r, j, keys);
        V<T> most = all(out[r].top());
        for (int64_t c = 0; c < stop; c += L<T>) most = larger(most, load(at + c));
        T top = out[r].top();
        for (int c = 0; c < L<T>; c++) top = most[c] > top || most[c] != most[c] ? most[c] : top;
        T from = top == -INF<T> ? T(0) : top, faded = exp2<T>(out[r].top() - from);
        Four sums = {};
        for (int64_t c = 0; c < stop; c += L<T>) store(at + c, exp2<T>(load(at + c) - from));
        for (int64_t c = 0; c < stop; c += 4) sums += *reinterpret_cast<const Four*>(at + c);
        out[r].total() = fma1(out[r].total(), faded, (sums[0] + sums[1]) + (sums[2] + sums[3]));
        out[r].top() = top;
        return faded;
    }

    void finish(int64_t r, int64_t j, int64_t keys, Seen seen) {
        T* at = strip + r * K;
        const int64_t stop = whole(keys);
        Sight sight;
        if (seen != NOBODY) seen = look(p, item(r), query(r), 1, j, keys, sight);
        if (seen == EVERYBODY && sight.last - sight.first == keys && !p.bias && scale.cap == 0) {
            if (after[r] != 1)
                for (int64_t c = 0; c < stop; c += L<T>) store(at + c, load(at + c) * after[r]);
            for (int64_t c = keys; c < stop; c++) at[c] = -INF<T>;
            return;
        }
        uint64_t bits[K / 64 + 1] = {};
        if (seen != NOBODY)
            for (int64_t c = sight.first; c < sight.last; c++)
                bits[c / 64] |= uint64_t(seen == EVERYBODY || sight.words[c]) << (c % 64);
        if (p.bias) {
            BiasAt b = bias_at<T>(p, item(r));
            const char* start = b.start + query(r) * b.row + j * b.column;
            for (int64_t c = 0; c < stop; c++) bias[c] = c < keys ? bias_number<T>(p, start + c * b.column) : T(0);
        }
        for (int64_t c = 0; c < stop; c += L<T>) {
            V<T> x = load(at + c) * after[r];
            if (scale.cap != 0) x = tanh<T>(x) * scale.cap;
            if (p.bias) x = add_bias<T>(x, load(bias + c));
            store(at + c, lanes_of<T>(bits[c / 64] >> (c % 64)) ? x : all(-INF<T>));
        }
    }

    void pair_weights() {
#if defined(__AVX512BF16__)
        for (int64_t c = 0; c < rows * K; c += L<T>)  // in place, since pairs take less room
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(strip + c / K * K + c % K / 2),
                                (__m256i)_mm512_cvtneps_pbh((__m512)load(strip + c)));
#endif
    }

    // Count the values of seen keys that are not finite.
    void note(int64_t r, int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
        return clean_pairs(values_room, width, p.e, keys, [&](int64_t c, int64_t f, uint8_t taint) {
            T& noted = out[r].taints(p.e)[f];
            if (!(strip[r * K + c] == -INF<T>)) noted = T(uint8_t(noted) | taint);
        });
#endif
        Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j, keys, p.e, values_room);
        for (int64_t c = 0; c < keys; c++)
            for (int64_t f = 0; f < p.e && !(strip[r * K + c] == -INF<T>); f++)
                out[r].taints(p.e)[f] =
                    T(uint8_t(out[r].taints(p.e)[f]) | taint_of(values.at[c * values.stride + f]));
    }

    Block<T> values_of(int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
        if (clean) clean_pairs(values_room, width, p.e, keys, [](int64_t, int64_t, uint8_t) {});
        return {values_room, width};
#endif
        Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j, keys, p.e, values_room);
        if (!clean) return values;
        for (int64_t c = 0; c < keys; c++)
            for (int64_t f = 0; f < p.e; f++) {
                T x = values.at[c * values.stride + f];
                values_room[c * p.e + f] = taint_of(x) ? T(0) : x;
            }
        return {values_room, p.e};
    }

    // Add the values by their weights.
    void collect(Block<T> values, int64_t keys, const T* faded) {
        int64_t c = 0;
        auto vectors = [&](auto count, auto most) {
            constexpr int NV = decltype(count)::value;
            for (; c + NV * L<T> <= (PAIRS ? width_of<T>(p.e) : p.e); c += NV * L<T>)
                in_steps<decltype(most)::value>(0, rows, [&](auto size, int64_t r) {
                    constexpr int R = decltype(size)::value;
                    V<T> sums[R][NV];
                    UNROLL for (int u = 0; u < R; u++)
                        UNROLL for (int v = 0; v < NV; v++) {
                            sums[u][v] = load(out[r + u].context() + c + v * L<T>);
                            sums[u][v] *= faded[r + u];
                        }
                    const T *weights = strip + r * K, *at = values.at + c;
                    if (NV == 8 && r == 0) product<T, R, NV, true, 16>(sums, weights, K, at, values.stride, numbers(keys));
                    else product<T, R, NV, true>(sums, weights, K, at, values.stride, numbers(keys));
                    UNROLL for (int u = 0; u < R; u++)
                        UNROLL for (int v = 0; v < NV; v++) store(out[r + u].context() + c + v * L<T>, sums[u][v]);
                });
        };
        vectors(std::integral_constant<int, 8>{}, std::integral_constant<int, 2>{});  // a long row in one stream
        vectors(std::integral_constant<int, 4>{}, std::integral_constant<int, 4>{});
        vectors(std::integral_constant<int, 1>{}, std::integral_constant<int, 4>{});
        for (; c < p.e; c++)
            for (int64_t r = 0; r < rows; r++) {
                T sum = out[r].context()[c] * faded[r];
                for (int64_t k = 0; k < keys; k++) sum = fma1(values.at[k * values.stride + c], strip[r * K + k], sum);
                out[r].context()[c] = sum;
            }
    }
};

// Take in another chunk.
template <class T>
void absorb(const Partial<T>& x, const Partial<T>& y, int64_t e) {
    T top = larger(all(x.top()), all(y.top()))[0], from = countable<T>(all(top))[0];
    T a = exp2<T>(x.top() - from), b = exp2<T>(y.top() - from);
    x.total() = fma1(x.total(), a, y.total() * b);
    x.top() = top;
    for (int64_t c = 0; c < e; c++) {
        x.context()[c] = fma1(x.context()[c], a, y.context()[c] * b);
        x.taints(e)[c] = T(uint8_t(x.taints(e)[c]) | uint8_t(y.taints(e)[c]));
    }
}

template <class T>
void write(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, *statistic = static_cast<T*>(p.statistic);
    T divisor = x.total() == 0 ? T(1) : x.total();
    for (int64_t c = 0; c < p.e; c++) {
        T context = x.context()[c] / divisor;
        uint8_t taint = uint8_t(x.taints(p.e)[c]);
        out[c] = taint ? tainted(context, taint) : context;
    }
    if (!statistic) return;
    statistic[item * 2 * p.n + i] = x.top() == -INF<T> ? T(0) : x.top();
    statistic[item * 2 * p.n + p.n + i] = T(std::log2(double(x.total())));
}

}  // namespace ISA
}  // namespace regard
