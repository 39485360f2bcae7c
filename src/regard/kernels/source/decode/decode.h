// Forward, for few queries: lanes are keys, then values.
#pragma once

#include "decode/partial.h"

namespace regard {
namespace ISA {

template <class T>
class Decode {
    static constexpr int64_t K = KEYS_AT_ONCE;
    static constexpr bool ALONG = BYTES == 32;  // whether sums of several queries lie in memory: registers hold eight only
    static constexpr int MOST = BYTES == 64 && sizeof(T) == 4 && !PAIRS ? 16 : 8;  // vectors of a value, for one query
    static constexpr int64_t BITE = 32;  // values that are widened, or paired, or met by more than four queries, at a time
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    const Problem& p;
    const int64_t first_item, row, rows, first_key, last_key;  // `rows` rows from `row` of those that share the keys
    const Scale<T> scale;
    Room room;
    T *queries, *strips, *strip, *bias, *keys_room, *values_room, *square, *sums, *after, *nobodys, *fresh;
    char* spare;
    Learned<T> of_pairs;
    Features<T> left, right;
    Partial<T> *found, *out;  // of all chunks, and of the one at hand
    bool clean = false;
    Soon keys_soon, values_soon;
    InOrder keys_next;
    const bool in_order;      // whether rows of keys, and of values, have no gaps and the processor foresees them
    const int64_t at_a_time;  // blocks whose keys are read before their values

   public:
    Decode(const Problem& p, int64_t first_item, int64_t row, int64_t rows, int64_t first_key, int64_t last_key,
        Room given)
        : p(p), first_item(first_item), row(row), rows(rows), first_key(first_key), last_key(last_key),
          scale(scale_of<T>(p)), room(given),
          in_order(foresees(p.keys, p.d, p.keys_type) && foresees(p.values, p.e, p.values_type)),
          at_a_time(foreseen() ? cut(last_key - first_key, K) : 1) {
        strips = room.take<T>((at_a_time * rows + 3) * K);  // up to three rows more, since sums are taken of four
        memset(strips, 0, (at_a_time * rows + 3) * K * sizeof(T));
        nobodys = room.take<T>(width_of<T>(p.e));
        memset(nobodys, 0, width_of<T>(p.e) * sizeof(T));
        fresh = room.take<T>(UNIT ? 0 : rows * width_of<T>(p.e));  // sums of one block, from zero as in a tile
        bias = room.take<T>(K);
        queries = room.take<T>(std::max(rows + 3, UNIT ? SIDE / 2 : 0) * p.d);
        memset(queries + rows * p.d, 0, 3 * p.d * sizeof(T));
        after = room.take<T>(rows);
        spare = room.take<char>(2 * BYTES * p.d);
        keys_room = room.take<T>(p.keys_type == p.compute ? 0 : K * filled_columns(p.d));
        values_room = room.take<T>(BITE * width_of<T>(p.e));
        square = room.take<T>(UNIT ? SIDE * SIDE : 0);
        sums = room.take<T>(UNIT ? rows * up_to(SUMMED, p.e) : 0);
        of_pairs = learned<T>(p, room);
        left = features<T>(p, room, rows), right = features<T>(p, room, K);
        take_queries();
    }

    // Fill `given`, one for each row of each chunk.
    void run(Partial<T>* given) {
        Unit unit(rows, p.d % SUMMED ? p.d % SUMMED : SUMMED);
        found = given;
        const int64_t parts = cut(last_key - first_key, CHUNK) * rows;
        attend(parts);
        V<T> witness{};
        for (int64_t r = 0; r < parts; r++)
            for (int64_t c = 0; c < p.e; c += L<T>) witness += load(found[r].context() + c) * T(0);
        bool finite = true;
        for (int c = 0; c < L<T>; c++) finite &= witness[c] == 0;
        if (finite) return;
        clean = true;
        attend(parts);
    }

   private:
    // Whether keys, then values, are read in the order in which they lie. Doubles are better asked for.
    bool foreseen() const {
        return BYTES >= 32 && !UNIT && sizeof(T) == 4 && rows == 1 && p.e <= MOST * L<T> && in_order;
    }
    int64_t item(int64_t r) const { return first_item + (row + r) / p.n; }
    int64_t query(int64_t r) const { return (row + r) % p.n; }

