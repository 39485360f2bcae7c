// Products of float32 by a unit that multiplies bfloat16 (Intel's AMX): a number of 24 bits is the sum of three of 8 bits.
//
// With a = a1 + a2 + a3 and b alike, each part a 256th of the one before, six of the nine products are more than what
// float32 rounds away: a1 b1, a1 b2, a2 b1, a2 b2, a1 b3 and a3 b1. The unit is more than six times as fast as vectors
// are, and it rounds more seldom: it adds up 32 numbers by themselves before it adds their sum to what there is.
//
// Very small numbers have no such parts, and sums of very large ones might be infinite on the way. Where b has such numbers,
// and in the rows of a that do, vectors do the work. So a row of the result never depends on the other rows of a. The unit
// knows no numbers below 2^-126: beside its roundings a sum may be off by 2^-124 for each product.
#include "some.h"

#include <new>

namespace regard {
namespace ISA {

constexpr int64_t PARTS = 3, SQUARE = SIDE * SUMMED, TRIPLE = PARTS * SQUARE;  // numbers of 16 bits
constexpr int64_t TWO = 2 * SIDE;                                             // rows and columns that the unit works on
constexpr int64_t DEEP = 512, NEAR = 768 << 10;  // depth that is added up at a time; bytes of b that stay near
constexpr int64_t APART = 256;                   // columns of rows that are computed apart

// Numbers in rows and columns, one of which lie side by side.
struct Grid {
    const float* at;
    int64_t row, column, rows, columns;
    Grid from(int64_t r, int64_t c) const { return {at + r * row + c * column, row, column, rows - r, columns - c}; }
};

// The first `count` of UNITS numbers, and 0 beyond.
INLINE __mmask16 first_ones(int64_t count) { return count >= UNITS ? 0xffff : count > 0 ? (1 << count) - 1 : 0; }
INLINE Lane load_masked(const float* at, __mmask16 some) { return (Lane)_mm512_maskz_loadu_ps(some, at); }

// SIDE rows of SIDE numbers, turned over where columns lie side by side, with 0 where there are none.
ONCE static void turn_over(const Grid& x, float* rows) {
    Lane square[SIDE];
    const __mmask16 some = first_ones(x.rows), columns = first_ones(x.columns);
    UNROLL for (int64_t i = 0; i < SIDE; i++) square[i] = load_masked(x.at + i * x.column, columns >> i & 1 ? some : 0);
    turn<float>(square);
    UNROLL for (int64_t i = 0; i < SIDE; i++) store(rows + i * SIDE, square[i]);
}

// The sizes of numbers, as they are ordered, and what is known of them: that none is too small, too large or no number.
class Sizes {
    __m512i most = _mm512_setzero_si512(), least = _mm512_set1_epi32(-1);  // of those that are not 0, less 1

   public:
    INLINE void add(Lane x) {
        const __m512i size = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff));
        most = _mm512_max_epu32(most, size);
        least = _mm512_min_epu32(least, _mm512_sub_epi32(size, _mm512_set1_epi32(1)));
    }
    INLINE bool plain() const {
        constexpr int LEAST = ((127 - 100) << 23) - 1, MOST = (127 + 57) << 23;
        return !(_mm512_cmpgt_epu32_mask(most, _mm512_set1_epi32(MOST)) | _mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(LEAST)));
    }
};

// The parts of pairs of numbers, each part SQUARE behind the one before. The halfway case is rounded away from 0; the last
// part is exact.
INLINE void split(Lane first, Lane second, uint16_t* to) {
    const __m512i upper = _mm512_set1_epi32(int(0xffff0000)), half = _mm512_set1_epi32(0x8000);
    UNROLL for (int part = 0; part < PARTS; part++) {
        __m512i one = (__m512i)first, other = (__m512i)second;
        if (part < PARTS - 1) {
            one = _mm512_and_si512(_mm512_add_epi32(one, half), upper);
            other = _mm512_and_si512(_mm512_add_epi32(other, half), upper);
            first -= (Lane)one, second -= (Lane)other;
        }
        _mm512_store_si512(to + part * SQUARE, _mm512_or_si512(_mm512_srli_epi32(one, 16), other));
    }
}

