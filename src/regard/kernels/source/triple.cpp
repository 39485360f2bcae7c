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
static_assert(TWO == SPLIT_TOGETHER);
constexpr int64_t DEEP = 512, NEAR = 768 << 10;  // depth that is added up at a time; bytes that stay near
constexpr int64_t MANY = 4096;                   // rows that pass by at a time
constexpr int64_t APART = 256;                   // columns of rows that are computed apart
constexpr int64_t PORTIONS = 2;                  // of what is done meanwhile, in a step of the unit

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
    bool of_b = false, adds_up = false;
    uint16_t* to;
    Grid first, second;                  // the squares at hand
    __mmask16 of_first, of_second;       // which of their columns there are
    int64_t k = 0, side = 0, i = 0;      // where they are; which of their rows comes next
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
    int64_t rows;     // of squares, that are split each time
    Written next;     // TWO rows that will be written to
    int64_t touched;  // of them, each time

    INLINE void step(int64_t number) const {
        splitting.advance(rows);
        for (int64_t i = number * touched; i < std::min((number + 1) * touched, TWO); i++)
            UNROLL for (int64_t c = 0; c < TWO; c += SIDE) __builtin_prefetch(next.at + i * next.row + c, 1);
    }
};

// out = start + a b for R times SIDE rows and C times SIDE columns. The processor looks some hundred instructions ahead: what
// is done meanwhile comes in small portions between the unit's.
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
        load_a(2), load_b(0), add();
        load_a(0), add();
        meanwhile.step(PORTIONS * k);
        load_a(1), add();
        load_b(1), add();
        load_a(0), add();
        meanwhile.step(PORTIONS * k + 1);
        load_b(2), add();
    }
    _tile_stored(0, out.at, 4 * out.row);
    if constexpr (C > 1) _tile_stored(1, out.at + SIDE, 4 * out.row);
    if constexpr (R > 1) _tile_stored(2, out.at + SIDE * out.row, 4 * out.row);
    if constexpr (R > 1 && C > 1) _tile_stored(3, out.at + SIDE * out.row + SIDE, 4 * out.row);
    __asm__ volatile("" ::: "memory");
}

using Multiply = void (*)(const uint16_t*, const uint16_t*, int64_t, Start, Written, const Meanwhile&);
INLINE Multiply multiply_for(int64_t rows, int64_t columns) {
    static constexpr Multiply sizes[2][2] = {{multiply_triples<1, 1>, multiply_triples<1, 2>},
                                             {multiply_triples<2, 1>, multiply_triples<2, 2>}};
    return sizes[rows > SIDE][columns > SIDE];
}

inline int64_t steps_of(int64_t depth) { return up_to(SUMMED, depth) / SUMMED; }
// Rows that are written to next, and asked for each time.
inline int64_t touched(int64_t steps) { return (TWO - 1) / (PORTIONS * steps) + 1; }
// Numbers of 16 bits that TWO rows, or columns, take.
inline int64_t room_for(int64_t depth) { return steps_of(depth) * 2 * TRIPLE; }

// Columns of b are split first and stay near, as many of them as there is room for, while all rows of a pass by: so what is
// written lies together.
class MultiplyTriples {
    const Product& p;
    void (*const by_vectors)(const Product&, char*);
    char* const other;                        // memory for it
    int64_t first, last, from, to, k, depth;  // columns that are near, rows that pass by, and how deep
    Splitting splitting;
    uint32_t strange_columns[NEAR / (2 * PARTS * SUMMED * TWO)], strange[MANY / TWO];
    alignas(64) uint16_t near[NEAR / 2], passing[2][TWO * DEEP * PARTS];
    alignas(64) float found[TWO * TWO], strange_rows[TWO * DEEP], apart[TWO * APART];
    const Unit unit;

   public:
    MultiplyTriples(const Product& p, char* scratch, void (*by_vectors)(const Product&, char*))
        : p(p), by_vectors(by_vectors), other(scratch + TRIPLE_ROOM) {}

    void run() {
        const int64_t each = evenly(p.depth, DEEP, SUMMED);
        const int64_t many = evenly(p.columns, NEAR / (2 * PARTS * each) / TWO * TWO, TWO);
        for (first = 0; first < p.columns; first = last) {
            last = std::min(first + many, p.columns);
            for (k = 0; k < p.depth; k += depth) {
                depth = std::min(each, p.depth - k);
                come_near();
                for (from = 0; from < p.rows && !stopped(p.stop); from = to) {
                    to = std::min(from + MANY, p.rows);
                    pass_by();
                    meet_apart();
                }
            }
        }
    }

   private:
    // Parts of at most so many, as long as each other, more or less: a multiple of `step`.
    static int64_t evenly(int64_t count, int64_t most, int64_t step) {
        const int64_t parts = (count + most - 1) / most;
        return up_to(step, (count + parts - 1) / parts);
    }
    bool fresh() const { return k == 0 && !p.onto; }
    bool ends() const { return k + depth == p.depth; }
    // Where TWO columns are, and whether they have to be computed apart.
    const uint16_t* near_at(int64_t c) const { return near + (c - first) / TWO * room_for(depth); }
    uint32_t& is_strange(int64_t c) { return strange_columns[(c - first) / TWO]; }

    void come_near() {
        for (int64_t c = first; c < last; c += TWO) {
            const Grid columns{p.b + k * p.b_row + c * p.b_column, p.b_row, p.b_column, depth, std::min(TWO, p.columns - c)};
            splitting.begin(columns, true, p.sums, near + (c - first) / TWO * room_for(depth));
            splitting.finish();
            is_strange(c) = splitting.strange;
            if (p.sums) add_sums(c);
        }
    }
    void add_sums(int64_t column) const {
        for (int64_t c = column; c < std::min(column + TWO, p.columns); c += UNITS) {
            const Lane sum = splitting.sums[(c - column) / UNITS];
            store_first(p.sums + c, k ? load_first(p.sums + c, p.columns - c) + sum : sum, p.columns - c);
        }
    }

