// Gated recurrent units (GRU) over complete sequences, with or without attention before each step; float32.
//
// Rows are sequences, lanes are units of the state (or features, or elements of a context): rows are independent.
// Weights are packed once per call into panels, in the order in which register tiles read them.
#include "core/tails.h"

namespace regard {
namespace ISA {

constexpr int64_t TILE = TILE_VECTORS * LANES;  // columns of a tile
constexpr int64_t padded16(int64_t count) { return (count + 15) / 16 * 16; }

// 1 / (1 + exp(-x)); exp only gets arguments up to 0, so it cannot overflow.
INLINE Vector sigmoid(Vector x) {
    Vector decay = exp2<float>((x < 0 ? x : -x) * float(LOG2E));
    return (x < 0 ? decay : broadcast(1.0f)) * reciprocal(1.0f + decay);
}

// ---- products with packed weights ---------------------------------------------------------------------------

// Columns in panels [depth][columns of the panel], padded with 0: panels of TILE columns, then of one vector.
struct PanelPosition {
    int64_t panel, width;  // first column of the panel with a column; its width
};
inline PanelPosition panel_position(int64_t column, int64_t columns) {
    const int64_t panel = column / TILE * TILE;
    return panel + TILE <= width_of<float>(columns) ? PanelPosition{panel, TILE} : PanelPosition{column, LANES};
}
inline float* pack(const float* weight, int64_t depth, int64_t columns, Arena& arena, bool workspace_filled = false) {
    float* packed = arena.allocate<float>(depth * width_of<float>(columns));
    if (workspace_filled) return packed;
    for (int64_t c = 0; c < columns; c += LANES) {
        const PanelPosition at = panel_position(c, columns);
        for (int64_t k = 0; k < depth; k++)
            store(packed + at.panel * depth + k * at.width + c - at.panel,
                  load_partial(weight + k * columns + c, columns - c));
    }
    return packed;
}
NOINLINE inline float* pack_transposed(const float* weight, int64_t depth, int64_t columns, Arena& arena) {
    float* packed = arena.allocate<float>(depth * width_of<float>(columns));
    for (int64_t c = 0; c < columns; c += LANES) {
        const PanelPosition at = panel_position(c, columns);
        for (int64_t k = 0; k < depth; k += LANES) {
            Vector square[LANES];
            if (c + LANES <= columns && k + LANES <= depth) {
                UNROLL for (int i = 0; i < LANES; i++) square[i] = load(weight + (c + i) * depth + k);
                transpose_square<float>(square);
                UNROLL for (int i = 0; i < LANES; i++)
                    store(packed + at.panel * depth + (k + i) * at.width + c - at.panel, square[i]);
                continue;
            }
            for (int i = 0; i < LANES; i++)
                square[i] = c + i < columns ? load_partial(weight + (c + i) * depth + k, depth - k) : Vector{};
            transpose_square<float>(square);
            for (int i = 0; i < LANES && k + i < depth; i++)
                store(packed + at.panel * depth + (k + i) * at.width + c - at.panel, square[i]);
        }
    }
    return packed;
}
// Call f(number of rows, first row) for tiles of R rows, then for single rows: more tile sizes would cost code size.
template <int R, class F>
INLINE void for_tiles(int64_t rows, F&& f) {
    int64_t r = 0;
    for (; r + R <= rows; r += R) f(std::integral_constant<int, R>{}, r);
    for (; r < rows; r++) f(std::integral_constant<int, 1>{}, r);
}

enum Output : bool { OVERWRITE, ADD };

template <int NV>
void multiply_panel(const float* a, int64_t lda, int64_t rows, const float* panel, int64_t depth, Output output,
                    float* out, int64_t width) {
    for_tiles<ROWS>(rows, [&](auto size, int64_t r) {
        constexpr int R = decltype(size)::value;
        Vector sums[R][NV];
        UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < NV; v++) sums[i][v] =
            output == OVERWRITE ? Vector{} : load(out + (r + i) * width + v * LANES);
        product<float, R, NV, true>(sums, a + r * lda, lda, panel, NV * LANES, depth);
        UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < NV; v++)
            store(out + (r + i) * width + v * LANES, sums[i][v]);
    });
}

