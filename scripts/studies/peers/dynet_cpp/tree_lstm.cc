// The binary Tree-LSTM in DyNet, beside ours: the same weights, batches and steps.
#include "training.h"

// Nodes are numbered: leaves from left to right, then inner nodes, children before their parents.
struct Tree {
  std::vector<int> words, labels, left, right;
};

std::vector<Tree> trees_of(const Problem& problem) {
  const auto words = problem.ragged<int>("words"), labels = problem.ragged<int>("labels");
  const auto left = problem.ragged<int>("left"), right = problem.ragged<int>("right");
  std::vector<Tree> trees;
  for (size_t place = 0; place < words.size(); ++place)
    trees.push_back({words[place], labels[place], left[place], right[place]});
  return trees;
}

struct State {
  Expression hidden, cell;
};

class TreeLSTM {
 public:
  explicit TreeLSTM(Weights& weights)
      : weights_(weights),
        words_(weights.table("words.weight")),
        forget_left_(weights.linear("forget_left")),
        forget_right_(weights.linear("forget_right")),
        scores_(weights.linear("scores")) {
    const unsigned hidden = weights.array("forget_left.bias").shape[0];
    for (unsigned gate = 0; gate < 3; ++gate) {
      const unsigned first = gate * hidden;
      leaf_.push_back({weights.part("leaf.bias", first, hidden), weights.part("leaf.weight", first, hidden)});
      inner_.push_back({weights.part("gates.bias", first, hidden),
                        weights.part("gates.weight", first, hidden, 0, hidden),
                        weights.part("gates.weight", first, hidden, hidden, hidden)});
    }
  }

  std::vector<Expression> losses(ComputationGraph& graph, const std::vector<Tree>& trees) const {
    std::vector<Expression> found;
    for (const auto& tree : trees) {
      std::vector<State> states;
      for (const int word : tree.words) states.push_back(start(graph, word));
      for (size_t place = 0; place < tree.left.size(); ++place)
        states.push_back(join(states[tree.left[place]], states[tree.right[place]]));
      for (size_t node = 0; node < states.size(); ++node)
        found.push_back(pickneglogsoftmax(weights_.apply(scores_, states[node].hidden), unsigned(tree.labels[node])));
    }
    return found;
  }

 private:
  struct Gate {
    Number bias, of_left, of_right;
  };

  State start(ComputationGraph& graph, int word) const {
    const Expression vector = lookup(graph, words_, word);
    return state_of(weights_.apply(leaf_[0], vector), weights_.apply(leaf_[1], vector), weights_.apply(leaf_[2], vector), {});
  }

  State join(const State& left, const State& right) const {
    Expression gates[3];  // cell, input, output
    for (int gate = 0; gate < 3; ++gate) {
      const Gate& own = inner_[gate];
      gates[gate] = affine_transform(
          {weights_[own.bias], weights_[own.of_left], left.hidden, weights_[own.of_right], right.hidden});
    }
    return state_of(gates[1], gates[0], gates[2],
                    {cmult(logistic(weights_.apply(forget_left_, left.hidden)), left.cell),
                     cmult(logistic(weights_.apply(forget_right_, right.hidden)), right.cell)});
  }

  static State state_of(const Expression& input, const Expression& cell_gate, const Expression& output,
                        const std::vector<Expression>& kept) {
    Expression cell = cmult(logistic(input), tanh(cell_gate));
    for (const auto& child : kept) cell = cell + child;
    return {cmult(logistic(output), tanh(cell)), cell};
  }

  const Weights& weights_;
  dynet::LookupParameter words_;
  std::vector<Linear> leaf_;  // input, cell, output
  std::vector<Gate> inner_;
  Linear forget_left_, forget_right_, scores_;
};

int main(int argc, char** argv) {
  const Options given = options(argc, argv);
  const Problem problem(given.problem);
  Weights weights(problem);
  const TreeLSTM network(weights);
  time_training<Tree>(
      problem, weights, trees_of(problem),
      [&](ComputationGraph& graph, const std::vector<Tree>& batch) { return network.losses(graph, batch); }, given);
}
