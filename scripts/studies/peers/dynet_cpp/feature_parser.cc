// The parser over BiLSTM features in DyNet, beside ours: the same weights, batches, decisions and steps.
//
// States and decisions are those of parser/speed/tasks/feature_parser/dynamic_oracle.py, for one sentence.
#include <limits>

#include "training.h"

enum { SHIFT, LEFT, RIGHT };
const int NOTHING = -1, CONTEXT_WORDS = 4;
const double MARGIN = 1;

// ROOT is the last word. As a head, it is n for n words.
struct Sentence {
  std::vector<int> words, tags, heads, labels;
  std::vector<double> chances;
};

std::vector<Sentence> sentences_of(const Problem& problem) {
  const auto words = problem.ragged<int>("words"), tags = problem.ragged<int>("tags");
  const auto heads = problem.ragged<int>("heads"), labels = problem.ragged<int>("labels");
  const auto chances = problem.ragged<double>("chances");
  std::vector<Sentence> sentences;
  for (size_t place = 0; place < words.size(); ++place)
    sentences.push_back({words[place], tags[place], heads[place], labels[place], chances[place]});
  return sentences;
}

class State {
 public:
  explicit State(const Sentence& sentence)
      : heads_(sentence.heads), on_stack_(heads_.size() + 1), below_(heads_.size() + 1), last_(heads_.size() + 1, -1) {
    for (int word = 0; word < int(heads_.size()); ++word) last_[heads_[word]] = word;
    heads_.push_back(NOTHING);
    for (int word = 0; word < int(heads_.size()); ++word) leftmost_.push_back(word);
    rightmost_ = leftmost_;
  }

  bool finished() const { return stack_.empty() && front_ == root(); }

  int from_top(size_t below) const { return below < stack_.size() ? stack_[stack_.size() - 1 - below] : NOTHING; }

  // Of the three topmost words of the stack and of the front: the leftmost and the rightmost dependents.
  std::vector<int> features() const {
    std::vector<int> found;
    for (const int word : {from_top(2), from_top(1), from_top(0), front_}) {
      found.push_back(word == NOTHING ? NOTHING : leftmost_[word]);
      found.push_back(word == NOTHING ? NOTHING : rightmost_[word]);
    }
    return found;
  }

  bool legal(int kind) const {
    if (kind == SHIFT) return front_ < root();
    return stack_.size() > (kind == LEFT ? 0 : 1);
  }

  // Whether a legal transition leaves all reachable gold arcs reachable.
  bool costs_nothing(int kind) const {
    const int top = from_top(0), second = from_top(1);
    if (kind == SHIFT) {
      const int head = heads_[front_];
      const bool head_is_below = head != NOTHING && on_stack_[head] && head != top;
      return !head_is_below && below_[front_] == 0;
    }
    if (last_[top] >= front_) return false;
    const int head = heads_[top];
    return kind == LEFT ? head <= front_ && (head != second || second == NOTHING) : head < front_;
  }

  void advance(int kind) {
    if (kind == SHIFT) {
      stack_.push_back(front_);
      on_stack_[front_] = true;
      ++below_[heads_[front_]];
      ++front_;
      return;
    }
    const int word = from_top(0);
    (kind == LEFT ? leftmost_[front_] : rightmost_[from_top(1)]) = word;
    stack_.pop_back();
    on_stack_[word] = false;
    --below_[heads_[word]];
  }

 private:
  int root() const { return int(heads_.size()) - 1; }

  std::vector<int> heads_, stack_, leftmost_, rightmost_;
  std::vector<char> on_stack_;
  std::vector<int> below_;  // dependents on the stack, of each word
  std::vector<int> last_;   // the last dependent of each word, or -1
  int front_ = 0;
};

struct Scores {
  Expression kinds, labelled;
};

class FeatureParser {
 public:
  FeatureParser(Weights& weights, const Problem& problem, bool compact)
      : weights_(weights),
        label_count_(problem.number<int>("label_count")),
        explore_(problem.number<double>("explore")),
        words_(weights.table("words.weight")),
        tags_(weights.table("tags")),
        nothing_(weights.table("nothing")),
        reader_(weights, "reader", compact),
        outputs_{weights.linear("kinds"), weights.linear("labelled")} {
    const unsigned middle = weights.array("middle.bias").shape[0] / 2;
    for (unsigned half = 0; half < 2; ++half)
      middles_[half] = {weights.part("middle.bias", half * middle, middle),
                        weights.part("middle.weight", half * middle, middle)};
  }

