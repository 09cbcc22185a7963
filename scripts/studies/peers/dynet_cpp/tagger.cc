// The BiLSTM taggers in DyNet, beside ours: the same weights, batches and steps.
#include "training.h"

struct Sentence {
  std::vector<int> words, labels;
  std::vector<std::vector<int>> spellings;  // the characters of each word; none for a word that is looked up
};

std::vector<Sentence> sentences_of(const Problem& problem) {
  const auto words = problem.ragged<int>("words"), labels = problem.ragged<int>("labels");
  const auto spellings = problem.ragged<int>("spellings");
  std::vector<Sentence> sentences;
  auto first = spellings.begin();
  for (size_t place = 0; place < words.size(); ++place) {
    sentences.push_back({words[place], labels[place], {first, first + words[place].size()}});
    first += words[place].size();
  }
  return sentences;
}

class Tagger {
 public:
  Tagger(Weights& weights, bool compact)
      : weights_(weights),
        words_(weights.table("words.weight")),
        reader_(weights, "reader", compact),
        speller_(weights, "speller", compact),
        scores_(weights.linear("scores")),
        has_middle_(weights.has("middle.weight")) {
    if (has_middle_) middle_ = weights.linear("middle");
    if (weights.has("characters")) characters_ = weights.table("characters");
  }

  std::vector<Expression> losses(ComputationGraph& graph, const std::vector<Sentence>& sentences) {
    reader_.begin(graph);
    speller_.begin(graph);
    std::vector<Expression> found;
    for (const auto& sentence : sentences) {
      std::vector<Expression> vectors;
      for (size_t place = 0; place < sentence.words.size(); ++place)
        vectors.push_back(sentence.spellings[place].empty() ? lookup(graph, words_, sentence.words[place])
                                                            : spelled(graph, sentence.spellings[place]));
      const auto states = reader_.read(vectors);
      for (size_t place = 0; place < vectors.size(); ++place) {
        Expression state = concatenate({states.first[place], states.second[place]});
        if (has_middle_) state = tanh(weights_.apply(middle_, state));
        found.push_back(pickneglogsoftmax(weights_.apply(scores_, state), unsigned(sentence.labels[place])));
      }
    }
    return found;
  }

 private:
  Expression spelled(ComputationGraph& graph, const std::vector<int>& spelling) {
    std::vector<Expression> vectors;
    for (const int character : spelling) vectors.push_back(lookup(graph, characters_, character));
    const auto states = speller_.read(vectors);
    return concatenate({states.first.back(), states.second.front()});
  }

  const Weights& weights_;
  dynet::LookupParameter words_, characters_;
  BiLSTM reader_, speller_;
  Linear scores_, middle_;
  bool has_middle_;
};

int main(int argc, char** argv) {
  const Options given = options(argc, argv);
  const Problem problem(given.problem);
  Weights weights(problem);
  Tagger tagger(weights, given.compact);
  time_training<Sentence>(
      problem, weights, sentences_of(problem),
      [&](ComputationGraph& graph, const std::vector<Sentence>& batch) { return tagger.losses(graph, batch); }, given);
}