// Two squares of numbers become PARTS squares of pairs: the pair at (i, j) has what both have there. Returns for each row
// whether it has numbers without parts.
ONCE static uint32_t split(Grid first, Grid second, uint16_t* to, Lane* sums) {
    alignas(64) float room[2 * SIDE * SIDE];
    if (first.column != 1) {
        turn_over(first, room), turn_over(second, room + SIDE * SIDE);
        first = {room, SIDE, 1, SIDE, SIDE}, second = {room + SIDE * SIDE, SIDE, 1, SIDE, SIDE};
    }
    Sizes sizes;
    const __mmask16 of_first = first_ones(first.columns), of_second = first_ones(second.columns);
    const auto each = [&](auto&& f) INLINE_LAMBDA {
        for (int64_t i = 0; i < SIDE; i++)
            f(i, load_masked(first.at + i * first.row, i < first.rows ? of_first : 0),
              load_masked(second.at + i * second.row, i < second.rows ? of_second : 0));
    };
    each([&](int64_t i, Lane one, Lane other) INLINE_LAMBDA {
        sizes.add(one), sizes.add(other);
        if (sums) *sums += one + other;
        split(one, other, to + i * SUMMED);
    });
    uint32_t strange = 0;
    if (!sizes.plain())
        each([&](int64_t i, Lane one, Lane other) {
            Sizes own;
            own.add(one), own.add(other);
            strange |= uint32_t(!own.plain()) << i;
        });
    return strange;
}

// Rows of numbers: what sums start from (null: 0), and where they are written.
struct Start {
    const float* at;
    int64_t row;
};
struct Written {
    float* at;
    int64_t row;
};

