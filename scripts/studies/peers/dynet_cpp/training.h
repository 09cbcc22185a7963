// What the programs share: weights by our names, LSTMs with them, and steps of Adam that are timed.
#pragma once

#include <dynet/dynet.h>
#include <dynet/expr.h>
#include <dynet/init.h>
#include <dynet/lstm.h>
#include <dynet/param-init.h>
#include <dynet/training.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "problem.h"

using dynet::ComputationGraph;
using dynet::Expression;
using dynet::Parameter;
using dynet::affine_transform;
using dynet::concatenate;

// Of a weight in `Weights`.
using Number = unsigned;

struct Linear {
  Number bias, weight;
};

class Weights {
 public:
  explicit Weights(const Problem& problem) : problem_(problem) {}

  bool has(const std::string& name) const { return problem_.has("weights." + name); }

  Array<float> array(const std::string& name) const { return problem_.array<float>("weights." + name); }

  // The rows from `first` on, and of these the columns from `left` on.
  Number part(const std::string& name, unsigned first, unsigned rows, unsigned left = 0, unsigned width = 0) {
    const auto whole = array(name);
    const unsigned columns = whole.shape.size() > 1 ? whole.shape[1] : 1;
    if (!width) width = columns;
    std::vector<float> numbers;  // column by column
    for (unsigned column = left; column < left + width; ++column)
      for (unsigned row = first; row < first + rows; ++row) numbers.push_back(whole.numbers[row * columns + column]);
    const dynet::Dim size = width > 1 ? dynet::Dim({rows, width}) : dynet::Dim({rows});
    parameters_.push_back(collection.add_parameters(size, dynet::ParameterInitFromVector(numbers)));
    return parameters_.size() - 1;
  }

  Number whole(const std::string& name) { return part(name, 0, array(name).shape[0]); }

  Linear linear(const std::string& name) { return {whole(name + ".bias"), whole(name + ".weight")}; }

  dynet::LookupParameter table(const std::string& name) {
    const auto rows = array(name);
    const dynet::ParameterInitFromVector values(rows.numbers);
    return collection.add_lookup_parameters(rows.shape[0], {rows.shape[1]}, values);
  }

  // Each weight is one node of a graph: DyNet batches no operations with different nodes as their weights.
  void begin(ComputationGraph& graph) {
    nodes_.clear();
    for (const auto& each : parameters_) nodes_.push_back(parameter(graph, each));
  }

  const Expression& operator[](Number number) const { return nodes_[number]; }

  Expression apply(const Linear& linear, const Expression& value) const {
    return affine_transform({nodes_[linear.bias], nodes_[linear.weight], value});
  }

  dynet::ParameterCollection collection;

 private:
  Problem problem_;
  std::vector<Parameter> parameters_;
  std::vector<Expression> nodes_;
};

// One direction of one layer. Vanilla LSTMs have an operation for each step of the equations, compact ones one for
// all gates.
class LSTM {
 public:
  LSTM(Weights& weights, const std::string& name, const std::string& layer, bool compact) {
    const auto shape = weights.array(name + ".weight_ih_" + layer).shape;
    const unsigned hidden = shape[0] / 4;
    if (compact) {
      auto* builder = new dynet::CompactVanillaLSTMBuilder(1, shape[1], hidden, weights.collection);
      builder_.reset(builder);
      fill(builder->params[0], weights, name, layer, 1);
    } else {
      auto* builder = new dynet::VanillaLSTMBuilder(1, shape[1], hidden, weights.collection, false, 0.f);
      builder_.reset(builder);
      fill(builder->params[0], weights, name, layer, 0);
    }
  }

  void begin(ComputationGraph& graph) { builder_->new_graph(graph); }

  // The states, in the order of the vectors; backwards: those of the recurrence from the last to the first.
  std::vector<Expression> run(const std::vector<Expression>& vectors, bool backwards) {
    builder_->start_new_sequence();
    std::vector<Expression> states(vectors.size());
    for (size_t step = 0; step < vectors.size(); ++step) {
      const size_t place = backwards ? vectors.size() - 1 - step : step;
      states[place] = builder_->add_input(vectors[place]);
    }
    return states;
  }