    COLD void take_queries() {
        for (int64_t r = 0; r < rows; r++) {
            T *own = (UNIT && rows > 1 ? keys_room : queries) + r * p.d, before;
            Block<T> q = rows_of<T>(p.queries, p.queries_type, item(r), query(r), 1, p.d, own);
            place_factor<T>(p, scale.factor, q.at, before, after[r]);
            if (UNIT && rows == 1) widen(reinterpret_cast<const uint16_t*>(q.at), p.d, BFLOAT16, reinterpret_cast<float*>(own));
            else if (PAIRS) memcpy(own, q.at, numbers(p.d) * sizeof(T));
            else
                for (int64_t c = 0; c < p.d; c++) own[c] = before == 1 ? q.at[c] : q.at[c] * before;
        }
        if (UNIT && rows > 1) turn_rows<T>(keys_room, p.d, SIDE, numbers(p.d), queries, SIDE, SIDE);
        if (!PAIRS) prepare<T>(p, left, {queries, p.d}, 0, rows);
    }

    struct OfBlock {
        Seen seen[PACK], most;
        T faded[PACK];
    };
    // The keys of some blocks, then their values: what is foreseen comes the faster, the more of it there is in turn.
    ONCE void attend(int64_t parts) {
        for (int64_t r = 0; r < parts; r++) found[r].clear(p.e);
        if (UNIT && rows > 1) std::fill_n(sums, rows * up_to(SUMMED, p.e), T(0));
        OfBlock blocks[LOT * CHUNK / K];
        for (int64_t first = first_key; first < last_key; first += at_a_time * K) {
            const int64_t end = std::min(first + at_a_time * K, last_key);
            for (int64_t j = first; j < end; j += K) look_at(j, std::min(K, end - j), blocks[(j - first) / K]);
            auto each = [&](auto&& work) INLINE_LAMBDA {
                strip = strips;
                for (int64_t j = first; j < end; j += K, strip += rows * K) {
                    OfBlock& block = blocks[(j - first) / K];
                    out = found + (j - first_key) / CHUNK * rows;
                    if (block.most != NOBODY) work(j, std::min(K, end - j), block);
                }
            };
            each([&](int64_t j, int64_t keys, OfBlock&) INLINE_LAMBDA { scores(j, keys, end); });
            each([&](int64_t j, int64_t keys, OfBlock& block) INLINE_LAMBDA { make_weights(j, keys, block); });
            each([&](int64_t j, int64_t keys, OfBlock& block) INLINE_LAMBDA { add_values(j, keys, block.faded); });
        }
        if (UNIT && rows > 1) take_sums();
    }

    ONCE void look_at(int64_t j, int64_t keys, OfBlock& block) const {
        block.most = NOBODY;
        for (int64_t r = 0; r < rows; r++)
            block.most = std::max(block.most, block.seen[r] = guess(p, item(r), query(r), 1, j, keys));
    }
    ONCE void make_weights(int64_t j, int64_t keys, OfBlock& block) {
        for (int64_t r = 0; r < rows; r++) block.faded[r] = weigh(r, j, keys, block.seen[r]);
        add_totals(whole(keys), block.faded);
        if (PAIRS) pair_weights();
    }

    const char* row_of(const Matrices& x, int64_t j) const {
        return reinterpret_cast<const char*>(x.at(first_item)) + j * x.row;
    }
    ONCE void scores(int64_t j, int64_t keys, int64_t end) {
        keys_soon = rows_soon(p.keys, first_item, j, p.d, p.keys_type);
        const int64_t ahead = std::max<int64_t>(16, BYTES / (PAIRS ? 4 : size_of(p.keys_type)));  // as many as are turned over
        keys_next = {row_of(p.keys, j + ahead), row_of(p.keys, end) - 1};
#if defined(__AMX_BF16__)
        if (rows > 1) return scores_of_unit(j, keys);
        LikeUnit mode;
#endif
        if (score_of(p) != PRODUCTS) {
            Block<T> block = rows_of<T>(p.keys, p.keys_type, first_item, j, keys, p.d, keys_room);
            prepare<T>(p, right, block, 0, keys);
            return score_pairs<T>(p, of_pairs, left, rows, right, 0, keys, strip, 1, K);
        }
        const char* at = row_of(p.keys, j);
        if constexpr (WIDENS && sizeof(T) == 4) {
            if (p.keys_type == FLOAT16) return products<Half<FLOAT16>>(at, p.keys.row, keys);
            if (p.keys_type == BFLOAT16) return products<Half<BFLOAT16>>(at, p.keys.row, keys);
        }
        Block<T> plain = rows_of<T>(p.keys, p.keys_type, first_item, j, keys, p.d, keys_room);
        products<InPlace<T>>(reinterpret_cast<const char*>(plain.at), plain.stride * int64_t(sizeof(T)), keys);
    }