// out (rows, padded columns) = a (rows, depth) @ packed, or += with ADD.
NOINLINE inline void multiply(const float* a, int64_t lda, int64_t rows, const float* packed, int64_t depth,
                              int64_t columns, Output output, float* out) {
    const int64_t width = width_of<float>(columns);
    int64_t c = 0;
    for (; c + TILE <= width; c += TILE)
        multiply_panel<TILE_VECTORS>(a, lda, rows, packed + c * depth, depth, output, out + c, width);
    for (; c < width; c += LANES) multiply_panel<1>(a, lda, rows, packed + c * depth, depth, output, out + c, width);
}

// ---- attention ----------------------------------------------------------------------------------------------

// Additive (Bahdanau) attention of one query to the keys of its sequence, from exp(2 x) of both as in core/scores.h.
class Attention {
    const Recurrence& p;
    const int64_t width;  // padded number of hidden features
    float *key_exps, *query_exps, *vector, *logits, *dvector = nullptr;
    bool* overflows;  // of keys
    bool query_overflows;
    float total = 0;

   public:
    static int64_t sentences(const Recurrence& p) { return p.sentence_of_row ? p.sentences : p.batch; }
    static int64_t elements(const Recurrence& p) {
        int64_t width = width_of<float>(p.hidden), keys = sentences(p) * p.positions;
        return keys * width + keys + 3 * width + 3 * width_of<float>(p.positions) + 256;
    }
    NOINLINE Attention(const Recurrence& p, Arena& arena) : p(p), width(width_of<float>(p.hidden)) {
        key_exps = arena.allocate<float>(sentences(p) * p.positions * width);
        overflows = arena.allocate<bool>(sentences(p) * p.positions);
        query_exps = arena.allocate<float>(width), vector = arena.allocate<float>(width);
        dvector = arena.allocate<float>(width), logits = arena.allocate<float>(2 * width_of<float>(p.positions));
        memset(dvector, 0, width * sizeof(float));
        for (int64_t c = 0; c < width; c += LANES) store(vector + c, load_partial(p.vector + c, p.hidden - c));
        Vector sums{};
        for (int64_t c = 0; c < width; c += LANES) sums += load(vector + c);
        total = sum<float>(sums);
        for (int64_t b = 0; !p.workspace_filled && b < sentences(p); b++)
            for (int64_t i = b * p.positions; i < b * p.positions + p.valid_positions[b]; i++)
                overflows[i] = exponentials(p.keys + i * p.hidden, key_exps + i * width);
    }

    // Compute the weights of row b and its context.
    void forward(int64_t b, const float* query, float* weights, float* context) {
        const int64_t valid_keys = p.valid_positions[b], padded_keys = width_of<float>(valid_keys);
        query_overflows = exponentials(query, query_exps);
        for (int64_t j = 0; j < valid_keys; j++) logits[j] = score(b, j, query);
        float maximum = -INF<float>;
        for (int64_t j = 0; j < valid_keys; j++) maximum = logits[j] > maximum ? logits[j] : maximum;
        for (int64_t j = valid_keys; j < padded_keys; j++) logits[j] = -INF<float>;
        Vector sums{};
        for (int64_t j = 0; j < padded_keys; j += LANES) {
            Vector x = exp2<float>((load(logits + j) - maximum) * float(LOG2E));
            store(logits + j, load(logits + j) == -INF<float> ? Vector{} : x);
            sums += load(logits + j);
        }
        const float scale = 1 / sum<float>(sums);
        memset(weights, 0, p.positions * sizeof(float));
        for (int64_t j = 0; j < valid_keys; j++) weights[j] = logits[j] * scale;
        weighted_sum(b, weights, context);
    }

