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
constexpr int64_t DEEP = 512, NEAR = 768 << 10;  // depth that is added up at a time; bytes that stay near
constexpr int64_t MANY = 4096;                   // rows, or columns, that pass by at a time
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

// SIDE rows of SIDE numbers whose columns lie side by side, turned over, with 0 where there are none. What lies `further`
// on will be needed a little later.
ONCE static void turn_over(const Grid& x, float* rows, int64_t further) {
    Lane square[SIDE];
    const __mmask16 some = first_ones(x.rows), columns = first_ones(x.columns);
    UNROLL for (int64_t i = 0; i < SIDE; i++) square[i] = load_masked(x.at + i * x.column, columns >> i & 1 ? some : 0);
    UNROLL for (int64_t i = 0; i < SIDE; i++) __builtin_prefetch(x.at + i * x.column + further, 0, 2);
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

// Up to TWO rows of a, or columns of b, become squares of pairs, [depth][which SIDE of them][part]: the pair at (i, j) has
// what is there, and what is SIDE further on. It is done little by little, while the unit is busy with others.
class Splitting {
    Grid x{};
    bool of_b, adds_up;
    uint16_t* to;
    Grid first, second;                  // the squares at hand
    __mmask16 of_first, of_second;       // which of their columns there are
    int64_t k, side, i;                  // where they are; which of their rows comes next
    Sizes sizes;
    alignas(64) float room[2 * SIDE * SIDE];

    int64_t count() const { return of_b ? x.columns : x.rows; }
    int64_t depth() const { return of_b ? x.rows : x.columns; }
    int64_t further() const { return TWO * (of_b ? x.column : x.row); }  // where the next ones begin

   public:
    uint32_t strange;  // a bit for each row of a that has numbers without parts; of b, not 0 if there are any
    alignas(64) Lane sums[2];  // of b's columns, where that is asked for

    void begin(const Grid& grid, bool is_b, bool sum_up, uint16_t* out) {
        x = grid, of_b = is_b, adds_up = sum_up, to = out;
        k = side = i = 0, strange = 0;
        sums[0] = sums[1] = Lane{};
    }
    // Rows of squares that are not split yet.
    int64_t left() const { return (depth() - k + SUMMED - 1) / SUMMED * (count() > SIDE ? 2 : 1) * SIDE; }
    void finish() { advance(left()); }

    // Split some of them.
    ONCE void advance(int64_t rows) {
        while (rows > 0 && k < depth()) {
            if (i == 0) fetch();
            const int64_t end = std::min(i + rows, SIDE);
            rows -= end - i;
            Sizes own = sizes;
            Lane sum{};
            const int64_t beyond = x.column == 1 ? further() : 0;  // or turn_over has asked for it
            for (; i < end; i++) {
                const Lane one = load_row(first, i, of_first), other = load_row(second, i, of_second);
                __builtin_prefetch(first.at + i * first.row + beyond, 0, 2);
                __builtin_prefetch(second.at + i * second.row + beyond, 0, 2);
                own.add(one), own.add(other);
                split(one, other, to + i * SUMMED);
                sum += one + other;
            }
            if (adds_up) sums[side / SIDE] += sum;
            sizes = own;
            if (i == SIDE) next();
        }
    }

   private:
    static INLINE Lane load_row(const Grid& square, int64_t i, __mmask16 some) {
        return load_masked(square.at + i * square.row, i < square.rows ? some : 0);
    }
    void fetch() {
        first = of_b ? x.from(k, side) : x.from(side, k), second = of_b ? x.from(k + SIDE, side) : x.from(side, k + SIDE);
        if (x.column != 1) {
            turn_over(first, room, further()), turn_over(second, room + SIDE * SIDE, further());
            first = {room, SIDE, 1, SIDE, SIDE}, second = {room + SIDE * SIDE, SIDE, 1, SIDE, SIDE};
        }
        of_first = first_ones(first.columns), of_second = first_ones(second.columns);
        sizes = {};
    }
    void next() {
        if (!sizes.plain()) strange |= strange_rows() << side;
        i = 0, to += TRIPLE, side += SIDE;
        if (side >= std::min(count(), TWO)) side = 0, k += SUMMED;
    }
    uint32_t strange_rows() const {
        uint32_t found = 0;
        for (int64_t row = 0; row < SIDE; row++) {
            Sizes own;
            own.add(load_row(first, row, of_first)), own.add(load_row(second, row, of_second));
            found |= uint32_t(!own.plain()) << row;
        }
        return found;
    }
};

// Rows of numbers: what sums start from (null: 0), and where they are written.
struct Start {
    const float* at;
    int64_t row;
};
struct Written {
    float* at;
    int64_t row;
};

// What is done while the unit is busy.
struct Meanwhile {
    Splitting& splitting;
    int64_t rows;  // of squares, that are split each step
    Written next;  // TWO rows that will be written to

    INLINE void step(int64_t k, int64_t steps) const {
        splitting.advance(rows);
        for (int64_t i = k * TWO / steps; i < (k + 1) * TWO / steps; i++)
            UNROLL for (int64_t c = 0; c < TWO; c += SIDE) __builtin_prefetch(next.at + i * next.row + c, 1);
    }
};

// out = start + a b for R times SIDE rows and C times SIDE columns.
template <int R, int C>
ONCE static void multiply_triples(const uint16_t* a, const uint16_t* b, int64_t steps, Start start, Written out,
                             const Meanwhile& meanwhile) {
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
        meanwhile.step(k, steps);
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

inline int64_t steps_of(int64_t depth) { return up_to(SUMMED, depth) / SUMMED; }
// Numbers of 16 bits that TWO rows, or columns, take.
inline int64_t room_for(int64_t depth) { return steps_of(depth) * 2 * TRIPLE; }

// The smaller matrix is split first and stays near, as much of it as there is room for, while the other one passes by.
class MultiplyTriples {
    const Product& p;
    void (*const by_vectors)(const Product&, char*);
    char* const other;  // memory for it
    const bool rows_stay;                     // rows of a, while columns of b pass by
    int64_t first, last, from, to, k, depth;  // what is near, what passes by, and how deep
    Splitting splitting;
    uint32_t strange_near[MANY / TWO], strange_passing[MANY / TWO];
    alignas(64) uint16_t near[NEAR / 2], passing[2][TWO * DEEP * PARTS];
    alignas(64) float found[TWO * TWO], strange_rows[TWO * DEEP], apart[TWO * APART];
    const Unit unit;

   public:
    MultiplyTriples(const Product& p, char* scratch, void (*by_vectors)(const Product&, char*))
        : p(p), by_vectors(by_vectors), other(scratch + TRIPLE_ROOM), rows_stay(p.rows < p.columns) {}

    void run() {
        const int64_t parts = (p.depth + DEEP - 1) / DEEP, each = up_to(SUMMED, (p.depth + parts - 1) / parts);
        const int64_t many = NEAR / (2 * PARTS * each) / TWO * TWO;
        const int64_t all_near = std::min(p.rows, p.columns), all_passing = std::max(p.rows, p.columns);
        for (first = 0; first < all_near; first = last) {
            last = std::min(first + many, all_near);
            for (k = 0; k < p.depth; k += depth) {
                depth = std::min(each, p.depth - k);
                come_near();
                for (from = 0; from < all_passing; from = to) {
                    to = std::min(from + MANY, all_passing);
                    pass_by();
                    meet_apart();
                }
            }
        }
    }

   private:
    bool fresh() const { return k == 0 && !p.onto; }
    bool ends() const { return k + depth == p.depth; }

    // Begin to split TWO columns of b, or rows of a.
    void begin(bool b, int64_t at, uint16_t* where) {
        const int64_t count = std::min(TWO, (b ? p.columns : p.rows) - at);
        if (b) splitting.begin({p.b + k * p.b_row + at * p.b_column, p.b_row, p.b_column, depth, count}, b, p.sums, where);
        else splitting.begin({p.a + at * p.a_row + k * p.a_column, p.a_row, p.a_column, count, depth}, b, false, where);
    }
    // Split what is left of them. Returns which rows are strange.
    uint32_t finish(bool b, int64_t at) {
        splitting.finish();
        if (b && p.sums)
            for (int64_t c = at; c < std::min(at + TWO, p.columns); c += UNITS) {
                const Lane sum = splitting.sums[(c - at) / UNITS];
                store_first(p.sums + c, k ? load_first(p.sums + c, p.columns - c) + sum : sum, p.columns - c);
            }
        return splitting.strange;
    }

    void come_near() {
        for (int64_t i = first; i < last; i += TWO) {
            begin(!rows_stay, i, near + (i - first) / TWO * room_for(depth));
            strange_near[(i - first) / TWO] = finish(!rows_stay, i);
        }
    }

    void pass_by() {
        const int64_t steps = (last - first + TWO - 1) / TWO * steps_of(depth);  // of the unit, for TWO that pass by
        begin(rows_stay, from, passing[0]);
        for (int64_t i = from, turn = 0; i < to; i += TWO, turn ^= 1) {
            strange_passing[(i - from) / TWO] = finish(rows_stay, i);
            if (i + TWO < to) begin(rows_stay, i + TWO, passing[turn ^ 1]);
            const int64_t rows = (splitting.left() + steps - 1) / steps;
            const auto each = [&](auto&& f) INLINE_LAMBDA {
                const uint32_t own = strange_passing[(i - from) / TWO];
                for (int64_t j = first; j < last; j += TWO) {
                    const uint32_t other = strange_near[(j - first) / TWO];
                    const uint16_t *there = near + (j - first) / TWO * room_for(depth), *here = passing[turn];
                    if (rows_stay && !own) f(j, other, there, i, here);
                    if (!rows_stay && !other) f(i, own, here, j, there);
                }
            };
            each([&](int64_t r, uint32_t strange, const uint16_t* a, int64_t c, const uint16_t* b) { meet(r, a, strange, c, b, rows); });
            if (ends() && p.squash)
                each([&](int64_t r, uint32_t strange, const uint16_t*, int64_t c, const uint16_t*) { squash(r, strange, c); });
        }
    }

    // TWO rows by TWO columns.
    void meet(int64_t r, const uint16_t* a, uint32_t strange, int64_t c, const uint16_t* b, int64_t split_meanwhile) {
        using F = void (*)(const uint16_t*, const uint16_t*, int64_t, Start, Written, const Meanwhile&);
        static constexpr F sizes[2][2] = {{multiply_triples<1, 1>, multiply_triples<1, 2>},
                                          {multiply_triples<2, 1>, multiply_triples<2, 2>}};
        const int64_t rows = std::min(TWO, p.rows - r), columns = std::min(TWO, p.columns - c);
        const F multiply = sizes[rows > SIDE][columns > SIDE];
        const Written out{p.out + r * p.out_row + c, p.out_row};
        const Meanwhile meanwhile{splitting, split_meanwhile, {out.at + TWO * (rows_stay ? p.out_row : 1), p.out_row}};
        Start start{};
        if (!fresh()) start = {out.at, out.row};
        else if (p.bias) start = {p.bias + c, 0};
        if (!strange && rows % SIDE == 0 && columns % SIDE == 0)
            multiply(a, b, steps_of(depth), start, out, meanwhile);
        else {
            if (start.at) copy(start, {found, TWO}, strange, rows, columns);
            multiply(a, b, steps_of(depth), {start.at ? found : nullptr, TWO}, {found, TWO}, meanwhile);
            copy({found, TWO}, out, strange, rows, columns);
        }
    }

    // Afterwards, since what the unit has just written takes its time to be there.
    void squash(int64_t r, uint32_t strange, int64_t c) const {
        for (int64_t i = 0; i < std::min(TWO, p.rows - r); i++)
            if (!(strange >> i & 1)) squash(p.out + (r + i) * p.out_row + c, std::min(TWO, p.columns - c));
    }

    // What the unit has left out: columns with numbers that have no parts, and such rows by all other columns.
    void meet_apart() {
        const int64_t row = rows_stay ? first : from, column = rows_stay ? from : first;
        const int64_t last_row = rows_stay ? last : to, last_column = rows_stay ? to : last;
        const uint32_t* of_a = rows_stay ? strange_near : strange_passing;
        const uint32_t* of_b = rows_stay ? strange_passing : strange_near;
        const auto is_strange = [&](int64_t c) { return of_b[(c - column) / TWO] != 0; };
        for (int64_t c = column; c < last_column; c += TWO)
            if (is_strange(c)) by_vectors(part(row, last_row - row, c, std::min(TWO, last_column - c)), other);
        for (int64_t r = row; r < last_row; r += TWO) {
            int64_t rows[TWO], count = 0;
            for (uint32_t bits = of_a[(r - row) / TWO]; bits; bits &= bits - 1) rows[count++] = r + __builtin_ctz(bits);
            if (!count) continue;
            gather(rows, count);
            for (int64_t c = column, end; c < last_column; c = end) {
                for (end = c; end < std::min(c + APART, last_column) && !is_strange(end);) end += TWO;
                end = std::min(end, last_column);
                end > c ? meet_apart(rows, count, c, end - c) : void(end = c + TWO);
            }
        }
    }

    // What some rows have to do with some columns.
    Product part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
        Product some = p;
        some.rows = rows, some.depth = depth, some.columns = columns;
        some.a += row * p.a_row + k * p.a_column, some.b += k * p.b_row + column * p.b_column;
        some.out += row * p.out_row + column;
        if (p.bias) some.bias += column;  // which counts where nothing is there
        some.sums = nullptr;
        some.onto = !fresh(), some.squash = ends() ? p.squash : 0;
        return some;
    }

    // Put rows side by side for the vectors.
    ONCE void gather(const int64_t* rows, int64_t count) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < depth; j++) strange_rows[i * DEEP + j] = p.a[rows[i] * p.a_row + (k + j) * p.a_column];
    }

    ONCE void meet_apart(const int64_t* rows, int64_t count, int64_t column, int64_t columns) {
        const auto each = [&](auto&& f) INLINE_LAMBDA {
            for (int64_t i = 0; i < count; i++) f(p.out + rows[i] * p.out_row + column, apart + i * APART);
        };
        Product some = part(0, count, column, columns);
        some.a = strange_rows, some.a_row = DEEP, some.a_column = 1;
        some.out = apart, some.out_row = APART;
        each([&](float* out, float* copy) { memcpy(copy, out, columns * sizeof(float)); });
        by_vectors(some, other);
        each([&](float* out, float* copy) { memcpy(out, copy, columns * sizeof(float)); });
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
    static_assert(sizeof(MultiplyTriples) <= TRIPLE_ROOM && NEAR / (2 * PARTS * SUMMED) <= MANY);
    MultiplyTriples* made = new (scratch) MultiplyTriples(p, scratch, by_vectors);
    made->run();
    made->~MultiplyTriples();
}

}  // namespace ISA
}  // namespace regard
