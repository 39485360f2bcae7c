// Products of matrices of the size that layers of small networks have; float32.
//
// A panel of b, three vectors wide, is packed so that a part of its depth stays in the nearest cache while some rows of a
// pass by, which are read where they are, or, where they lie side by side, gathered first; the same rows meet the next
// part while their sums are near, too. A number of the result is a sum over the depth in order, whatever the shapes: a
// row never depends on the others.
#include "some.h"

#include <new>

namespace regard {
namespace ISA {

constexpr int64_t PANEL_DEPTH = 192, PANEL = WIDE * UNITS, DEEP = 1024, SOME_ROWS = 12 * ROWS;
constexpr int64_t GROUP = 256, GROUP_TILE = ROWS * PANEL_DEPTH + 16;  // tiles don't begin at the same place of a cache

// A matrix of which one number lies after the other from row to row, or from column to column.
struct Part {
    const float* at;
    int64_t row;
};

// out (ROWS, NV vectors) = start + a @ b; a lies as [row][depth] where ACROSS, and as [depth][row] otherwise.
template <int NV, bool ACROSS>
ONCE static void tile(Part a, Part b, int64_t depth, Part start, float* out, int64_t out_row) {
    Lane sums[ROWS][NV];
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < NV; v++) {
            sums[r][v] = load(start.at + r * start.row + v * UNITS);
            __builtin_prefetch(out + (ROWS + r) * out_row + v * UNITS, 1);  // the next tile's, far away as it may be
        }
    product<float, ROWS, NV, ACROSS>(sums, a.at, a.row, b.at, b.row, depth);
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < NV; v++) store(out + r * out_row + v * UNITS, sums[r][v]);
}

ONCE static void squash(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += UNITS) store_first(x + i, tanh<float>(load_first(x + i, count - i)), count - i);
}

ONCE static void rectify(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += UNITS) store_first(x + i, larger(Lane{}, load_first(x + i, count - i)), count - i);
}

ONCE static void copy(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, columns * sizeof(float));
}

class Multiply {
    const Product& p;
    const bool across;
    const int64_t step;            // parts of the depth are as long as each other, more or less
    int64_t k, depth, c, columns;  // where the panel begins, and what there is of it
    Part b;                        // the panel: packed, or where it is
    alignas(64) float packed[DEEP * PANEL], bias[PANEL], edge[ROWS * PANEL_DEPTH] = {}, sums[ROWS * PANEL] = {};
    alignas(64) float group[GROUP / ROWS * GROUP_TILE];

   public:
    explicit Multiply(const Product& p) : p(p), across(p.a_column == 1), step(part_of(p.depth)) {}

    void run() { across ? run_across() : run_down(); }

   private:
    static int64_t part_of(int64_t depth) {
        const int64_t parts = (depth + PANEL_DEPTH - 1) / PANEL_DEPTH;
        return (depth + parts * UNITS - 1) / (parts * UNITS) * UNITS;
    }
    int64_t vectors() const { return (columns + UNITS - 1) / UNITS; }
    bool fresh() const { return k == 0 && !p.onto; }
    void begin_columns() { columns = std::min<int64_t>(PANEL, p.columns - c); }
    void begin_depth(int64_t end) { depth = std::min<int64_t>(step, end - k); }

    void run_across() {
        for (c = 0; c < p.columns; c += PANEL)
            for (int64_t deep = 0; deep < p.depth; deep += DEEP) {
                begin_columns();
                const int64_t end = std::min<int64_t>(deep + DEEP, p.depth), width = vectors() * UNITS;
                const bool packs = p.b_column != 1 || columns < PANEL || p.rows > 8 * ROWS || p.sums;
                for (k = deep; packs && k < end; k += step) begin_depth(end), pack(packed + (k - deep) * width, true);
                for (int64_t r = 0; r < p.rows; r += SOME_ROWS)
                    for (k = deep; k < end; k += step) {
                        begin_depth(end);
                        b = packs ? Part{packed + (k - deep) * width, width} : in_place();
                        pass(r, std::min<int64_t>(SOME_ROWS, p.rows - r));
                    }
            }
    }
    void run_down() {
        for (int64_t r = 0; r < p.rows; r += GROUP)
            for (k = 0; k < p.depth; k += step) {
                const int64_t rows = std::min<int64_t>(GROUP, p.rows - r);
                begin_depth(p.depth), gather(r, rows);
                for (c = 0; c < p.columns; c += PANEL) {
                    begin_columns();
                    const bool packs = p.b_column != 1 || columns < PANEL || rows > 8 * ROWS || (p.sums && r == 0);
                    if (packs) pack(packed, r == 0);
                    b = packs ? Part{packed, vectors() * UNITS} : in_place();
                    pass(r, rows);
                }
            }
    }

    Part in_place() const { return {p.b + k * p.b_row + c * p.b_column, p.b_row}; }