    // Accumulate the gradients of keys and values, and write the gradient of the query.
    void backward(int64_t b, const float* query, const float* weights, const float* dcontext, const float* dweights,
                  float* dquery) {
        const int64_t valid_keys = p.valid_positions[b];
        for_tiles<4>(valid_keys,
                     [&](auto size, int64_t j) { values_backward<decltype(size)::value>(b, j, weights, dcontext); });
        float mean = 0;
        for (int64_t j = 0; j < valid_keys; j++) {
            if (dweights) logits[j] += dweights[j];
            mean += logits[j] * weights[j];
        }
        for (int64_t j = 0; j < valid_keys; j++) logits[j] = weights[j] * (logits[j] - mean);
        query_overflows = exponentials(query, query_exps);
        for (int64_t c = 0; c < p.hidden; c += LANES) features_backward(b, c, query, dquery);
    }

    void finish(float* out) { memcpy(out, dvector, p.hidden * sizeof(float)); }

   private:
    // Write exp(2 x), or 1 if it could overflow; returns whether it could.
    NOINLINE bool exponentials(const float* x, float* out) {
        I<float> in_range = I<float>{} == 0;
        for (int64_t c = 0; c < width; c += LANES) {
            Vector features = load_partial(x + c, p.hidden - c);
            in_range &= (features < 0 ? -features : features) <= MathConstants<float>::EXP_LIMIT;
            store(out + c, exp2<float>(features * float(2 * LOG2E)));
        }
        int32_t all_in_range = -1;
        for (int u = 0; u < LANES; u++) all_in_range &= in_range[u];
        if (all_in_range) return false;
        for (int64_t c = 0; c < width; c += LANES) store(out + c, broadcast(1.0f));
        return true;
    }

    bool pair_overflows(int64_t b, int64_t j) const { return query_overflows || overflows[b * p.positions + j]; }

    NOINLINE float score(int64_t b, int64_t j, const float* query) const {
        const float* exps = key_exps + (b * p.positions + j) * width;
        Vector result{};
        if (pair_overflows(b, j)) {
            const float* key = p.keys + (b * p.positions + j) * p.hidden;
            for (int64_t c = 0; c < p.hidden; c += LANES) {
                Vector x = load_partial(query + c, p.hidden - c) + load_partial(key + c, p.hidden - c);
                result = fma(load(vector + c), tanh<float>(x), result);
            }
            return sum<float>(result);
        }
        for (int64_t c = 0; c < width; c += LANES) {
            Vector exponential = fma(load(query_exps + c), load(exps + c), broadcast(1.0f));
            result = fma(load(vector + c), reciprocal(exponential), result);
        }
        return total - 2 * sum<float>(result);
    }

    NOINLINE void weighted_sum(int64_t b, const float* weights, float* context) const {
        const float* values = p.values + b * p.positions * p.context;
        int64_t c = 0;
        for (; c + 4 * LANES <= p.context; c += 4 * LANES) {
            Vector sums[4] = {};
            for (int64_t j = 0; j < p.valid_positions[b]; j++)
                UNROLL for (int v = 0; v < 4; v++) sums[v] =
                    fma(broadcast(weights[j]), load(values + j * p.context + c + v * LANES), sums[v]);
            UNROLL for (int v = 0; v < 4; v++) store(context + c + v * LANES, sums[v]);
        }
        for (; c < p.context; c += LANES) {
            Vector sums{};
            for (int64_t j = 0; j < p.valid_positions[b]; j++)
                sums = fma(broadcast(weights[j]), load_partial(values + j * p.context + c, p.context - c), sums);
            store_partial(context + c, sums, p.context - c);
        }
    }

