// Gated recurrent units over whole sequences, with or without a look at other states before each step; float32.
//
// Rows are sequences, lanes are units of the state (or features, or numbers of a context): a row never meets another.
// Weights are packed once for a call: a panel holds what a register tile needs at one depth side by side.
//
// A file of its own, so that it changes nothing in how the compiler treats attention.cpp.
#include "core/tails.h"

namespace regard {
namespace ISA {

constexpr int64_t TILE = WIDE * UNITS;  // columns of a tile
constexpr int64_t filled16(int64_t count) { return (count + 15) / 16 * 16; }

// 1 / (1 + exp(-x)); exp never sees a positive number.
INLINE Lane sigmoid(Lane x) {
    Lane faded = exp2<float>((x < 0 ? x : -x) * float(LOG2E));
    return (x < 0 ? faded : all(1.0f)) * reciprocal(1.0f + faded);
}

// ---- products with packed weights ----------------------------------------------------------------------------

// Columns in panels [depth][columns of the panel], filled up with 0: panels of TILE columns, the last ones of a vector.
struct Place {
    int64_t panel, width;  // first column of the panel that a column is in, and how many it has
};
inline Place place(int64_t column, int64_t columns) {
    const int64_t panel = column / TILE * TILE;
    return panel + TILE <= width_of<float>(columns) ? Place{panel, TILE} : Place{column, UNITS};
}
inline float* pack(const float* weight, int64_t depth, int64_t columns, Room& room, bool warm = false) {
    float* packed = room.take<float>(depth * width_of<float>(columns));
    if (warm) return packed;
    for (int64_t c = 0; c < columns; c += UNITS) {
        const Place at = place(c, columns);
        for (int64_t k = 0; k < depth; k++)
            store(packed + at.panel * depth + k * at.width + c - at.panel,
                  load_first(weight + k * columns + c, columns - c));
    }
    return packed;
}
// The same for the transposed of weight (columns, depth).
ONCE inline float* pack_turned(const float* weight, int64_t depth, int64_t columns, Room& room) {
    float* packed = room.take<float>(depth * width_of<float>(columns));
    for (int64_t c = 0; c < columns; c += UNITS) {
        const Place at = place(c, columns);
        for (int64_t k = 0; k < depth; k += UNITS) {
            Lane square[UNITS];
            if (c + UNITS <= columns && k + UNITS <= depth) {
                UNROLL for (int i = 0; i < UNITS; i++) square[i] = load(weight + (c + i) * depth + k);
                turn<float>(square);
                UNROLL for (int i = 0; i < UNITS; i++)
                    store(packed + at.panel * depth + (k + i) * at.width + c - at.panel, square[i]);
                continue;
            }
            for (int i = 0; i < UNITS; i++)
                square[i] = c + i < columns ? load_first(weight + (c + i) * depth + k, depth - k) : Lane{};
            turn<float>(square);
            for (int i = 0; i < UNITS && k + i < depth; i++)
                store(packed + at.panel * depth + (k + i) * at.width + c - at.panel, square[i]);
        }
    }
    return packed;
}
// Call f(number of rows, first row) for tiles of R rows, and the rest one by one: every tile more costs memory.
template <int R, class F>
INLINE void in_tiles(int64_t rows, F&& f) {
    int64_t r = 0;
    for (; r + R <= rows; r += R) f(std::integral_constant<int, R>{}, r);
    for (; r < rows; r++) f(std::integral_constant<int, 1>{}, r);
}

enum Onto : bool { NOTHING, WHAT_IS_THERE };

template <int NV>
void multiply_panel(const float* a, int64_t lda, int64_t rows, const float* panel, int64_t depth, Onto onto, float* out,
                    int64_t width) {
    in_tiles<ROWS>(rows, [&](auto size, int64_t r) {
        constexpr int R = decltype(size)::value;
        Lane sums[R][NV];
        UNROLL for (int i = 0; i < R; i++)
            UNROLL for (int v = 0; v < NV; v++)
                sums[i][v] = onto == NOTHING ? Lane{} : load(out + (r + i) * width + v * UNITS);
        product<float, R, NV, true>(sums, a + r * lda, lda, panel, NV * UNITS, depth);
        UNROLL for (int i = 0; i < R; i++)
            UNROLL for (int v = 0; v < NV; v++) store(out + (r + i) * width + v * UNITS, sums[i][v]);
    });
}

// a (rows, depth) @ packed, added to out (rows, columns filled up) or written there
ONCE inline void multiply(const float* a, int64_t lda, int64_t rows, const float* packed, int64_t depth, int64_t columns,
                          Onto onto, float* out) {
    const int64_t width = width_of<float>(columns);
    int64_t c = 0;
    for (; c + TILE <= width; c += TILE) multiply_panel<WIDE>(a, lda, rows, packed + c * depth, depth, onto, out + c, width);
    for (; c < width; c += UNITS) multiply_panel<1>(a, lda, rows, packed + c * depth, depth, onto, out + c, width);
}

// ---- the looks ------------------------------------------------------------------------------------------------

// Bahdanau's attention of one query to the keys of its sequence, by exp(2 x) of both as in scores.h.
class Look {
    const Recurrence& p;
    const int64_t width;  // of the hidden features, filled up
    float *key_exps, *query_exps, *vector, *logits, *dvector = nullptr;
    bool* wild;           // keys
    bool wild_query;
    float total = 0;

