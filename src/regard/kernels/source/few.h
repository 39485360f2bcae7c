// Forward, for few queries: lanes are keys, then values.
#pragma once

#include "tile.h"

namespace regard {
namespace ISA {

inline int64_t cut(int64_t length, int64_t step) { return (length + step - 1) / step; }

// What one chunk of the keys gives to one query: context (e), taints (e) if there are any, top, total.
template <class T>
struct Partial {
    T* at;
    int64_t width;  // of context and of taints
    T* context() const { return at; }
    T* taints() const { return at + width; }
    T& top() const { return at[2 * width]; }
    T& total() const { return at[2 * width + 1]; }
    T& tainted() const { return at[2 * width + 2]; }  // whether any
    static int64_t size(int64_t e) { return 2 * width_of<T>(e) + std::max(L<T>, 4); }
    void clear(int64_t e) const {
        memset(at, 0, size(e) * sizeof(T));
        top() = -INF<T>;
    }
};

// Where a unit multiplies matrices, one query gets the same results from vectors: it has no numbers below 1.2e-38.
struct LikeUnit {
#if defined(__AMX_BF16__)
    static constexpr unsigned NONE_SO_SMALL = 0x8040;  // neither taken in nor given out
    const unsigned before = _mm_getcsr();
    LikeUnit() { _mm_setcsr(before | NONE_SO_SMALL); }
    ~LikeUnit() { _mm_setcsr(before); }
#else
    LikeUnit() {}
#endif
};

template <class T>
class Few {
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
    Few(const Problem& p, int64_t first_item, int64_t row, int64_t rows, int64_t first_key, int64_t last_key,
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
    void products(const char* at, int64_t row, int64_t keys) {
        constexpr int SIZE = sizeof(typename S::Number);
        // So many queries meet vectors while they are in registers; for more of them a cache is the better place.
        constexpr int MET = PAIRS || BYTES < 32 ? PACK : BYTES == 64 && SIZE >= 4 ? 4 : 1, R = UNIT || MET == 1 ? 1 : 4;
        if constexpr (MET < PACK)
            if (rows > MET) return turned_first<S, 4, 2>(at, row, keys);
        if constexpr (BYTES < 64 && SIZE < int(sizeof(T))) turned_first<S, 1, 4>(at, row, keys);
        else if (rows == 1) turned_on_the_way<S, 1, 1>(at, row, keys);
        else turned_on_the_way<S, R, R == 1 ? 1 : VECTORS>(at, row, keys);
    }

    template <class S, int R, int M>
    void turned_on_the_way(const char* at, int64_t row, int64_t keys) {
        constexpr int COUNT = M * Pieces<typename S::Number>::COUNT;
        int64_t c = 0;
        for (; c + COUNT <= keys; c += COUNT)
            for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(at + c * row, row, r, c);
        if (c == keys) return;
        const int64_t bytes = numbers(p.d) * sizeof(typename S::Number);  // fewer than vectors hold: nobody looks
        for (int64_t r = c; r < keys; r++) memcpy(spare + (r - c) * bytes, at + r * row, bytes);  // at other lanes
        for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(spare, bytes, r, c);
    }

    // Scores of R queries with M vectors of keys, which are turned over on the way.
    template <class S, int R, int M>
    void multiply(const char* from, int64_t row, int64_t first, int64_t c) {
        using P = Pieces<typename S::Number>;
        constexpr int H = UNIT ? 2 : P::COUNT / L<T>;
        const int64_t columns = numbers(p.d);
        typename P::Rows at[M];
        for (int m = 0; m < M; m++) P::begin(at[m], from + m * P::COUNT * row, row);
        const T* q[R];
        for (int r = 0; r < R; r++) q[r] = queries + std::min(first + r, rows - 1) * p.d;
        V<T> sums[R][M][H] = {}, whole[R] = {};
        Soon soon = keys_soon;
        InOrder next = keys_next;
        const bool read_on = R * M == 1 && foreseen();
        auto add = [&](const V<T> (&wide)[M][H], int64_t f) INLINE_LAMBDA {
            UNROLL for (int r = 0; r < R; r++) {
                V<T> one = spread(q[r] + f);
                UNROLL for (int m = 0; m < M; m++)
                    UNROLL for (int h = 0; h < H; h++)
                        sums[r][m][h] = UNIT ? fma(all(q[r][2 * f + h]), wide[m][h], sums[r][m][h])
                                             : add_products<T>(one, wide[m][h], sums[r][m][h]);
            }
        };
        auto join = [&]() INLINE_LAMBDA {  // as the unit does
            UNROLL for (int r = 0; r < R; r++) {
                whole[r] += sums[r][0][0] + sums[r][0][H - 1];
                UNROLL for (int h = 0; h < H; h++) sums[r][0][h] = V<T>{};
            }
        };
        int64_t f = 0;
        for (; f + P::PIECE <= columns; f += P::PIECE) {
            typename P::V x[M][P::PIECE];
            constexpr int READ = 16 * M * P::COUNT;
            if (!read_on) soon.template ask<READ>(f / P::PIECE);
            UNROLL for (int m = 0; m < M; m++) P::next(at[m], row, x[m]);
            V<T> wide[M][H];
            UNROLL for (int i = 0; i < P::PIECE; i++) {
                UNROLL for (int m = 0; m < M; m++) S::widen(x[m][i], wide[m]);
                add(wide, f + i);
            }
            if (read_on) next.template read<READ>();
            if (UNIT && f % SIDE == SIDE - P::PIECE) join();
        }
        for (; f < columns; f++) {
            V<T> wide[M][H];
            for (int m = 0; m < M; m++) {
                typename S::Number x[P::COUNT];
                for (int r = 0; r < P::COUNT; r++)
                    memcpy(x + r, from + (m * P::COUNT + r) * row + f * sizeof *x, sizeof *x);
                S::widen(P::load(x), wide[m]);
            }
            add(wide, f);
        }
        if (UNIT) join();
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int h = 0; h < (UNIT ? 1 : M * H); h++)
                store(strip + std::min(first + r, rows - 1) * K + c + h * L<T>, UNIT ? whole[r] : sums[r][h / H][h % H]);
        keys_soon = soon;
        if (read_on) keys_next = next;
    }

