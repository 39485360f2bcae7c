// Products of matrices of the size that layers of small networks have; float32.
//
// A panel of b, three vectors wide, is packed so that it stays in the nearest cache while all rows of a pass by, which are
// read where they are. A number of the result is a sum over the depth in order, whatever the shapes: a row never depends
// on the others.
#include "some.h"

namespace regard {
namespace ISA {

constexpr int64_t PANEL_DEPTH = 192, PANEL = WIDE * UNITS;

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
        UNROLL for (int v = 0; v < NV; v++) sums[r][v] = load(start.at + r * start.row + v * UNITS);
    product<float, ROWS, NV, ACROSS>(sums, a.at, a.row, b.at, b.row, depth);
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < NV; v++) store(out + r * out_row + v * UNITS, sums[r][v]);
}

ONCE static void squash(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += UNITS) store_first(x + i, tanh<float>(load_first(x + i, count - i)), count - i);
}

ONCE static void copy(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, columns * sizeof(float));
}

class Multiply {
    const Product& p;
    const bool across;
    int64_t k, depth, c, columns;  // where the panel begins, and what there is of it
    Part b;                        // the panel: packed, or where it is
    alignas(64) float packed[PANEL_DEPTH * PANEL], bias[PANEL], edge[ROWS * PANEL_DEPTH] = {}, sums[ROWS * PANEL] = {};

   public:
    explicit Multiply(const Product& p) : p(p), across(p.a_column == 1) {}

    void run() {
        for (c = 0; c < p.columns; c += PANEL)
            for (k = 0; k < p.depth; k += PANEL_DEPTH) {
                columns = std::min<int64_t>(PANEL, p.columns - c), depth = std::min<int64_t>(PANEL_DEPTH, p.depth - k);
                pass();
            }
    }

   private:
    int64_t vectors() const { return (columns + UNITS - 1) / UNITS; }
    bool fresh() const { return k == 0 && !p.onto; }

    // All rows of a by a panel.
    void pass() {
        b = {p.b + k * p.b_row + c * p.b_column, p.b_row};
        if (p.b_column != 1 || columns < PANEL || p.rows > 8 * ROWS) pack();
        memset(bias, 0, sizeof bias);
        if (p.bias) memcpy(bias, p.bias + c, columns * sizeof(float));
        for (int64_t r = 0; r < p.rows; r += ROWS) {
            const Part a = {p.a + r * p.a_row + k * p.a_column, across ? p.a_row : p.a_column};
            float* out = p.out + r * p.out_row + c;
            const int64_t rows = std::min<int64_t>(ROWS, p.rows - r);
            if (rows == ROWS && columns % UNITS == 0) one(a, fresh() ? Part{bias, 0} : Part{out, p.out_row}, out, p.out_row);
            else at_edge(a, rows, out);
            if (p.squash && k + depth == p.depth)
                for (int64_t i = 0; i < rows; i++) squash(out + i * p.out_row, columns);
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
        if (rows < ROWS) {
            if (across) copy(a.at, a.row, edge, PANEL_DEPTH, rows, depth), a = {edge, PANEL_DEPTH};
            else copy(a.at, a.row, edge, ROWS, depth, rows), a = {edge, ROWS};
        }
        if (!fresh()) copy(out, p.out_row, sums, PANEL, rows, columns);
        one(a, fresh() ? Part{bias, 0} : Part{sums, PANEL}, sums, PANEL);
        copy(sums, PANEL, out, p.out_row, rows, columns);
    }

    // Fill the panel [depth][vectors] with columns of b, and 0 beyond them.
    ONCE void pack() {
        const int64_t width = vectors() * UNITS;
        for (int64_t v = 0; v < width; v += UNITS) {
            if (p.b_column == 1) {
                for (int64_t i = 0; i < depth; i++)
                    store(packed + i * width + v, load_first(b.at + i * b.row + v, columns - v));
                continue;
            }
            for (int64_t i = 0; i < depth; i += UNITS) {
                Lane square[UNITS];
                for (int u = 0; u < UNITS; u++)
                    square[u] = v + u < columns ? load_first(b.at + (v + u) * p.b_column + i, depth - i) : Lane{};
                turn<float>(square);
                for (int u = 0; u < UNITS && i + u < depth; u++) store(packed + (i + u) * width + v, square[u]);
            }
        }
        b = {packed, width};
    }
};

void multiply(const Product& p) { Multiply(p).run(); }

}  // namespace ISA
}  // namespace regard