   public:
    static int64_t sentences(const Recurrence& p) { return p.sentence ? p.sentences : p.batch; }
    static int64_t numbers(const Recurrence& p) {
        int64_t width = width_of<float>(p.hidden), keys = sentences(p) * p.positions;
        return keys * width + keys + 3 * width + 3 * width_of<float>(p.positions) + 256;
    }
    ONCE Look(const Recurrence& p, Room& room) : p(p), width(width_of<float>(p.hidden)) {
        key_exps = room.take<float>(sentences(p) * p.positions * width);
        wild = room.take<bool>(sentences(p) * p.positions);
        query_exps = room.take<float>(width), vector = room.take<float>(width), dvector = room.take<float>(width);
        logits = room.take<float>(2 * width_of<float>(p.positions));
        memset(dvector, 0, width * sizeof(float));
        for (int64_t c = 0; c < width; c += UNITS) store(vector + c, load_first(p.vector + c, p.hidden - c));
        Lane sums{};
        for (int64_t c = 0; c < width; c += UNITS) sums += load(vector + c);
        total = sum<float>(sums);
        for (int64_t b = 0; !p.warm && b < sentences(p); b++)
            for (int64_t i = b * p.positions; i < b * p.positions + p.seen[b]; i++)
                wild[i] = grow(p.keys + i * p.hidden, key_exps + i * width);
    }

    // Fill the weights of row b and its context.
    void forward(int64_t b, const float* query, float* weights, float* context) {
        const int64_t seen = p.seen[b], all_keys = width_of<float>(seen);
        wild_query = grow(query, query_exps);
        for (int64_t j = 0; j < seen; j++) logits[j] = score(b, j, query);
        float top = -INF<float>;
        for (int64_t j = 0; j < seen; j++) top = logits[j] > top ? logits[j] : top;
        for (int64_t j = seen; j < all_keys; j++) logits[j] = -INF<float>;
        Lane sums{};
        for (int64_t j = 0; j < all_keys; j += UNITS) {
            Lane x = exp2<float>((load(logits + j) - top) * float(LOG2E));
            store(logits + j, load(logits + j) == -INF<float> ? Lane{} : x);
            sums += load(logits + j);
        }
        const float share = 1 / sum<float>(sums);
        memset(weights, 0, p.positions * sizeof(float));
        for (int64_t j = 0; j < seen; j++) weights[j] = logits[j] * share;
        collect(b, weights, context);
    }

    // Add what the gradient of a context gives to keys and values, and write that of the query.
    void backward(int64_t b, const float* query, const float* weights, const float* dcontext, const float* dweights,
                  float* dquery) {
        const int64_t seen = p.seen[b];
        in_tiles<4>(seen, [&](auto size, int64_t j) { back_values<decltype(size)::value>(b, j, weights, dcontext); });
        float mean = 0;
        for (int64_t j = 0; j < seen; j++) {
            if (dweights) logits[j] += dweights[j];
            mean += logits[j] * weights[j];
        }
        for (int64_t j = 0; j < seen; j++) logits[j] = weights[j] * (logits[j] - mean);
        wild_query = grow(query, query_exps);
        for (int64_t c = 0; c < p.hidden; c += UNITS) back_features(b, c, query, dquery);
    }

    void finish(float* out) { memcpy(out, dvector, p.hidden * sizeof(float)); }