    // Some rows of a by a panel.
    void pass(int64_t first, int64_t count) {
        memset(bias, 0, sizeof bias);
        if (p.bias) memcpy(bias, p.bias + c, columns * sizeof(float));
        for (int64_t r = 0; r < count; r += ROWS) {
            const Part a = across ? Part{p.a + (first + r) * p.a_row + k, p.a_row} : Part{group + r / ROWS * GROUP_TILE, ROWS};
            float* out = p.out + (first + r) * p.out_row + c;
            const int64_t rows = std::min<int64_t>(ROWS, count - r);
            if (rows == ROWS && columns % UNITS == 0) one(a, fresh() ? Part{bias, 0} : Part{out, p.out_row}, out, p.out_row);
            else at_edge(a, rows, out);
            if (p.squash && k + depth == p.depth)
                for (int64_t i = 0; i < rows; i++)
                    (p.squash == TANH ? squash : rectify)(out + i * p.out_row, columns);
        }
    }

    void one(Part a, Part start, float* out, int64_t out_row) const {
        using Tile = void (*)(Part, Part, int64_t, Part, float*, int64_t);
        static constexpr Tile tiles[][2] = {{tile<1, false>, tile<1, true>}, {tile<2, false>, tile<2, true>},
                                            {tile<3, false>, tile<3, true>}};
        tiles[vectors() - 1][across](a, b, depth, start, out, out_row);
    }

    // Where fewer rows or columns are left than a tile has: on copies.
    ONCE void at_edge(Part a, int64_t rows, float* out) {
        if (across && rows < ROWS) copy(a.at, a.row, edge, PANEL_DEPTH, rows, depth), a = {edge, PANEL_DEPTH};
        if (!fresh()) copy(out, p.out_row, sums, PANEL, rows, columns);
        one(a, fresh() ? Part{bias, 0} : Part{sums, PANEL}, sums, PANEL);
        copy(sums, PANEL, out, p.out_row, rows, columns);
    }

    // Lay out rows of a that lie side by side as tiles of [depth][row], with 0 beyond the last.
    ONCE void gather(int64_t first, int64_t rows) {
        for (int64_t i = 0; i < depth; i++) {
            const float* from = p.a + (k + i) * p.a_column + first;
            float* to = group + i * ROWS;
            int64_t r = 0;
            for (; r + ROWS <= rows; r += ROWS, to += GROUP_TILE) memcpy(to, from + r, ROWS * sizeof(float));
            for (int64_t u = 0; r < rows && u < ROWS; u++) to[u] = r + u < rows ? from[r + u] : 0;
        }
    }

    // Fill a panel [depth][vectors] with columns of b, and 0 beyond them.
    void pack(float* panel, bool sum) {
        const int64_t width = vectors() * UNITS;
        b = in_place();
        p.b_column == 1 ? pack_rows(panel, width, sum ? p.sums : nullptr) : pack_columns(panel, width);
    }
    // On the way, sum up its columns where that is asked for.
    ONCE void pack_rows(float* panel, int64_t width, float* sums_of_columns) {
        Lane sums[WIDE] = {};
        for (int64_t i = 0; i < depth; i++)
            for (int64_t v = 0; v < width; v += UNITS) {
                const float* from = b.at + i * b.row + v;
                __builtin_prefetch(from + 12 * b.row);
                const Lane x = load_first(from, columns - v);
                store(panel + i * width + v, x);
                sums[v / UNITS] += x;
            }
        if (!sums_of_columns) return;
        for (int64_t v = 0; v < width; v += UNITS) {
            float* to = sums_of_columns + c + v;
            store_first(to, k > 0 ? load_first(to, columns - v) + sums[v / UNITS] : sums[v / UNITS], columns - v);
        }
    }
    ONCE void pack_columns(float* panel, int64_t width) {
        for (int64_t v = 0; v < width; v += UNITS)
            for (int64_t i = 0; i < depth; i += UNITS) {
                const float* from = b.at + v * p.b_column + i;
                float* to = panel + i * width + v;
                Lane square[UNITS];
                if (v + UNITS <= columns && i + UNITS <= depth) {
                    UNROLL for (int u = 0; u < UNITS; u++) square[u] = load(from + u * p.b_column);
                    turn<float>(square);
                    UNROLL for (int u = 0; u < UNITS; u++) store(to + u * width, square[u]);
                    continue;
                }
                for (int u = 0; u < UNITS; u++)
                    square[u] = v + u < columns ? load_first(from + u * p.b_column, depth - i) : Lane{};
                turn<float>(square);
                for (int u = 0; u < UNITS && i + u < depth; u++) store(to + u * width, square[u]);
            }
    }
};

void multiply(const Product& p, char* scratch) {
    static_assert(sizeof(Multiply) <= PRODUCT_ROOM);
    (new (scratch) Multiply(p))->run();
}

}  // namespace ISA
}  // namespace regard