    // The gradients of the weights of R keys, and of their values.
    template <int R>
    void values_backward(int64_t b, int64_t j, const float* weights, const float* dcontext) {
        const int64_t at = (b * p.positions + j) * p.context;
        Vector sums[R] = {};
        for (int64_t c = 0; c < p.context; c += LANES) {
            const Vector d = load(dcontext + c);
            UNROLL for (int r = 0; r < R; r++) {
                const int64_t offset = at + r * p.context + c, rest = p.context - c;
                sums[r] = fma(d, load_partial(p.values + offset, rest), sums[r]);
                store_partial(p.dvalues + offset,
                              fma(broadcast(weights[j + r]), d, load_partial(p.dvalues + offset, rest)), rest);
            }
        }
        for (int r = 0; r < R; r++) logits[j + r] = sum<float>(sums[r]);
    }

    // One vector of features for all keys: 1 - tanh^2 is 4 r (1 - r), with 1 - r = exps * r.
    NOINLINE void features_backward(int64_t b, int64_t c, const float* query, float* dquery) {
        const int64_t rest = p.hidden - c;
        const Vector left = load(query_exps + c), weight = load(vector + c);
        Vector of_query{}, of_vector = load(dvector + c);
        for (int64_t j = 0; j < p.valid_positions[b]; j++) {
            const int64_t i = b * p.positions + j;
            Vector squashed, slope;
            if (pair_overflows(b, j)) {
                squashed = tanh<float>(load_partial(query + c, rest) + load_partial(p.keys + i * p.hidden + c, rest));
                slope = 1.0f - squashed * squashed;
            } else {
                Vector product = left * load(key_exps + i * width + c), r = reciprocal(1.0f + product);
                squashed = 1.0f - 2.0f * r;
                slope = 4.0f * r * (product * r);
            }
            Vector d = logits[j] * weight * slope;
            of_query += d;
            of_vector = fma(broadcast(logits[j]), squashed, of_vector);
            float* dkey = p.dkeys + i * p.hidden + c;
            store_partial(dkey, load_partial(dkey, rest) + d, rest);
        }
        store_partial(dquery + c, of_query, rest);
        store(dvector + c, of_vector);
    }
};

// ---- the recurrence -----------------------------------------------------------------------------------------

class Gru {
    const Recurrence& p;
    const int64_t h, width;
    Arena arena;

    static bool has_attention(const Recurrence& p) { return p.keys; }
    int64_t step(int64_t i) const { return p.reversed ? p.steps - 1 - i : i; }
    bool has_ended(int64_t t, int64_t r) const { return p.lengths && t >= p.lengths[r]; }
    struct Rows {
        const float* at;
        int64_t row;
    };
    // The states before the i-th step.
    Rows before(int64_t i) const {
        if (i == 0) return {p.start, h};
        return {p.states + step(i - 1) * p.batch * p.state_row, p.state_row};
    }
    int64_t gates_row() const { return 4 * padded16(h); }
    float* gates(int64_t i) const { return p.gates ? p.gates + step(i) * p.batch * gates_row() : nullptr; }

   public:
    static int64_t scratch(const Recurrence& p) {
        int64_t h = padded16(p.size), a = padded16(p.hidden), c = padded16(p.context), gates = padded16(3 * p.size);
        int64_t weights = h * gates + (has_attention(p) ? c * gates + h * a : 0) + (p.second_weight ? h * gates : 0);
        int64_t rows = p.batch * (2 * gates + h + c + a);
        return (weights + rows + (has_attention(p) ? Attention::elements(p) : 0)) * int64_t(sizeof(float)) + 8192;
    }
    Gru(const Recurrence& p, char* scratch) : p(p), h(p.size), width(width_of<float>(p.size)), arena{scratch} {}

    void forward() {
        const float* state_weight = pack(p.state_weight, h, 3 * h, arena, p.workspace_filled);
        if (has_attention(p)) return forward_attention(state_weight);
        float* hidden = arena.allocate<float>(p.batch * sums_row());
        for (int64_t i = 0; i < p.steps && !stopped(p.stop); i++) {
            const int64_t t = step(i);
            step_forward(before(i), state_weight, p.state_bias, inputs(t), states(t), p.state_row, gates(i), hidden, t);
        }
    }