   private:
    // Write exp(2 x), or 1 where that might be too large; returns whether it might.
    ONCE bool grow(const float* x, float* out) {
        I<float> tame = I<float>{} == 0;
        for (int64_t c = 0; c < width; c += UNITS) {
            Lane here = load_first(x + c, p.hidden - c);
            tame &= (here < 0 ? -here : here) <= Numbers<float>::WILD;
            store(out + c, exp2<float>(here * float(2 * LOG2E)));
        }
        int32_t all_tame = -1;
        for (int u = 0; u < UNITS; u++) all_tame &= tame[u];
        if (all_tame) return false;
        for (int64_t c = 0; c < width; c += UNITS) store(out + c, all(1.0f));
        return true;
    }

    bool is_wild(int64_t b, int64_t j) const { return wild_query || wild[b * p.positions + j]; }

    ONCE float score(int64_t b, int64_t j, const float* query) const {
        const float* exps = key_exps + (b * p.positions + j) * width;
        Lane found{};
        if (is_wild(b, j)) {
            const float* key = p.keys + (b * p.positions + j) * p.hidden;
            for (int64_t c = 0; c < p.hidden; c += UNITS) {
                Lane x = load_first(query + c, p.hidden - c) + load_first(key + c, p.hidden - c);
                found = fma(load(vector + c), tanh<float>(x), found);
            }
            return sum<float>(found);
        }
        for (int64_t c = 0; c < width; c += UNITS) {
            Lane grown = fma(load(query_exps + c), load(exps + c), all(1.0f));
            found = fma(load(vector + c), reciprocal(grown), found);
        }
        return total - 2 * sum<float>(found);
    }

    ONCE void collect(int64_t b, const float* weights, float* context) const {
        const float* values = p.values + b * p.positions * p.context;
        int64_t c = 0;
        for (; c + 4 * UNITS <= p.context; c += 4 * UNITS) {
            Lane sums[4] = {};
            for (int64_t j = 0; j < p.seen[b]; j++)
                UNROLL for (int v = 0; v < 4; v++)
                    sums[v] = fma(all(weights[j]), load(values + j * p.context + c + v * UNITS), sums[v]);
            UNROLL for (int v = 0; v < 4; v++) store(context + c + v * UNITS, sums[v]);
        }
        for (; c < p.context; c += UNITS) {
            Lane sums{};
            for (int64_t j = 0; j < p.seen[b]; j++)
                sums = fma(all(weights[j]), load_first(values + j * p.context + c, p.context - c), sums);
            store_first(context + c, sums, p.context - c);
        }
    }

    // The gradients of the weights of R keys, and of their values.
    template <int R>
    void back_values(int64_t b, int64_t j, const float* weights, const float* dcontext) {
        const int64_t at = (b * p.positions + j) * p.context;
        Lane sums[R] = {};
        for (int64_t c = 0; c < p.context; c += UNITS) {
            const Lane d = load(dcontext + c);
            UNROLL for (int r = 0; r < R; r++) {
                const int64_t place = at + r * p.context + c, some = p.context - c;
                sums[r] = fma(d, load_first(p.values + place, some), sums[r]);
                store_first(p.dvalues + place, fma(all(weights[j + r]), d, load_first(p.dvalues + place, some)), some);
            }
        }
        for (int r = 0; r < R; r++) logits[j + r] = sum<float>(sums[r]);
    }

    // One vector of features of all keys: 1 - tanh^2 is 4 r (1 - r), with 1 - r = exps * r.
    ONCE void back_features(int64_t b, int64_t c, const float* query, float* dquery) {
        const int64_t some = p.hidden - c;
        const Lane left = load(query_exps + c), weight = load(vector + c);
        Lane of_query{}, of_vector = load(dvector + c);
        for (int64_t j = 0; j < p.seen[b]; j++) {
            const int64_t i = b * p.positions + j;
            Lane squashed, slope;
            if (is_wild(b, j)) {
                squashed = tanh<float>(load_first(query + c, some) + load_first(p.keys + i * p.hidden + c, some));
                slope = 1.0f - squashed * squashed;
            } else {
                Lane product = left * load(key_exps + i * width + c), r = reciprocal(1.0f + product);
                squashed = 1.0f - 2.0f * r;
                slope = 4.0f * r * (product * r);
            }
            Lane d = logits[j] * weight * slope;
            of_query += d;
            of_vector = fma(all(logits[j]), squashed, of_vector);
            float* dkey = p.dkeys + i * p.hidden + c;
            store_first(dkey, load_first(dkey, some) + d, some);
        }
        store_first(dquery + c, of_query, some);
        store(dvector + c, of_vector);
    }
};

// ---- the recurrence -------------------------------------------------------------------------------------------

class Recur {
    const Recurrence& p;
    const int64_t h, width;
    Room room;