 private:
  // forget_bias: what the builder itself adds to the bias of the forget gates.
  static void fill(std::vector<Parameter>& parameters, const Weights& weights, const std::string& name,
                   const std::string& layer, float forget_bias) {
    const char* const names[] = {".weight_ih_", ".weight_hh_", ".bias_ih_"};
    const unsigned gates[] = {0, 1, 3, 2};  // ours: input, forget, cell, output; DyNet's: the cell gate last
    for (int each = 0; each < 3; ++each) {
      const auto ours = weights.array(name + names[each] + layer);
      const unsigned rows = ours.shape[0], hidden = rows / 4, columns = ours.numbers.size() / rows;
      std::vector<float> numbers;  // column by column
      for (unsigned column = 0; column < columns; ++column)
        for (const unsigned gate : gates)
          for (unsigned row = gate * hidden; row < (gate + 1) * hidden; ++row)
            numbers.push_back(ours.numbers[row * columns + column] - (each == 2 && gate == 1 ? forget_bias : 0));
      parameters[each].set_value(numbers);
    }
  }

  std::unique_ptr<dynet::RNNBuilder> builder_;
};

class BiLSTM {
 public:
  BiLSTM(Weights& weights, const std::string& name, bool compact) {
    for (int layer = 0; weights.has(name + ".weight_ih_l" + std::to_string(layer)); ++layer)
      for (const char* direction : {"", "_reverse"})
        lstms_.emplace_back(weights, name, "l" + std::to_string(layer) + direction, compact);
  }

  void begin(ComputationGraph& graph) {
    for (auto& lstm : lstms_) lstm.begin(graph);
  }

  // The states of the top layer, forwards and backwards, in the order of the vectors.
  std::pair<std::vector<Expression>, std::vector<Expression>> read(std::vector<Expression> vectors) {
    std::vector<Expression> left, right;
    for (size_t layer = 0; layer < lstms_.size(); layer += 2) {
      if (layer)
        for (size_t place = 0; place < vectors.size(); ++place) vectors[place] = concatenate({left[place], right[place]});
      left = lstms_[layer].run(vectors, false);
      right = lstms_[layer + 1].run(vectors, true);
    }
    return {left, right};
  }

 private:
  std::vector<LSTM> lstms_;
};

struct Options {
  std::string problem;
  bool compact;
  int warmup, batches;
};

// DyNet's own options, which begin with --dynet, come from anywhere in the command line.
inline Options options(int argc, char** argv) {
  dynet::initialize(argc, argv);
  if (argc != 5) {
    std::cerr << "usage: " << argv[0] << " PROBLEM vanilla|compact WARMUP BATCHES [--dynet-autobatch 1]\n";
    std::exit(2);
  }
  return {argv[1], std::string(argv[2]) == "compact", std::atoi(argv[3]), std::atoi(argv[4])};
}

inline void check(const char* when, double found, double expected, double tolerance) {
  std::printf("loss of the first batch %s a step: %.6g, and %.6g by our program\n", when, found, expected);
  if (!(std::fabs(found - expected) <= tolerance * std::fabs(expected)))
    throw std::runtime_error("the losses differ");
}

// Compares the loss of the first batch with ours, before and after a step, and prints examples per second.
// losses: records some examples, and returns their losses.
template <class Example>
void time_training(const Problem& problem, Weights& weights, const std::vector<Example>& examples,
                   const std::function<std::vector<Expression>(ComputationGraph&, const std::vector<Example>&)>& losses,
                   const Options& options) {
  std::vector<std::vector<Example>> batches;
  const size_t size = problem.number<int>("batch_size");
  for (size_t start = 0; start < examples.size(); start += size)
    batches.emplace_back(examples.begin() + start, examples.begin() + std::min(start + size, examples.size()));
  dynet::AdamTrainer trainer(weights.collection, problem.number<float>("learning_rate"));
  trainer.clipping_enabled = false;  // the others do not clip gradients
  const auto step = [&](const std::vector<Example>& batch, bool update) {
    ComputationGraph graph;
    weights.begin(graph);
    const Expression loss = sum(losses(graph, batch));
    const double value = dynet::as_scalar(graph.forward(loss));
    if (update) {
      graph.backward(loss);
      trainer.update();
    }
    return value;
  };
  const auto expected = problem.array<double>("losses").numbers;
  check("before", step(batches[0], true), expected[0], 1e-4);
  check("after", step(batches[0], false), expected[1], 1e-3);
  for (int number = 0; number < options.warmup; ++number) step(batches[number % batches.size()], true);
  size_t done = 0;
  const auto began = std::chrono::steady_clock::now();
  for (int number = options.warmup; number < options.warmup + options.batches; ++number) {
    const auto& batch = batches[number % batches.size()];
    step(batch, true);
    done += batch.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  std::printf("%.2f sentences/s\n", done / seconds.count());
}
