// Beam search with an attentional GRU decoder, many steps per call, as seq2seq/decoding/beam.py defines it; float32.
//
// Rows are the live hypotheses, those of a sentence are adjacent. A step gathers the projections of the last words and
// the states of the parents, runs one recurrence step, and selects the most likely words; then each sentence chooses
// its new hypotheses. Rows do not depend on other sentences.
#include "core/tails.h"

#include <algorithm>

namespace regard {
namespace ISA {

int64_t recurrence_scratch(const Recurrence& p);  // recurrence.cpp
void recur(const Recurrence& p, bool backward, char* scratch);
void multiply(const Product& p, char* scratch);  // matrix.cpp
void top_k(const TopK& p, char* scratch);  // output_layer.cpp

class BeamSearch {
    struct Hypothesis {
        int64_t sentence, word, parent;  // last word; parent row
        double sum, log;  // log-probability of all words; of the last word
    };
    struct Candidate {
        double total;
        int64_t index;  // row of the sentence * count + rank of the word
    };

    Search& p;
    char* const scratch;
    Arena arena;
    const int64_t h, input_size, count, max_rows;  // count: words to select after each row
    char* recurrence_memory;
    float *table, *inputs, *start, *states, *attending_states, *gates, *second_gates, *queries, *contexts, *readout,
        *best_logits, *statistics;
    uint8_t* is_cached;  // words whose projection is cached in the table
    int64_t *sentences, *best_words, *missing;
    Hypothesis *beam, *next_beam;
    Candidate* candidates;
    double* worst_kept;  // score that a hypothesis must exceed to be kept

   public:
    BeamSearch(Search& p, char* scratch)
        : p(p), scratch(scratch), arena{p.workspace}, h(p.decoder.size), input_size(3 * h + p.size),
          // One may be the end token, and all others may extend one row.
          count(p.width == 1 ? 1 : std::min(p.width + 1, p.words)), max_rows(p.decoder.sentences * p.width) {
        const int64_t gates_size = 4 * width_of<float>(h) + 64;
        sentences = arena.allocate<int64_t>(max_rows), missing = arena.allocate<int64_t>(max_rows);
        recurrence_memory = arena.allocate<char>(recurrence_scratch(decoder(max_rows)));
        table = arena.allocate<float>(p.words * input_size), is_cached = arena.allocate<uint8_t>(p.words);
        inputs = allocate_rows(input_size), contexts = allocate_rows(input_size), readout = allocate_rows(p.size);
        start = allocate_rows(h), states = allocate_rows(h), attending_states = allocate_rows(h);
        gates = allocate_rows(gates_size), second_gates = p.decoder.second_weight ? allocate_rows(gates_size) : nullptr;
        queries = allocate_rows(p.decoder.hidden), best_logits = allocate_rows(count), statistics = allocate_rows(2);
        best_words = arena.allocate<int64_t>(max_rows * count);
        beam = arena.allocate<Hypothesis>(max_rows), next_beam = arena.allocate<Hypothesis>(max_rows);
        candidates = arena.allocate<Candidate>(p.width * count),
        worst_kept = arena.allocate<double>(p.decoder.sentences);
    }
    int64_t bytes() const { return arena.at - p.workspace; }

    // Run steps while there are rows and room for their output. Returns whether all values were finite.
    bool run() {
        if (p.step == 0) begin();
        p.steps_taken = 0;
        for (int64_t used = 0; p.rows > 0 && used + p.rows <= p.capacity; p.step++) {
            p.rows_per_step[p.steps_taken++] = p.rows;
            take_step(used);
            used += p.rows;
            if (!choose()) return false;
        }
        return true;
    }

   private:
    float* allocate_rows(int64_t elements) { return arena.allocate<float>(max_rows * elements); }

    Recurrence decoder(int64_t rows) const {
        Recurrence one = p.decoder;
        one.steps = 1, one.batch = rows, one.sentence_of_row = sentences;
        return one;
    }