    static bool attends(const Recurrence& p) { return p.keys; }
    int64_t step(int64_t i) const { return p.reversed ? p.steps - 1 - i : i; }
    bool sleeps(int64_t t, int64_t r) const { return p.lengths && t >= p.lengths[r]; }
    struct Rows {
        const float* at;
        int64_t row;
    };
    // The states before the i-th step.
    Rows before(int64_t i) const {
        if (i == 0) return {p.start, h};
        return {p.states + step(i - 1) * p.batch * p.state_row, p.state_row};
    }
    int64_t gates_row() const { return 4 * filled16(h); }
    float* gates(int64_t i) const { return p.gates ? p.gates + step(i) * p.batch * gates_row() : nullptr; }

   public:
    static int64_t scratch(const Recurrence& p) {
        int64_t h = filled16(p.size), a = filled16(p.hidden), c = filled16(p.context), gates = filled16(3 * p.size);
        int64_t weights = h * gates + (attends(p) ? c * gates + h * a : 0) + (p.after_weight ? h * gates : 0);
        int64_t rows = p.batch * (2 * gates + h + c + a);
        return (weights + rows + (attends(p) ? Look::numbers(p) : 0)) * int64_t(sizeof(float)) + 8192;
    }
    Recur(const Recurrence& p, char* scratch) : p(p), h(p.size), width(width_of<float>(p.size)), room{scratch} {}

    void forward() {
        const float* state_weight = pack(p.state_weight, h, 3 * h, room, p.warm);
        if (attends(p)) return unroll(state_weight);
        float* hidden = room.take<float>(p.batch * sums_row());
        for (int64_t i = 0; i < p.steps && !stopped(p.stop); i++) {
            const int64_t t = step(i);
            take_step(before(i), state_weight, p.state_bias, inputs(t), states(t), p.state_row, gates(i), hidden, t);
        }
    }

    void backward() {
        const float* to_state = pack_turned(p.state_weight, 3 * h, h, room);
        float* dstate = room.take<float>(p.batch * width);
        memset(dstate, 0, p.batch * width * sizeof(float));
        if (attends(p)) roll_up(to_state, dstate);
        else
            for (int64_t i = p.steps - 1; i >= 0 && !stopped(p.stop); i--) {
                back_step(before(i), gates(i), dstates(step(i)), dinputs(step(i)), dhidden(step(i)), dstate, step(i));
                multiply(dhidden(step(i)), 3 * h, p.batch, to_state, 3 * h, h, WHAT_IS_THERE, dstate);
            }
        for (int64_t r = 0; r < p.batch; r++) memcpy(p.dstart + r * h, dstate + r * width, h * sizeof(float));
    }

   private:
    Rows inputs(int64_t t) const { return {p.inputs + t * p.batch * p.input_row, p.input_row}; }
    float* states(int64_t t) const { return p.states + t * p.batch * p.state_row; }
    Rows between(int64_t t) const { return {p.between + t * p.batch * h, h}; }
    float* after_gates(int64_t t) const { return p.after_gates + t * p.batch * gates_row(); }
    const float* dstates(int64_t t) const { return p.dstates + t * p.batch * p.dstate_row; }
    struct WrittenRows {
        float* at;
        int64_t row;
    };
    WrittenRows dinputs(int64_t t) const { return {p.dinputs + t * p.batch * p.dinput_row, p.dinput_row}; }
    WrittenRows dafter(int64_t t) const { return {p.dafter + t * p.batch * 3 * h, 3 * h}; }
    float* dhidden(int64_t t) const { return p.dhidden + t * p.batch * 3 * h; }
    float* dafter_hidden(int64_t t) const { return p.dafter_hidden + t * p.batch * 3 * h; }

    int64_t sums_row() const { return width_of<float>(3 * h); }