    // Scores of keys that are read more than once, or widened where registers are few: NV vectors of keys are turned over as
    // they are stored, into the nearest cache, and widened as R queries read them. Both ask for keys, so that memory never
    // rests.
    template <class S, int R, int NV>
    void turned_first(const char* at, int64_t row, int64_t keys) {
        using Number = typename S::Number;
        constexpr int W = NV * L<T>, SIZE = sizeof(Number);
        using OfHalf = SoonInSteps<8 * BYTES / SIZE>;
        auto* turned = reinterpret_cast<Number*>(spare);
        for (int64_t c = 0; c < keys; c += W) {
            keys_soon = turn_rows(reinterpret_cast<const Number*>(at + c * row), row / SIZE, std::min<int64_t>(W, keys - c),
                                  p.d, turned, W, W, OfHalf{keys_soon});
            for (int64_t r = 0; r < rows; r += R) {
                V<T> sums[R][NV] = {};
                sum_up<S, R, NV, 2>(sums, queries + r * p.d, p.d, p.d, spare, W * SIZE, keys_soon);
                UNROLL for (int u = 0; u < R; u++)
                    UNROLL for (int v = 0; v < NV; v++) store(strip + (r + u) * K + c + v * L<T>, sums[u][v]);
            }
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
    ONCE void sum_values(int64_t j, int64_t keys) {
        int64_t c = 0;
        auto done = [&](auto stored, int64_t count) {
            for (const int64_t step = rows > 4 ? BITE : count; c < count; c += step)
                collect<decltype(stored)>(row_of(p.values, j + c), p.values.row, c, std::min(step, count - c));
            c = count;
        };
        if (!clean) {
#if defined(__AVX512BF16__)
            if (p.e % (2 * L<T>) == 0) done(Paired(), keys / 2 * 2);
#else
            if (p.values_type == p.compute) return done(Plain<T>(), keys);
#endif
            if constexpr (WIDENS && sizeof(T) == 4)
                return p.values_type == FLOAT16 ? done(Half<FLOAT16>(), keys) : done(Half<BFLOAT16>(), keys);
        }
        for (; c < keys; c += BITE) {
            const int64_t count = std::min(BITE, keys - c);
            Block<T> values = values_of(j + c, count);
            collect<Plain<T>>(reinterpret_cast<const char*>(values.at), values.stride * int64_t(sizeof(T)), c, count);
        }
    }
#endif

#if defined(__AMX_BF16__)
    // Several queries: keys are the unit's left side, as they are stored, and queries its columns.
    void scores_of_unit(int64_t j, int64_t keys) {
        Soon soon = keys_soon;
        for (int64_t c = 0; c < keys; c += SIDE) {
            const int64_t count = std::min(SIDE, keys - c);
            const Bytes at = count == SIDE ? Bytes{row_of(p.keys, j + c), p.keys.row}
                                           : filled_rows(p.keys, first_item, j + c, count, p.d,
                                                         reinterpret_cast<char*>(keys_room));
            __asm__ volatile("" ::: "memory");
            _tile_zero(0);
            int64_t f = 0;
            for (; f + SUMMED <= p.d; f += SUMMED) {
                soon.template ask<SIDE * 2 * SUMMED>(0);
                _tile_loadd(4, queries + f / 2 * SIDE, 64);
                _tile_loadd(2, at.at + 2 * f, at.row);
                _tile_dpbf16ps(0, 2, 4);
            }
            if (f < p.d) {
                soon.template ask<SIDE * SUMMED>(0);
                _tile_loadd(6, queries + f / 2 * SIDE, 64);
                _tile_loadd(5, at.at + 2 * f, at.row);
                _tile_dpbf16ps(0, 5, 6);
            }
            _tile_stored(0, square, 64);
            __asm__ volatile("" ::: "memory");
            turn_rows<T>(square, SIDE, SIDE, up_to(4, rows), strip + c, K, SIDE);
        }
        keys_soon = soon;
    }

    // What the unit makes of SUMMED values for one query: sums of those with even numbers, and of others, are added up last.
    template <int NV>
    void add_apart(Bytes values, int64_t first, int64_t keys, T faded, int64_t f) {
        for (; f + NV * L<T> <= p.e; f += NV * L<T>) {
            V<T> sums[2][NV] = {};
            auto add = [&](int64_t k, auto odd) INLINE_LAMBDA {
                V<T> wide[NV], weight = all(strip[first + k]);
                if (NV > 1) values_soon.template ask<NV * BYTES / 2>(k);
                Half<BFLOAT16>::read(values.at + 2 * f, values.row, k, wide);
                UNROLL for (int v = 0; v < NV; v++)
                    sums[decltype(odd)::value][v] = fma(weight, wide[v], sums[decltype(odd)::value][v]);
            };
            int64_t k = 0;
            for (; k + 2 <= keys; k += 2) add(k, std::false_type()), add(k + 1, std::true_type());
            if (k < keys) add(k, std::false_type());
            UNROLL for (int v = 0; v < NV; v++) {
                T* at = out->context() + f + v * L<T>;
                store(at, load(at) * faded + (sums[0][v] + sums[1][v]));
            }
        }
        if constexpr (NV > 1) return add_apart<1>(values, first, keys, faded, f);
        for (; f < p.e; f++) {
            T sums[2] = {}, &sum = out->context()[f];
            for (int64_t k = 0; k < keys; k++)
                sums[k % 2] = fma1(number(half(values, k, f), BFLOAT16), strip[first + k], sums[k % 2]);
            sum = sum * faded + (sums[0] + sums[1]);
        }
    }
    static uint16_t half(Bytes x, int64_t k, int64_t f) {
        uint16_t found;
        memcpy(&found, x.at + k * x.row + 2 * f, 2);
        return found;
    }
    // Values as they are stored, of which nothing can reach whom it should not.
    COLD Bytes clean_rows(int64_t j, int64_t keys) {
        auto* to = reinterpret_cast<uint16_t*>(values_room);
        const Bytes from = {row_of(p.values, j), p.values.row};
        for (int64_t k = 0; k < keys; k++)
            for (int64_t f = 0; f < p.e; f++) {
                const uint16_t found = half(from, k, f);
                to[k * p.e + f] = taint_of(widen_bfloat16(found)) ? 0 : found;
            }
        return {reinterpret_cast<const char*>(to), 2 * p.e};
    }

    // Several queries: weights are the unit's left side, and pairs of two keys' values its right one. Columns are summed up
    // in the order in which pairs lie: first of each 32 those whose number modulo 8 is below 4.
    void add_values_of_unit(int64_t j, int64_t keys, const T* faded) {
        const int64_t width = up_to(SUMMED, p.e);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = r * width; c < (r + 1) * width; c += L<T>) store(sums + c, load(sums + c) * faded[r]);
        for (int64_t c = 0; c < keys; c += SUMMED) {
            pair_values(j + c, std::min(SUMMED, keys - c));
            __asm__ volatile("" ::: "memory");
            _tile_loadd(7, strip + c / 2, 4 * K);
            for (int64_t f = 0; f < width; f += SUMMED) {
                _tile_loadd(1, sums + f, 4 * width);
                _tile_loadd(4, values_room + f, 4 * width);
                _tile_dpbf16ps(1, 7, 4);
                _tile_stored(1, sums + f, 4 * width);
                _tile_loadd(3, sums + f + SIDE, 4 * width);
                _tile_loadd(2, values_room + f + SIDE, 4 * width);
                _tile_dpbf16ps(3, 7, 2);
                _tile_stored(3, sums + f + SIDE, 4 * width);
            }
            __asm__ volatile("" ::: "memory");
        }
    }
    void pair_values(int64_t j, int64_t count) {
        const int64_t row = p.values.row, whole = clean ? 0 : p.e & -SUMMED;
        const char* at = row_of(p.values, j);
        T* to = values_room;
        Soon soon = values_soon;
        auto pair = [&](__m512i one, __m512i two) INLINE_LAMBDA {
            _mm512_storeu_si512(to, _mm512_unpacklo_epi16(one, two));
            _mm512_storeu_si512(to + SIDE, _mm512_unpackhi_epi16(one, two));
            to += SUMMED;
        };
        for (int64_t k = 0; k < SUMMED; k += 2, at += 2 * row) {
            for (int64_t byte = 0; byte < 4 * p.e; byte += 256) soon.template ask<256>(0);
            int64_t f = 0;
            if (k + 2 <= count)
                for (; f < whole; f += SUMMED) pair(_mm512_loadu_si512(at + 2 * f), _mm512_loadu_si512(at + row + 2 * f));
            for (; f < p.e; f += SUMMED) {
                const __mmask32 some = first_of_halves(p.e - f);
                pair(finite_halves(_mm512_maskz_loadu_epi16(k < count ? some : 0, at + 2 * f)),
                     finite_halves(_mm512_maskz_loadu_epi16(k + 1 < count ? some : 0, at + row + 2 * f)));
            }
        }
        values_soon = soon;
    }
    INLINE __m512i finite_halves(__m512i x) const {  // 0 in place of what is not, where that is in the way
        if (!clean) return x;
        const __m512i most = _mm512_set1_epi16(0x7f80);
        return _mm512_maskz_mov_epi16(_mm512_cmpneq_epi16_mask(_mm512_and_si512(x, most), most), x);
    }
    void take_sums() {
        const int64_t width = up_to(SUMMED, p.e);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t f = 0; f < p.e; f += SUMMED) {
                V<T> low = load(sums + r * width + f), high = load(sums + r * width + f + SIDE);
                T* to = out[r].context() + f;
                store(to, __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
                if (f + SIDE < p.e)
                    store(to + SIDE,
                          __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
            }
    }
#else
    void take_sums() {}
#endif

    // Values of which nothing can reach whom it should not.
    COLD Block<T> values_of(int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
        if (clean) clean_pairs<false>(values_room, width, p.e, keys, [](int64_t, int64_t, uint8_t) {});
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

    template <class S>
    void collect(const char* values, int64_t row, int64_t first, int64_t keys) {
        constexpr int LEAST = PAIRS && sizeof(typename S::Number) == 2 ? 2 : 1;
        int64_t c = 0;
        if (rows == 1) {
            if constexpr (MOST > 8) c = add<S, 1, MOST>(values, row, first, keys, c);
            c = add<S, 1, 8>(values, row, first, keys, c);
            c = add<S, 1, 4>(values, row, first, keys, c);
            c = add<S, 1, LEAST>(values, row, first, keys, c);
        } else if constexpr (ALONG) {
            for (int64_t r = 0; r < rows; r += 4)
                c = rows - r > 2 ? add_along<S, 4, 3>(values, row, first, keys, r)
                                 : add_along<S, 2, 4>(values, row, first, keys, r);
        } else {
            c = add<S, 4, BYTES == 64 ? 4 : 2>(values, row, first, keys, c);
            c = add<S, 4, LEAST>(values, row, first, keys, c);
        }
        if (c < (PAIRS ? width_of<T>(p.e) : p.e)) rest<S>(values, row, first, keys, c);
    }

    // All whole vectors of columns to R queries from r on; returns where columns are left. Rows are read from end to end, M at
    // a time, as memory likes it best: their weights are in registers, and sums in the nearest cache.
    template <class S, int R, int M>
    ONCE int64_t add_along(const char* values, int64_t row, int64_t first, int64_t keys, int64_t r) {
        constexpr int64_t SIZE = L<T> * sizeof(typename S::Number);  // of a vector as it is stored
        const int64_t stop = p.e / L<T> * L<T>, lot = Soon::LOT * ((rows + 3) / 4);
        T* at[R];
        for (int u = 0; u < R; u++) at[u] = sums_of(r + u);
        Soon soon = values_soon;
        int64_t k = 0, read = 0;
        auto meet = [&](auto some) INLINE_LAMBDA {
            constexpr int N = decltype(some)::value;
            V<T> weights[R][N];
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int i = 0; i < N; i++) weights[u][i] = all(strip[(r + u) * K + first + k + i]);
            const char* from = values + k * row;
            for (int64_t c = 0; c < stop; c += L<T>, from += SIZE) {
                if ((read += N * SIZE) >= lot) read -= lot, soon.ask();
                V<T> x[N][1];
                UNROLL for (int i = 0; i < N; i++) S::read(from, row, i, x[i]);
                UNROLL for (int u = 0; u < R; u++) {
                    V<T> sum = load(at[u] + c);
                    UNROLL for (int i = 0; i < N; i++) sum = fma(weights[u][i], x[i][0], sum);
                    store(at[u] + c, sum);
                }
            }
            k += N;
        };
        while (k + M <= keys) meet(std::integral_constant<int, M>());
        while (k < keys) meet(std::integral_constant<int, 1>());
        values_soon = soon;
        return stop;
    }

    // The last columns, from c on, which fill no vector.
    template <class S>
    COLD void rest(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
        typename S::Number x;
        for (; c < p.e; c++)
            for (int64_t r = 0; r < rows; r++) {
                T sum = sums_of(r)[c];
                for (int64_t k = 0; k < keys; k++) {
                    memcpy(&x, values + k * row + c * sizeof x, sizeof x);
                    sum = fma1(number(x, p.values_type), strip[r * K + first + k], sum);
                }
                sums_of(r)[c] = sum;
            }
    }
    T* sums_of(int64_t r) const { return r < rows ? fresh + r * width_of<T>(p.e) : nobodys; }
    static T number(T x, int32_t) { return x; }
    static T number(uint16_t x, int32_t type) { return type == FLOAT16 ? widen_float16(x) : widen_bfloat16(x); }

    // Sums of products with vectors as they are stored. Meanwhile one of PART such bytes is asked for, by all queries that
    // take turns together.
    template <class S, int R, int NV, int PART>
    INLINE void sum_up(V<T> (&sums)[R][NV], const T* a, int64_t lda, int64_t depth, const char* from, int64_t row,
                       Soon& asked) {
        constexpr int SIZE = sizeof(typename S::Number);
        constexpr int READ = NV * L<T> * SIZE * (PAIRS && SIZE == 2 ? 2 : 1) / PART;
        const int64_t every = std::max<int>(1, Soon::LOT / READ) * ((rows + R - 1) / R);
        int64_t next = 0;
        Soon soon = asked;
        const bool foreseen = R == 1 && this->foreseen();
        auto ask = [&](int64_t k) INLINE_LAMBDA {
            if (NV == 1 || foreseen) return;  // a row's last vectors come with the others
            if (R == 1) soon.template ask<READ>(k);
            else if (k == next) soon.template ask<std::max<int>(READ, Soon::LOT)>(0), next += every;
        };
        if constexpr (R == 1 && !PAIRS)
            for (int64_t k = 0; k < depth; k++) {
                ask(k);
                const V<T> one = all(a[k]);
                UNROLL for (int v = 0; v < NV; v++) {  // one by one: there are no registers for all at once
                    V<T> x[1];
                    S::read(from + v * L<T> * SIZE, row, k, x);
                    sums[0][v] = fma(one, x[0], sums[0][v]);
                }
            }
        else
            product_of<T, R, NV, true>(sums, a, lda, depth, [&](int64_t k, V<T> (&bk)[NV]) INLINE_LAMBDA {
                ask(k);
                S::read(from, row, k, bk);
            }, nobody);
        asked = soon;
    }

    // Columns from c on by steps of NV vectors, to R queries at a time; returns where columns are left.
    template <class S, int R, int NV>
    int64_t add(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
        using Number = typename S::Number;
        const int64_t columns = PAIRS ? width_of<T>(p.e) : p.e;
        for (; c + NV * L<T> <= columns; c += NV * L<T>)
            for (int64_t r = 0; r < rows; r += R) {
                V<T> sums[R][NV];
                T* at[R];
                for (int u = 0; u < R; u++) at[u] = sums_of(r + u) + c;
                UNROLL for (int u = 0; u < R; u++)
                    UNROLL for (int v = 0; v < NV; v++) sums[u][v] = load(at[u] + v * L<T>);
                const char* from = values + c * sizeof(Number);
                sum_up<S, R, NV, 1>(sums, strip + r * K + first / (PAIRS + 1), K, numbers(keys), from, row,
                                    values_soon);
                UNROLL for (int u = 0; u < R; u++)
                    UNROLL for (int v = 0; v < NV; v++) store(at[u] + v * L<T>, sums[u][v]);
            }
        return c;
    }
};

// Take in another chunk.
template <class T>
void absorb(const Partial<T>& x, const Partial<T>& y) {
    T top = larger(all(x.top()), all(y.top()))[0], from = countable<T>(all(top))[0];
    T a = exp2<T>(x.top() - from), b = exp2<T>(y.top() - from);
    x.total() = fma1(x.total(), a, y.total() * b);
    x.top() = top;
    for (int64_t c = 0; c < x.width; c += L<T>)
        store(x.context() + c, fma(load(x.context() + c), all(a), load(y.context() + c) * b));
    if (y.tainted() == 0) return;
    x.tainted() = 1;
    for (int64_t c = 0; c < x.width; c++) x.taints()[c] = T(uint8_t(x.taints()[c]) | uint8_t(y.taints()[c]));
}

// What the calls before found in their keys.
template <class T>
COLD void resume(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    const int64_t at = (item * p.n + i) * p.e;
    const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
    memcpy(x.context(), static_cast<const T*>(p.context) + at, p.e * sizeof(T));
    x.top() = statistic[0], x.total() = statistic[p.n];
    for (int64_t c = 0; c < p.e; c++) {
        x.taints()[c] = T(p.taints[at + c]);
        if (p.taints[at + c]) x.tainted() = 1;
    }
}
// The same for the call to come.
template <class T>
COLD void suspend(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    const int64_t at = (item * p.n + i) * p.e;
    T* statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
    memcpy(static_cast<T*>(p.context) + at, x.context(), p.e * sizeof(T));
    statistic[0] = x.top(), statistic[p.n] = x.total();
    for (int64_t c = 0; c < p.e && x.tainted() != 0; c++) p.taints[at + c] = uint8_t(x.taints()[c]);
}

template <class T>
ONCE void write(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    if (p.to_key < p.m) return suspend(p, x, item, i);
    T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, *statistic = static_cast<T*>(p.statistic);
    T divisor = x.total() == 0 ? T(1) : x.total();
    for (int64_t c = 0; c < x.width; c += L<T>) store(x.context() + c, one_nan<T>(load(x.context() + c) / divisor));
    if (x.tainted() != 0)
        for (int64_t c = 0; c < p.e; c++) x.context()[c] = tainted(x.context()[c], uint8_t(x.taints()[c]));
    memcpy(out, x.context(), p.e * sizeof(T));
    if (!statistic) return;
    statistic[item * 2 * p.n + i] = x.top() == -INF<T> ? T(0) : one_nan<T>(all(x.top()))[0];
    statistic[item * 2 * p.n + p.n + i] = T(std::log2(double(one_nan<T>(all(x.total()))[0])));
}

}  // namespace ISA
}  // namespace regard