    void backward() {
        const float* to_state = pack_transposed(p.state_weight, 3 * h, h, arena);
        float* dstate = arena.allocate<float>(p.batch * width);
        memset(dstate, 0, p.batch * width * sizeof(float));
        if (has_attention(p)) backward_attention(to_state, dstate);
        else
            for (int64_t i = p.steps - 1; i >= 0 && !stopped(p.stop); i--) {
                step_backward(before(i), gates(i), dstates(step(i)), dinputs(step(i)), dhidden(step(i)), dstate,
                              step(i));
                multiply(dhidden(step(i)), 3 * h, p.batch, to_state, 3 * h, h, ADD, dstate);
            }
        for (int64_t r = 0; r < p.batch; r++) memcpy(p.dstart + r * h, dstate + r * width, h * sizeof(float));
    }

   private:
    Rows inputs(int64_t t) const { return {p.inputs + t * p.batch * p.input_row, p.input_row}; }
    float* states(int64_t t) const { return p.states + t * p.batch * p.state_row; }
    Rows attending_states(int64_t t) const { return {p.attending_states + t * p.batch * h, h}; }
    float* second_gates(int64_t t) const { return p.second_gates + t * p.batch * gates_row(); }
    const float* dstates(int64_t t) const { return p.dstates + t * p.batch * p.dstate_row; }
    struct MutableRows {
        float* at;
        int64_t row;
    };
    MutableRows dinputs(int64_t t) const { return {p.dinputs + t * p.batch * p.dinput_row, p.dinput_row}; }
    MutableRows dsecond(int64_t t) const { return {p.dsecond + t * p.batch * 3 * h, 3 * h}; }
    float* dhidden(int64_t t) const { return p.dhidden + t * p.batch * 3 * h; }
    float* dsecond_hidden(int64_t t) const { return p.dsecond_hidden + t * p.batch * 3 * h; }

    int64_t sums_row() const { return width_of<float>(3 * h); }

    void forward_attention(const float* state_weight) {
        const float *query_weight = pack(p.query_weight, h, p.hidden, arena, p.workspace_filled),
                    *context_weight = nullptr, *second_weight = nullptr;
        if (p.context_weight) context_weight = pack(p.context_weight, p.context, 3 * h, arena, p.workspace_filled);
        if (p.second_weight) second_weight = pack(p.second_weight, h, 3 * h, arena, p.workspace_filled);
        // the data kept across calls comes first, at offsets that do not depend on the number of rows
        Attention attention(p, arena);
        float *hidden = arena.allocate<float>(p.batch * sums_row()),
              *gate_inputs = arena.allocate<float>(p.batch * sums_row()),
              *queries = arena.allocate<float>(p.batch * width_of<float>(p.hidden));
        for (int64_t t = 0; t < p.steps && !stopped(p.stop); t++) {
            const Rows previous = before(t);
            if (second_weight)
                step_forward(previous, state_weight, nullptr, inputs(t), p.attending_states + t * p.batch * h, h,
                             gates(t), hidden, t);
            const Rows query_states = second_weight ? attending_states(t) : previous;
            multiply(query_states.at, query_states.row, p.batch, query_weight, h, p.hidden, OVERWRITE, queries);
            attend(t, attention, queries);
            const Rows step_inputs = second_weight ? Rows{p.second_bias, 0} : inputs(t);
            for (int64_t b = 0; b < p.batch; b++)
                memcpy(gate_inputs + b * sums_row(), step_inputs.at + b * step_inputs.row, 3 * h * sizeof(float));
            const float* contexts = p.contexts + t * p.batch * p.context;
            if (context_weight)
                multiply(contexts, p.context, p.batch, context_weight, p.context, 3 * h, ADD, gate_inputs);
            else add(contexts, gate_inputs);
            step_forward(query_states, second_weight ? second_weight : state_weight, nullptr, {gate_inputs, sums_row()},
                         states(t), p.state_row, second_weight ? second_gates(t) : gates(t), hidden, t);
        }
    }