    void begin() {
        memset(is_cached, 0, p.words);
        p.rows = p.decoder.sentences;
        memcpy(states, p.decoder.start, p.rows * h * sizeof(float));
        for (int64_t s = 0; s < p.rows; s++)
            beam[s] = {s, p.begin, s, 0, 0}, worst_kept[s] = -INF<double>, p.finished_count[s] = 0;
    }

    // One step of all rows: new states, and the most likely next words.
    void take_step(int64_t used) {
        gather_inputs();
        for (int64_t r = 0; r < p.rows; r++) {
            const Hypothesis& x = beam[r];
            sentences[r] = x.sentence;
            p.tokens[used + r] = x.word, p.parents[used + r] = x.parent, p.log_probabilities[used + r] = x.log;
            memcpy(start + r * h, states + x.parent * h, h * sizeof(float));
        }
        Recurrence one = decoder(p.rows);
        one.start = start, one.states = states, one.state_row = h, one.inputs = inputs, one.input_row = input_size;
        one.gates = gates, one.second_gates = second_gates, one.attending_states = attending_states,
        one.queries = queries;
        one.contexts = contexts, one.weights = p.attention_weights + used * one.positions,
        one.workspace_filled = p.step > 0;
        recur(one, false, recurrence_memory);
        for (int64_t r = 0; r < p.rows; r++) {
            const float *word_part = inputs + r * input_size + 3 * h, *context = contexts + r * input_size + 3 * h;
            for (int64_t c = 0; c < p.size; c += LANES)
                store_partial(readout + r * p.size + c,
                              load_partial(word_part + c, p.size - c) + load_partial(context + c, p.size - c),
                              p.size - c);
        }
        multiply({p.rows, h, p.size, h, 1, p.size, 1, p.size, states, p.readout_weight, nullptr, readout, nullptr, true,
                  TANH},
                 scratch);
        top_k({p.rows, p.words, p.size, count, p.begin + 1, nullptr, readout, p.output_weight, p.output_bias,
               best_logits, statistics, best_words},
              scratch);
    }

    // The words' projections to gates and readout; computed when a word first occurs.
    void gather_inputs() {
        int64_t missing_count = 0;
        float *embedded = readout, *computed = contexts;
        for (int64_t r = 0; r < p.rows; r++) {
            const int64_t word = beam[r].word;
            if (is_cached[word]) continue;
            is_cached[word] = true, missing[missing_count] = word;
            memcpy(embedded + missing_count++ * p.size, p.embedding + word * p.size, p.size * sizeof(float));
        }
        if (missing_count)
            multiply({missing_count, p.size, input_size, p.size, 1, input_size, 1, input_size, embedded, p.word_weight,
                      p.word_bias, computed, nullptr, false, 0},
                     scratch);
        for (int64_t i = 0; i < missing_count; i++)
            memcpy(table + missing[i] * input_size, computed + i * input_size, input_size * sizeof(float));
        for (int64_t r = 0; r < p.rows; r++)
            memcpy(inputs + r * input_size, table + beam[r].word * input_size, input_size * sizeof(float));
    }

    bool choose() {
        int64_t beam_size = 0;
        for (int64_t first = 0, last; first < p.rows; first = last) {
            for (last = first; last < p.rows && beam[last].sentence == beam[first].sentence;) last++;
            const int64_t candidate_count = candidates_of(first, last);
            if (candidate_count < 0) return false;
            keep_finished(first, candidate_count);
            beam_size = extend_beam(first, candidate_count, beam_size);
        }
        std::swap_ranges(beam, beam + beam_size, next_beam);
        p.rows = beam_size;
        return true;
    }