    template <class S>
    inline void products(const char* at, int64_t row, int64_t keys);

    template <class S, int R, int M>
    inline void turned_on_the_way(const char* at, int64_t row, int64_t keys);

    template <class S, int R, int M>
    inline void multiply(const char* from, int64_t row, int64_t first, int64_t c);

    template <class S, int R, int NV>
    inline void turned_first(const char* at, int64_t row, int64_t keys);

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
        const T top = largest<T>(most);
        T from = top == -INF<T> ? T(0) : top, faded = exp2<T>(out[r].top() - from);
        int64_t c = 0;
        for (; c < stop; c += L<T>) store(at + c, exp2<T>(load(at + c) - from));
        if (UNIT)
            for (; c < K; c += L<T>) store(at + c, V<T>{});  // it takes SUMMED keys at a time
        out[r].top() = top;
        return faded;
    }

    // Four sums a row, by the key's number modulo 4; of four rows at a time, so that no sum waits.
    ONCE void add_totals(int64_t stop, const T* faded) {
        for (int64_t r = 0; r < rows; r += 4) {
            Four sums[4] = {};
            for (int64_t c = 0; c < stop; c += 4)
                UNROLL for (int u = 0; u < 4; u++) sums[u] += *reinterpret_cast<const Four*>(strip + (r + u) * K + c);
            for (int u = 0; u < 4 && r + u < rows; u++) {
                T& total = out[r + u].total();
                total = fma1(total, faded[r + u], (sums[u][0] + sums[u][1]) + (sums[u][2] + sums[u][3]));
            }
        }
    }

    COLD void finish(int64_t r, int64_t j, int64_t keys, Seen seen) {
        T* at = strip + r * K;
        const int64_t stop = whole(keys);
        Visibility visibility;
        if (seen != NOBODY) seen = look(p, item(r), query(r), 1, j, keys, visibility);
        if (seen == EVERYBODY && visibility.last - visibility.first == keys && !p.bias && scale.cap == 0) {
            if (after[r] != 1)
                for (int64_t c = 0; c < stop; c += L<T>) store(at + c, load(at + c) * after[r]);
            for (int64_t c = keys; c < stop; c++) at[c] = -INF<T>;
            return;
        }
        uint64_t bits[K / 64 + 1] = {};
        if (seen != NOBODY)
            for (int64_t c = visibility.first; c < visibility.last; c++)
                bits[c / 64] |= uint64_t(seen == EVERYBODY || visibility.words[c]) << (c % 64);
        if (p.bias) {
            BiasAt b = bias_at<T>(p, item(r));
            const char* start = b.start + query(r) * b.row + j * b.column;
            for (int64_t c = 0; c < stop; c++) bias[c] = c < keys ? bias_number<T>(p, start + c * b.column) : T(0);
        }
        for (int64_t c = 0; c < stop; c += L<T>) {
            V<T> x = load(at + c) * after[r];
            if (scale.cap != 0) x = tanh<T>(x) * scale.cap;
            if (p.bias) x = add_bias<T>(x, load(bias + c));
            store(at + c, seen_by<T>(bits[c / 64] >> (c % 64), x));
        }
    }

    void pair_weights() {
#if defined(__AMX_BF16__)
        if (rows == 1)
            for (int64_t c = 0; c < K; c += L<T>)  // rounded, but each on its own
                store(strip + c, wide<BFLOAT16>((__m256i)_mm512_cvtneps_pbh((__m512)load(strip + c))));
        else
#endif
#if defined(__AVX512BF16__)
        for (int64_t c = 0; c < rows * K; c += L<T>)  // in place, since pairs take less room
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(strip + c / K * K + c % K / 2),
                                (__m256i)_mm512_cvtneps_pbh((__m512)load(strip + c)));
#endif
    }