    void begin_rows(int64_t r, uint16_t* where) {
        splitting.begin({p.a + r * p.a_row + k * p.a_column, p.a_row, p.a_column, std::min(TWO, p.rows - r), depth}, false, false, where);
    }
    void pass_by() {
        const int64_t portions = (last - first + TWO - 1) / TWO * steps_of(depth) * PORTIONS;
        begin_rows(from, passing[0]);
        for (int64_t r = from, turn = 0; r < to; r += TWO, turn ^= 1) {
            splitting.finish();
            const uint32_t own = strange[(r - from) / TWO] = splitting.strange;
            if (r + TWO < to) begin_rows(r + TWO, passing[turn ^ 1]);
            const int64_t portion = (splitting.left() + portions - 1) / portions;
            for (int64_t c = first; c < last; c += TWO)
                if (!is_strange(c)) meet(r, passing[turn], own, c, portion);
            // Afterwards, since what the unit has just written takes its time to be there.
            for (int64_t c = first; c < last && ends() && p.squash; c += TWO)
                if (!is_strange(c)) squash(r, own, c);
        }
    }

    // TWO rows by TWO columns.
    void meet(int64_t r, const uint16_t* a, uint32_t strange, int64_t c, int64_t portion) {
        const int64_t rows = std::min(TWO, p.rows - r), columns = std::min(TWO, p.columns - c), steps = steps_of(depth);
        const Multiply multiply = multiply_for(rows, columns);
        const uint16_t* b = near_at(c);
        const Written out{p.out + r * p.out_row + c, p.out_row};
        const Meanwhile meanwhile{splitting, portion, {out.at + TWO, p.out_row}, touched(steps)};
        Start start{};
        if (!fresh()) start = {out.at, out.row};
        else if (p.bias) start = {p.bias + c, 0};
        if (!strange && rows % SIDE == 0 && columns % SIDE == 0)
            multiply(a, b, steps, start, out, meanwhile);
        else {
            if (start.at) copy(start, {found, TWO}, strange, rows, columns);
            multiply(a, b, steps, {start.at ? found : nullptr, TWO}, {found, TWO}, meanwhile);
            copy({found, TWO}, out, strange, rows, columns);
        }
    }

    void squash(int64_t r, uint32_t strange, int64_t c) const {
        for (int64_t i = 0; i < std::min(TWO, p.rows - r); i++)
            if (!(strange >> i & 1)) squash(p.out + (r + i) * p.out_row + c, std::min(TWO, p.columns - c));
    }

    // What the unit has left out: columns with numbers that have no parts, and such rows by all other columns.
    void meet_apart() {
        for (int64_t c = first; c < last; c += TWO)
            if (is_strange(c)) by_vectors(part(from, to - from, c, std::min(TWO, last - c)), other);
        for (int64_t r = from; r < to; r += TWO) {
            int64_t rows[TWO], count = 0;
            for (uint32_t bits = strange[(r - from) / TWO]; bits; bits &= bits - 1) rows[count++] = r + __builtin_ctz(bits);
            if (!count) continue;
            gather(rows, count);
            for (int64_t c = first, end; c < last; c = end) {
                for (end = c; end < std::min(c + APART, last) && !is_strange(end);) end += TWO;
                end = std::min(end, last);
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
    static_assert(sizeof(MultiplyTriples) <= TRIPLE_ROOM && PORTIONS == 2);
    MultiplyTriples* made = new (scratch) MultiplyTriples(p, scratch, by_vectors);
    made->run();
    made->~MultiplyTriples();
}

// ---- in two steps --------------------------------------------------------------------------------------------

int64_t triples_room(int64_t lines, int64_t depth) { return up_to(TWO, lines) / TWO * room_for(depth) * int64_t(sizeof(uint16_t)); }

bool split_triples(const float* lines, int64_t line, int64_t count, int64_t depth, bool of_b, char* to, uint32_t* strange) {
    Splitting splitting;
    bool all = true;
    for (int64_t i = 0; i < count; i += TWO, to += triples_room(TWO, depth)) {
        const int64_t some = std::min(TWO, count - i);
        const float* at = lines + i * line;
        splitting.begin(of_b ? Grid{at, 1, line, depth, some} : Grid{at, line, 1, some, depth}, of_b, false, reinterpret_cast<uint16_t*>(to));
        splitting.finish();
        all &= !splitting.strange;
        if (strange) strange[i / TWO] = splitting.strange;
    }
    return all;
}

void meet_triples(const char* a, int64_t rows, const char* b, int64_t columns, int64_t depth, const float* bias, bool onto,
                  float* out, int64_t out_row) {
    const Unit unit;
    Splitting none;
    const int64_t steps = steps_of(depth), step = triples_room(TWO, depth);
    for (int64_t r = 0; r < rows; r += TWO, a += step, out += TWO * out_row)
        for (int64_t c = 0; c < columns; c += TWO) {
            const Written here{out + c, out_row};
            const Start start = onto ? Start{here.at, out_row} : bias ? Start{bias + c, 0} : Start{};
            multiply_for(rows - r, columns - c)(
                reinterpret_cast<const uint16_t*>(a), reinterpret_cast<const uint16_t*>(b + c / TWO * step), steps, start, here,
                {none, 0, {here.at + TWO, out_row}, touched(steps)});
        }
}

}  // namespace ISA
}  // namespace regard