    void unroll(const float* state_weight) {
        const float *query_weight = pack(p.query_weight, h, p.hidden, room, p.warm), *context_weight = nullptr,
                    *after_weight = nullptr;
        if (p.context_weight) context_weight = pack(p.context_weight, p.context, 3 * h, room, p.warm);
        if (p.after_weight) after_weight = pack(p.after_weight, h, 3 * h, room, p.warm);
        Look look(p, room);  // what is kept lies first, at places that don't depend on the number of rows
        float *hidden = room.take<float>(p.batch * sums_row()), *given = room.take<float>(p.batch * sums_row()),
              *queries = room.take<float>(p.batch * width_of<float>(p.hidden));
        for (int64_t t = 0; t < p.steps && !stopped(p.stop); t++) {
            const Rows past = before(t);
            if (after_weight)
                take_step(past, state_weight, nullptr, inputs(t), p.between + t * p.batch * h, h, gates(t), hidden, t);
            const Rows looking = after_weight ? between(t) : past;
            multiply(looking.at, looking.row, p.batch, query_weight, h, p.hidden, NOTHING, queries);
            see(t, look, queries);
            const Rows known = after_weight ? Rows{p.after_bias, 0} : inputs(t);
            for (int64_t b = 0; b < p.batch; b++)
                memcpy(given + b * sums_row(), known.at + b * known.row, 3 * h * sizeof(float));
            const float* contexts = p.contexts + t * p.batch * p.context;
            if (context_weight)
                multiply(contexts, p.context, p.batch, context_weight, p.context, 3 * h, WHAT_IS_THERE, given);
            else add(contexts, given);
            take_step(looking, after_weight ? after_weight : state_weight, nullptr, {given, sums_row()}, states(t),
                      p.state_row, after_weight ? after_gates(t) : gates(t), hidden, t);
        }
    }

    void see(int64_t t, Look& look, const float* queries) const {
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t row = t * p.batch + b;
            float* query = p.queries + row * p.hidden;
            memcpy(query, queries + b * width_of<float>(p.hidden), p.hidden * sizeof(float));
            look.forward(p.sentence ? p.sentence[b] : b, query, p.weights + row * p.positions, p.contexts + row * p.context);
        }
    }

    void roll_up(const float* to_state, float* dstate) {
        const float *to_context = pack_turned(p.context_weight, 3 * h, p.context, room),
                    *to_query = pack_turned(p.query_weight, p.hidden, h, room),
                    *to_between = p.after_weight ? pack_turned(p.after_weight, 3 * h, h, room) : nullptr;
        float* dcontext = room.take<float>(p.batch * width_of<float>(p.context));
        Look look(p, room);
        for (int64_t t = p.steps - 1; t >= 0 && !stopped(p.stop); t--) {
            const WrittenRows last = to_between ? dafter(t) : dinputs(t);
            float* last_hidden = to_between ? dafter_hidden(t) : dhidden(t);
            if (to_between) back_step(between(t), after_gates(t), dstates(t), last, last_hidden, dstate, t);
            else back_step(before(t), gates(t), dstates(t), last, last_hidden, dstate, t);
            back_look(t, look, to_context, {last.at, last.row}, dcontext);
            multiply(last_hidden, 3 * h, p.batch, to_between ? to_between : to_state, 3 * h, h, WHAT_IS_THERE, dstate);
            multiply(p.dqueries + t * p.batch * p.hidden, p.hidden, p.batch, to_query, p.hidden, h, WHAT_IS_THERE, dstate);
            if (!to_between) continue;
            back_step(before(t), gates(t), nullptr, dinputs(t), dhidden(t), dstate, t);
            multiply(dhidden(t), 3 * h, p.batch, to_state, 3 * h, h, WHAT_IS_THERE, dstate);
        }
        look.finish(p.dvector);
    }

    void add(const float* contexts, float* given) const {
        for (int64_t b = 0; b < p.batch; b++, contexts += p.context, given += sums_row())
            for (int64_t c = 0; c < 3 * h; c += UNITS)
                store(given + c, load(given + c) + load_first(contexts + c, 3 * h - c));
    }

    // One step of all rows, at time t: from what they know and are given to states at `out`.
    void take_step(Rows past, const float* weight, const float* bias, Rows given, float* out, int64_t out_row, float* kept,
                   float* hidden, int64_t t) const {
        if (bias)
            for (int64_t r = 0; r < p.batch; r++) memcpy(hidden + r * sums_row(), bias, 3 * h * sizeof(float));
        multiply(past.at, past.row, p.batch, weight, h, 3 * h, bias ? WHAT_IS_THERE : NOTHING, hidden);
        for (int64_t r = 0; r < p.batch; r++) {
            const float* state = past.at + r * past.row;
            if (sleeps(t, r)) memcpy(out + r * out_row, state, h * sizeof(float));
            else new_state(given.at + r * given.row, given.row, hidden + r * sums_row(), state, out + r * out_row,
                           kept ? kept + r * gates_row() : nullptr);
        }
    }