    void attend(int64_t t, Attention& attention, const float* queries) const {
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t row = t * p.batch + b;
            float* query = p.queries + row * p.hidden;
            memcpy(query, queries + b * width_of<float>(p.hidden), p.hidden * sizeof(float));
            attention.forward(p.sentence_of_row ? p.sentence_of_row[b] : b, query, p.weights + row * p.positions,
                              p.contexts + row * p.context);
        }
    }

    void backward_attention(const float* to_state, float* dstate) {
        const float *to_context = pack_transposed(p.context_weight, 3 * h, p.context, arena),
                    *to_query = pack_transposed(p.query_weight, p.hidden, h, arena),
                    *to_first = p.second_weight ? pack_transposed(p.second_weight, 3 * h, h, arena) : nullptr;
        float* dcontext = arena.allocate<float>(p.batch * width_of<float>(p.context));
        Attention attention(p, arena);
        for (int64_t t = p.steps - 1; t >= 0 && !stopped(p.stop); t--) {
            const MutableRows last = to_first ? dsecond(t) : dinputs(t);
            float* last_hidden = to_first ? dsecond_hidden(t) : dhidden(t);
            if (to_first) step_backward(attending_states(t), second_gates(t), dstates(t), last, last_hidden, dstate, t);
            else step_backward(before(t), gates(t), dstates(t), last, last_hidden, dstate, t);
            attend_backward(t, attention, to_context, {last.at, last.row}, dcontext);
            multiply(last_hidden, 3 * h, p.batch, to_first ? to_first : to_state, 3 * h, h, ADD, dstate);
            multiply(p.dqueries + t * p.batch * p.hidden, p.hidden, p.batch, to_query, p.hidden, h, ADD, dstate);
            if (!to_first) continue;
            step_backward(before(t), gates(t), nullptr, dinputs(t), dhidden(t), dstate, t);
            multiply(dhidden(t), 3 * h, p.batch, to_state, 3 * h, h, ADD, dstate);
        }
        attention.finish(p.dvector);
    }

    void add(const float* contexts, float* gate_inputs) const {
        for (int64_t b = 0; b < p.batch; b++, contexts += p.context, gate_inputs += sums_row())
            for (int64_t c = 0; c < 3 * h; c += LANES)
                store(gate_inputs + c, load(gate_inputs + c) + load_partial(contexts + c, 3 * h - c));
    }

    // One GRU step of all rows at time t: from their states and inputs to new states at `out`.
    void step_forward(Rows previous, const float* weight, const float* bias, Rows gate_inputs, float* out,
                      int64_t out_row, float* saved, float* hidden, int64_t t) const {
        if (bias)
            for (int64_t r = 0; r < p.batch; r++) memcpy(hidden + r * sums_row(), bias, 3 * h * sizeof(float));
        multiply(previous.at, previous.row, p.batch, weight, h, 3 * h, bias ? ADD : OVERWRITE, hidden);
        for (int64_t r = 0; r < p.batch; r++) {
            const float* state = previous.at + r * previous.row;
            if (has_ended(t, r)) memcpy(out + r * out_row, state, h * sizeof(float));
            else
                new_state(gate_inputs.at + r * gate_inputs.row, gate_inputs.row, hidden + r * sums_row(), state,
                          out + r * out_row, saved ? saved + r * gates_row() : nullptr);
        }
    }

    void new_state(const float* gate_inputs, int64_t inputs_row, const float* hidden, const float* state, float* out,
                   float* saved) const {
        for (int64_t j = 0; j < h; j += LANES) {
            Vector x[3], u[3];
            UNROLL for (int g = 0; g < 3; g++) {
                x[g] = load_partial(gate_inputs + g * h + j, h - j);
                u[g] = load_partial(hidden + g * h + j, h - j);
            }
            const Vector reset = sigmoid(x[0] + u[0]), update = sigmoid(x[1] + u[1]);
            const Vector candidate = tanh<float>(fma(reset, u[2], x[2]));
            const Vector before = load_partial(state + j, h - j);
            store_partial(out + j, fma(update, before - candidate, candidate), h - j);
            const Vector result[4] = {reset, update, candidate, u[2]};
            if (saved) UNROLL for (int g = 0; g < 4; g++) {
                    store(saved + 4 * j + g * LANES, result[g]);
                    __builtin_prefetch(saved + gates_row() + 4 * j + g * LANES, 1);  // of the next row
                }
            UNROLL for (int g = 0; g < 3; g++) __builtin_prefetch(gate_inputs + inputs_row + g * h + j);
        }
    }

    // From the gradients of the states after a step, `dstate` plus `extra`, to those of the two inputs of the gates.
    // The direct gradient of the previous states is left in dstate.
    NOINLINE void step_backward(Rows previous, const float* saved, const float* extra, MutableRows from_input,
                                float* from_state, float* dstate, int64_t t) const {
        for (int64_t r = 0; r < p.batch;
             r++, from_input.at += from_input.row, from_state += 3 * h, saved += gates_row())
            for (int64_t j = 0; j < h; j += LANES) {
                const int64_t rest = h - j;
                float* d = dstate + r * width + j;
                Vector dnew = load(d);
                if (extra) dnew += load_partial(extra + r * p.dstate_row + j, rest);
                Vector result[4] = {};
                if (has_ended(t, r)) store(d, dnew);
                else
                    store(d, gates_backward(saved + 4 * j, load_partial(previous.at + r * previous.row + j, rest), dnew,
                                            result));
                UNROLL for (int g = 0; g < 3; g++) {
                    __builtin_prefetch(from_input.at + from_input.row + g * h + j, 1);  // of the next row
                    __builtin_prefetch(from_state + (3 + g) * h + j, 1);
                    __builtin_prefetch(saved + gates_row() + 4 * j + g * LANES);
                    store_partial(from_input.at + g * h + j, result[g], rest);
                    store_partial(from_state + g * h + j, result[g < 2 ? g : 3], rest);
                }
            }
    }
    Vector gates_backward(const float* saved, Vector state, Vector dnew, Vector (&result)[4]) const {
        const Vector reset = load(saved), update = load(saved + LANES), candidate = load(saved + 2 * LANES);
        const Vector dcandidate = dnew * (1.0f - update) * (1.0f - candidate * candidate);
        result[0] = dcandidate * load(saved + 3 * LANES) * (reset * (1.0f - reset));
        result[1] = dnew * (state - candidate) * (update * (1.0f - update));
        result[2] = dcandidate;
        result[3] = dcandidate * reset;
        return dnew * update;
    }

    void attend_backward(int64_t t, Attention& attention, const float* to_context, Rows dgates, float* dcontext) const {
        const int64_t padded = width_of<float>(p.context);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t c = 0; c < p.context; c += LANES)
                store(dcontext + b * padded + c,
                      load_partial(p.dcontexts + (t * p.batch + b) * p.context + c, p.context - c));
        multiply(dgates.at, dgates.row, p.batch, to_context, 3 * h, p.context, ADD, dcontext);
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t row = t * p.batch + b;
            attention.backward(b, p.queries + row * p.hidden, p.weights + row * p.positions, dcontext + b * padded,
                               p.dweights ? p.dweights + row * p.positions : nullptr, p.dqueries + row * p.hidden);
        }
    }
};

int64_t recurrence_bytes(const Recurrence& p) { return Gru::scratch(p); }
void recur(const Recurrence& p, bool backward, char* scratch) {
    Gru gru(p, p.workspace ? p.workspace : scratch);
    backward ? gru.backward() : gru.forward();
}

}  // namespace ISA
}  // namespace regard