  std::vector<Expression> losses(ComputationGraph& graph, const std::vector<Sentence>& sentences) {
    reader_.begin(graph);
    const Expression nothing = lookup(graph, nothing_, 0u);
    std::vector<std::vector<Expression>> vectors;
    std::vector<State> states;
    for (const auto& sentence : sentences) {
      vectors.push_back(vectors_of(graph, sentence));
      states.emplace_back(sentence);
    }
    std::vector<Expression> found;
    for (size_t step = 0;; ++step) {
      std::vector<size_t> rows;
      std::vector<Scores> scores;
      for (size_t row = 0; row < states.size(); ++row) {
        if (states[row].finished()) continue;
        std::vector<Expression> parts;
        for (const int word : states[row].features()) parts.push_back(word == NOTHING ? nothing : vectors[row][word]);
        rows.push_back(row);
        scores.push_back(score(concatenate(parts)));
      }
      if (rows.empty()) return found;
      graph.incremental_forward(scores.back().labelled);  // and all before it
      for (size_t place = 0; place < rows.size(); ++place)
        decide(sentences[rows[place]], states[rows[place]], step, scores[place], found);
    }
  }

 private:
  std::vector<Expression> vectors_of(ComputationGraph& graph, const Sentence& sentence) {
    std::vector<Expression> inputs, found;
    for (size_t place = 0; place < sentence.words.size(); ++place)
      inputs.push_back(
          concatenate({lookup(graph, words_, sentence.words[place]), lookup(graph, tags_, sentence.tags[place])}));
    const auto states = reader_.read(inputs);
    for (size_t place = 0; place < inputs.size(); ++place)
      found.push_back(concatenate({states.first[place], states.second[place]}));
    return found;
  }

  Scores score(const Expression& state) const {
    return {weights_.apply(outputs_[0], tanh(weights_.apply(middles_[0], state))),
            weights_.apply(outputs_[1], tanh(weights_.apply(middles_[1], state)))};
  }

  // Transitions: Shift, then Left and then Right with each label.
  int kind_of(int transition) const { return (transition + label_count_ - 1) / label_count_; }

  // Advances a sentence by one step, and adds the loss if there is one.
  void decide(const Sentence& sentence, State& state, size_t step, const Scores& scores,
              std::vector<Expression>& losses) const {
    const auto of_kinds = dynet::as_vector(scores.kinds.value()), of_labelled = dynet::as_vector(scores.labelled.value());
    bool legal[3], free[3];
    for (const int kind : {SHIFT, LEFT, RIGHT}) {
      legal[kind] = state.legal(kind);
      free[kind] = legal[kind] && state.costs_nothing(kind);
    }
    const int top = state.from_top(0), gold = top == NOTHING ? NOTHING : sentence.labels[top];
    const double least = -std::numeric_limits<double>::infinity();
    double best_right = least, best_wrong = least;
    int right = 0, wrong = 0;
    for (int transition = 0; transition <= 2 * label_count_; ++transition) {
      const int kind = kind_of(transition);
      if (!legal[kind]) continue;
      const double total = double(of_kinds[kind]) + of_labelled[transition];
      const bool is_right = free[kind] && (kind == SHIFT || (transition - 1) % label_count_ == gold);
      double& best = is_right ? best_right : best_wrong;
      if (total > best) {
        best = total;
        (is_right ? right : wrong) = transition;
      }
    }
    const double gap = best_right - best_wrong;
    const bool explores = gap < 0 || sentence.chances[step] < explore_;
    state.advance(kind_of(gap < MARGIN && explores ? wrong : right));
    if (gap < MARGIN) losses.push_back(float(MARGIN) + total(scores, wrong) - total(scores, right));
  }

  Expression total(const Scores& scores, int transition) const {
    return pick(scores.kinds, unsigned(kind_of(transition))) + pick(scores.labelled, unsigned(transition));
  }

  const Weights& weights_;
  int label_count_;
  double explore_;
  dynet::LookupParameter words_, tags_, nothing_;
  BiLSTM reader_;
  Linear outputs_[2], middles_[2];
};

int main(int argc, char** argv) {
  const Options given = options(argc, argv);
  const Problem problem(given.problem);
  Weights weights(problem);
  FeatureParser parser(weights, problem, given.compact);
  time_training<Sentence>(
      problem, weights, sentences_of(problem),
      [&](ComputationGraph& graph, const std::vector<Sentence>& batch) { return parser.losses(graph, batch); }, given);
}