    void new_state(const float* given, int64_t given_row, const float* hidden, const float* state, float* out,
                   float* kept) const {
        for (int64_t j = 0; j < h; j += UNITS) {
            Lane outside[3], inside[3];
            UNROLL for (int g = 0; g < 3; g++) {
                outside[g] = load_first(given + g * h + j, h - j);
                inside[g] = load_first(hidden + g * h + j, h - j);
            }
            const Lane reset = sigmoid(outside[0] + inside[0]), update = sigmoid(outside[1] + inside[1]);
            const Lane candidate = tanh<float>(fma(reset, inside[2], outside[2]));
            const Lane before = load_first(state + j, h - j);
            store_first(out + j, fma(update, before - candidate, candidate), h - j);
            const Lane found[4] = {reset, update, candidate, inside[2]};
            if (kept)
                UNROLL for (int g = 0; g < 4; g++) {
                    store(kept + 4 * j + g * UNITS, found[g]);
                    __builtin_prefetch(kept + gates_row() + 4 * j + g * UNITS, 1);  // the next row
                }
            UNROLL for (int g = 0; g < 3; g++) __builtin_prefetch(given + given_row + g * h + j);
        }
    }

    // From the gradients of the states after a step, `dstate` and more if there are, to those of the gates' two halves;
    // what goes straight to the states before stays in dstate.
    ONCE void back_step(Rows past, const float* kept, const float* more, WrittenRows outside, float* inside, float* dstate,
                        int64_t t) const {
        for (int64_t r = 0; r < p.batch; r++, outside.at += outside.row, inside += 3 * h, kept += gates_row())
            for (int64_t j = 0; j < h; j += UNITS) {
                const int64_t some = h - j;
                float* d = dstate + r * width + j;
                Lane dnew = load(d);
                if (more) dnew += load_first(more + r * p.dstate_row + j, some);
                Lane found[4] = {};
                if (sleeps(t, r)) store(d, dnew);
                else store(d, back_gates(kept + 4 * j, load_first(past.at + r * past.row + j, some), dnew, found));
                UNROLL for (int g = 0; g < 3; g++) {
                    __builtin_prefetch(outside.at + outside.row + g * h + j, 1);  // the next row, to be written
                    __builtin_prefetch(inside + (3 + g) * h + j, 1);
                    __builtin_prefetch(kept + gates_row() + 4 * j + g * UNITS);
                    store_first(outside.at + g * h + j, found[g], some);
                    store_first(inside + g * h + j, found[g < 2 ? g : 3], some);
                }
            }
    }
    Lane back_gates(const float* kept, Lane state, Lane dnew, Lane (&found)[4]) const {
        const Lane reset = load(kept), update = load(kept + UNITS), candidate = load(kept + 2 * UNITS);
        const Lane dcandidate = dnew * (1.0f - update) * (1.0f - candidate * candidate);
        found[0] = dcandidate * load(kept + 3 * UNITS) * (reset * (1.0f - reset));
        found[1] = dnew * (state - candidate) * (update * (1.0f - update));
        found[2] = dcandidate;
        found[3] = dcandidate * reset;
        return dnew * update;
    }

    void back_look(int64_t t, Look& look, const float* to_context, Rows dgates, float* dcontext) const {
        const int64_t filled = width_of<float>(p.context);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t c = 0; c < p.context; c += UNITS)
                store(dcontext + b * filled + c,
                      load_first(p.dcontexts + (t * p.batch + b) * p.context + c, p.context - c));
        multiply(dgates.at, dgates.row, p.batch, to_context, 3 * h, p.context, WHAT_IS_THERE, dcontext);
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t row = t * p.batch + b;
            look.backward(b, p.queries + row * p.hidden, p.weights + row * p.positions, dcontext + b * filled,
                          p.dweights ? p.dweights + row * p.positions : nullptr, p.dqueries + row * p.hidden);
        }
    }
};

int64_t recurrence_scratch(const Recurrence& p) { return Recur::scratch(p); }
void recur(const Recurrence& p, bool backward, char* scratch) {
    Recur made(p, scratch);
    backward ? made.backward() : made.forward();
}

}  // namespace ISA
}  // namespace regard