// out = start + a b for R times SIDE rows and C times SIDE columns; squares of one depth lie [part][square].
template <int R, int C>
ONCE static void multiply_triples(const uint16_t* a, const uint16_t* b, int64_t steps, Start start, Written out) {
    const auto load_a = [&](int part) INLINE_LAMBDA {
        _tile_loadd(4, a + part * SQUARE, 2 * SUMMED);
        if constexpr (R > 1) _tile_loadd(5, a + TRIPLE + part * SQUARE, 2 * SUMMED);
    };
    const auto load_b = [&](int part) INLINE_LAMBDA {
        _tile_loadd(6, b + part * SQUARE, 2 * SUMMED);
        if constexpr (C > 1) _tile_loadd(7, b + TRIPLE + part * SQUARE, 2 * SUMMED);
    };
    const auto add = [&]() INLINE_LAMBDA {
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (C > 1) _tile_dpbf16ps(1, 4, 7);
        if constexpr (R > 1) _tile_dpbf16ps(2, 5, 6);
        if constexpr (R > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
    };
    __asm__ volatile("" ::: "memory");
    if (start.at) {
        _tile_loadd(0, start.at, 4 * start.row);
        if constexpr (C > 1) _tile_loadd(1, start.at + SIDE, 4 * start.row);
        if constexpr (R > 1) _tile_loadd(2, start.at + SIDE * start.row, 4 * start.row);
        if constexpr (R > 1 && C > 1) _tile_loadd(3, start.at + SIDE * start.row + SIDE, 4 * start.row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < steps; k++, a += R * TRIPLE, b += C * TRIPLE) {
        load_a(2), load_b(0), add();
        load_a(0), add();
        load_a(1), add();
        load_b(1), add();
        load_a(0), add();
        load_b(2), add();
    }
    _tile_stored(0, out.at, 4 * out.row);
    if constexpr (C > 1) _tile_stored(1, out.at + SIDE, 4 * out.row);
    if constexpr (R > 1) _tile_stored(2, out.at + SIDE * out.row, 4 * out.row);
    if constexpr (R > 1 && C > 1) _tile_stored(3, out.at + SIDE * out.row + SIDE, 4 * out.row);
    __asm__ volatile("" ::: "memory");
}

inline void multiply_triples(const uint16_t* a, int64_t rows, const uint16_t* b, int64_t columns, int64_t depth, Start start,
                             Written out) {
    using F = void (*)(const uint16_t*, const uint16_t*, int64_t, Start, Written);
    static constexpr F sizes[2][2] = {{multiply_triples<1, 1>, multiply_triples<1, 2>},
                                      {multiply_triples<2, 1>, multiply_triples<2, 2>}};
    sizes[rows > SIDE][columns > SIDE](a, b, up_to(SUMMED, depth) / SUMMED, start, out);
}

// Numbers of 16 bits that TWO rows, or columns, take.
inline int64_t room_for(int64_t count, int64_t depth) { return up_to(SUMMED, depth) / SUMMED * (count > SIDE ? 2 : 1) * TRIPLE; }

// Up to TWO rows of a. Returns for each whether it has numbers without parts.
inline uint32_t split_rows(const Grid& a, uint16_t* to) {
    uint32_t strange = 0;
    for (int64_t k = 0; k < a.columns; k += SUMMED)
        for (int64_t r = 0; r < std::min(a.rows, TWO); r += SIDE, to += TRIPLE)
            strange |= split(a.from(r, k), a.from(r, k + SIDE), to, nullptr) << r;
    return strange;
}
// Up to TWO columns of b; adds up each if `sums` are asked for. Returns whether all numbers have parts.
inline bool split_columns(const Grid& b, uint16_t* to, Lane* sums) {
    uint32_t strange = 0;
    for (int64_t k = 0; k < b.rows; k += SUMMED)
        for (int64_t c = 0; c < std::min(b.columns, TWO); c += SIDE, to += TRIPLE)
            strange |= split(b.from(k, c), b.from(k + SIDE, c), to, sums ? sums + c / SIDE : nullptr);
    return !strange;
}

class MultiplyTriples {
    const Product& p;
    void (*const by_vectors)(const Product&, char*);
    char* const other;              // memory for it
    int64_t first, last, k, depth;  // columns and depth of what is near
    alignas(64) uint16_t rows_of_a[TWO * DEEP * PARTS], columns_of_b[NEAR / 2];
    alignas(64) float found[TWO * TWO], strange_rows[TWO * DEEP], apart[TWO * APART];
    const Unit unit;

   public:
    MultiplyTriples(const Product& p, char* scratch, void (*by_vectors)(const Product&, char*))
        : p(p), by_vectors(by_vectors), other(scratch + TRIPLE_ROOM) {}

    void run() {
        const int64_t parts = (p.depth + DEEP - 1) / DEEP, each = up_to(SUMMED, (p.depth + parts - 1) / parts);
        const int64_t many = NEAR / (2 * PARTS * each) / TWO * TWO;
        for (first = 0; first < p.columns; first = last) {
            last = std::min(first + many, p.columns);
            for (k = 0; k < p.depth; k += depth) {
                depth = std::min(each, p.depth - k);
                if (near())
                    for (int64_t r = 0; r < p.rows; r += TWO) meet(r, std::min(TWO, p.rows - r));
                else by_vectors(part(0, p.rows), other);
            }
        }
    }

   private:
    bool fresh() const { return k == 0 && !p.onto; }
    bool ends() const { return k + depth == p.depth; }

    // What some rows have to do with what is near.
    Product part(int64_t row, int64_t rows) const {
        Product some = p;
        some.rows = rows, some.depth = depth, some.columns = last - first;
        some.a += row * p.a_row + k * p.a_column, some.b += k * p.b_row + first * p.b_column;
        some.out += row * p.out_row + first;
        if (p.bias) some.bias += first;  // which counts where nothing is there
        some.sums = nullptr;
        some.onto = !fresh(), some.squash = ends() ? p.squash : 0;
        return some;
    }

    // Split columns of b, and add them up where that is asked for. Returns whether all numbers have parts.
    bool near() {
        uint16_t* to = columns_of_b;
        bool all_plain = true;
        for (int64_t c = first; c < last; c += TWO) {
            const int64_t columns = std::min(TWO, last - c);
            Lane sums[2] = {};
            const Grid b{p.b + k * p.b_row + c * p.b_column, p.b_row, p.b_column, depth, columns};
            all_plain &= split_columns(b, to, p.sums ? sums : nullptr);
            to += room_for(columns, depth);
            if (!p.sums) continue;
            for (int64_t v = 0; v < columns; v += UNITS) {
                float* sum = p.sums + c + v;
                store_first(sum, k ? load_first(sum, columns - v) + sums[v / UNITS] : sums[v / UNITS], columns - v);
            }
        }
        return all_plain;
    }

    // Some rows by all columns that are near.
    void meet(int64_t r, int64_t rows) {
        const uint32_t strange = split_rows({p.a + r * p.a_row + k * p.a_column, p.a_row, p.a_column, rows, depth}, rows_of_a);
        const uint16_t* b = columns_of_b;
        for (int64_t c = first; c < last; c += TWO) {
            const int64_t columns = std::min(TWO, last - c);
            const Written out{p.out + r * p.out_row + c, p.out_row};
            const bool there = !strange && rows % SIDE == 0 && columns % SIDE == 0;
            Start from{};
            if (!fresh()) from = {out.at, out.row};
            else if (p.bias) from = {p.bias + c, 0};
            if (there) multiply_triples(rows_of_a, rows, b, columns, depth, from, out);
            else {
                if (from.at) copy(from, {found, TWO}, strange, rows, columns);
                multiply_triples(rows_of_a, rows, b, columns, depth, {from.at ? found : nullptr, TWO}, {found, TWO});
                copy({found, TWO}, out, strange, rows, columns);
            }
            if (ends() && p.squash)
                for (int64_t i = 0; i < rows; i++)
                    if (!(strange >> i & 1)) squash(out.at + i * out.row, columns);
            b += room_for(columns, depth);
        }
        if (strange) meet_apart(r, strange);
    }

    // Rows with numbers that have no parts, side by side for the vectors.
    ONCE void meet_apart(int64_t r, uint32_t strange) {
        int64_t rows[TWO], count = 0;
        for (; strange; strange &= strange - 1) {
            rows[count] = r + __builtin_ctz(strange);
            for (int64_t i = 0; i < depth; i++)
                strange_rows[count * DEEP + i] = p.a[rows[count] * p.a_row + (k + i) * p.a_column];
            count++;
        }
        for (int64_t c = first; c < last; c += APART) {
            const int64_t columns = std::min(APART, last - c);
            const auto each = [&](auto&& f) INLINE_LAMBDA {
                for (int64_t i = 0; i < count; i++) f(p.out + rows[i] * p.out_row + c, apart + i * APART);
            };
            Product some = part(0, count);
            some.a = strange_rows, some.a_row = DEEP, some.a_column = 1;
            some.b += (c - first) * p.b_column, some.columns = columns;
            if (p.bias) some.bias += c - first;
            some.out = apart, some.out_row = APART;
            each([&](float* out, float* copy) { memcpy(copy, out, columns * sizeof(float)); });
            by_vectors(some, other);
            each([&](float* out, float* copy) { memcpy(out, copy, columns * sizeof(float)); });
        }
    }

    // Rows that are not strange.
    ONCE static void copy(Start from, Written to, uint32_t strange, int64_t rows, int64_t columns) {
        for (int64_t i = 0; i < rows; i++)
            if (!(strange >> i & 1)) memcpy(to.at + i * to.row, from.at + i * from.row, columns * sizeof(float));
    }

    ONCE void squash(float* x, int64_t count) const {
        for (int64_t v = 0; v < count; v += UNITS) {
            const Lane here = load_first(x + v, count - v);
            store_first(x + v, p.squash == TANH ? tanh<float>(here) : larger(Lane{}, here), count - v);
        }
    }
};

void multiply_triples(const Product& p, char* scratch, void (*by_vectors)(const Product&, char*)) {
    static_assert(sizeof(MultiplyTriples) <= TRIPLE_ROOM);
    MultiplyTriples* made = new (scratch) MultiplyTriples(p, scratch, by_vectors);
    made->run();
    made->~MultiplyTriples();
}

}  // namespace ISA
}  // namespace regard