    // The best continuations of a sentence's rows in descending order; ties by row, then by word. -1 if a value is not
    // finite.
    int64_t candidates_of(int64_t first, int64_t last) {
        int64_t n = 0;
        for (int64_t r = first; r < last; r++) {
            const double largest = statistics[2 * r], all_words = std::log(double(statistics[2 * r + 1])) + largest;
            if (!std::isfinite(all_words)) return p.invalid_value = std::isfinite(largest) ? all_words : largest, -1;
            for (int64_t i = 0; i < count; i++) {
                const double total = double(best_logits[r * count + i]) + (beam[r].sum - all_words);
                if (total > -INF<double>) candidates[n++] = {total, (r - first) * count + i};
            }
        }
        const int64_t candidate_count = std::min(n, 2 * p.width);  // half of them may be end tokens
        std::partial_sort(candidates, candidates + candidate_count, candidates + n,
                          [](const Candidate& a, const Candidate& b) {
                              return a.total > b.total || (a.total == b.total && a.index < b.index);
                          });
        return candidate_count;
    }

    double divisor(int64_t length) const { return std::pow((p.offset + length) / (p.offset + 1), p.penalty); }
    int64_t word_of(int64_t first, const Candidate& x) const { return best_words[first * count + x.index]; }
    Hypothesis after(int64_t first, const Candidate& x) const {
        const int64_t row = first + x.index / count;
        const double sum = std::min(x.total, 0.0);
        return {beam[row].sentence, word_of(first, x), row, sum, sum - beam[row].sum};
    }

    // Keep the best continuations that end, if they are among the n best of the sentence.
    void keep_finished(int64_t first, int64_t candidate_count) {
        for (int64_t i = 0; i < std::min(candidate_count, p.width); i++) {
            if (word_of(first, candidates[i]) != p.end) continue;
            const Hypothesis x = after(first, candidates[i]);
            if (const double score = x.sum / divisor(p.step + 1); score > worst_kept[x.sentence])
                insert_finished(x, score);
        }
    }

    // Insert a finished hypothesis into the sentence's sorted list after equal ones.
    void insert_finished(const Hypothesis& x, double score) {
        Ending* const best_of = p.finished + x.sentence * p.n_best;
        int64_t& ended = p.finished_count[x.sentence];
        int64_t i = ended < p.n_best ? ended++ : p.n_best - 1;
        for (; i > 0 && best_of[i - 1].score < score; i--) best_of[i] = best_of[i - 1];
        best_of[i] = {score, x.log, p.step, x.parent, x.word};
        if (ended == p.n_best) worst_kept[x.sentence] = best_of[ended - 1].score;
    }

    // Extend the beam by the best continuations that can still become one of the n best.
    int64_t extend_beam(int64_t first, int64_t candidate_count, int64_t beam_size) {
        const int64_t sentence = beam[first].sentence, beam_start = beam_size;
        const double longest = divisor(p.max_length[sentence]);
        for (int64_t i = 0; i < candidate_count && beam_size - beam_start < p.width; i++) {
            const Hypothesis x = after(first, candidates[i]);
            if (x.word != p.end && x.sum / longest > worst_kept[sentence]) next_beam[beam_size++] = x;
        }
        if (beam_size > beam_start && p.step + 1 < p.max_length[sentence]) return beam_size;
        if (p.finished_count[sentence] == 0) {  // cut off at the maximum length
            const Hypothesis x = beam_size > beam_start ? next_beam[beam_start] : Hypothesis{sentence, -1, first, 0, 0};
            p.finished[sentence * p.n_best] = {std::numeric_limits<double>::quiet_NaN(), x.log, p.step, x.parent,
                                               x.word};
            p.finished_count[sentence] = 1;
        }
        return beam_start;
    }
};

int64_t search_bytes(const Search& p) {
    Search none = p;
    none.workspace = reinterpret_cast<char*>(64);  // never dereferenced
    return BeamSearch(none, nullptr).bytes();
}
bool search(Search& p, char* scratch) { return BeamSearch(p, scratch).run(); }

}  // namespace ISA
}  // namespace regard