    // Count the values of seen keys that are not finite.
    COLD void note(int64_t r, int64_t j, int64_t keys) {
        for (int64_t b = 0; b < keys; b += BITE) {
            const int64_t count = std::min(BITE, keys - b);
            const T* logits = strip + r * K + b;
            auto tell = [&](int64_t c, int64_t f, uint8_t taint) {
                if (!taint || logits[c] == -INF<T>) return;
                T& noted = out[r].taints()[f];
                noted = T(uint8_t(noted) | taint), out[r].tainted() = 1;
            };
#if defined(__AVX512BF16__)
            const int64_t width = width_of<T>(p.e);
            pair_rows(p.values, first_item, j + b, count, p.e, values_room, width);
            clean_pairs<false>(values_room, width, p.e, count, tell);
#else
            Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j + b, count, p.e, values_room);
            for (int64_t c = 0; c < count; c++)
                for (int64_t f = 0; f < p.e; f++) tell(c, f, taint_of(values.at[c * values.stride + f]));
#endif
        }
    }

    // Add the values by their weights: as they are stored where that can be done, in bites otherwise.
    ONCE void add_values(int64_t j, int64_t keys, T* faded) {
        // Values that are read once and from end to end ask again for the next keys, some of which seem to get lost, where the
        // processor foresees what they read.
        const bool once = rows <= 4 && p.e <= 8 * L<T> && p.values_type == p.compute;
        values_soon = once && foresees(p.values, p.e, p.values_type)
                          ? at_half_pace(rows_soon(p.keys, first_item, j, p.d, p.keys_type))
                          : rows_soon(p.values, first_item, j, p.e, p.values_type);
#if defined(__AMX_BF16__)
        if (rows > 1) return add_values_of_unit(j, keys, faded);
        LikeUnit mode;
        for (int64_t c = 0; c < keys; c += SUMMED) {
            const int64_t count = std::min(SUMMED, keys - c);
            const Bytes values = clean ? clean_rows(j + c, count) : Bytes{row_of(p.values, j + c), p.values.row};
            add_apart<8>(values, c, count, *faded, 0);
            *faded = 1;
        }
#else
        const int64_t width = width_of<T>(p.e);
        memset(fresh, 0, rows * width * sizeof(T));
        sum_values(j, keys);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < width; c += L<T>) {
                T* at = out[r].context() + c;
                store(at, fma(load(at), all(faded[r]), load(fresh + r * width + c)));
            }
#endif
    }

#if !defined(__AMX_BF16__)
    ONCE inline void sum_values(int64_t j, int64_t keys);
#endif

#if defined(__AMX_BF16__)
    inline void scores_of_unit(int64_t j, int64_t keys);

    template <int NV>
    inline void add_apart(Bytes values, int64_t first, int64_t keys, T faded, int64_t f);
    static uint16_t half(Bytes x, int64_t k, int64_t f) {
        uint16_t found;
        memcpy(&found, x.at + k * x.row + 2 * f, 2);
        return found;
    }
    COLD inline Bytes clean_rows(int64_t j, int64_t keys);

    inline void add_values_of_unit(int64_t j, int64_t keys, const T* faded);
    inline void pair_values(int64_t j, int64_t count);
    INLINE __m512i finite_halves(__m512i x) const;
    inline void take_sums();
#else
    void take_sums() {}
#endif

    COLD inline Block<T> values_of(int64_t j, int64_t keys);

    template <class S>
    inline void collect(const char* values, int64_t row, int64_t first, int64_t keys);

    template <class S, int R, int M>
    ONCE inline int64_t add_along(const char* values, int64_t row, int64_t first, int64_t keys, int64_t r);

    template <class S>
    COLD inline void rest(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c);
    T* sums_of(int64_t r) const { return r < rows ? fresh + r * width_of<T>(p.e) : nobodys; }
    static T number(T x, int32_t) { return x; }
    static T number(uint16_t x, int32_t type) { return type == FLOAT16 ? widen_float16(x) : widen_bfloat16(x); }

    template <class S, int R, int NV, int PART>
    INLINE void sum_up(V<T> (&sums)[R][NV], const T* a, int64_t lda, int64_t depth, const char* from, int64_t row,
                       Soon& asked);

    template <class S, int R, int NV>
    inline int64_t add(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c);
};

}  // namespace ISA
}  // namespace regard
