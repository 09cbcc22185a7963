// A problem, as scripts/same_work.py describes it: a folder of NumPy's arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

template <class Number>
struct Array {
  std::vector<unsigned> shape;
  std::vector<Number> numbers;  // row by row
};

template <class Stored, class Number>
std::vector<Number> converted(const std::string& bytes) {
  const Stored* first = reinterpret_cast<const Stored*>(bytes.data());
  return std::vector<Number>(first, first + bytes.size() / sizeof(Stored));
}

class Problem {
 public:
  explicit Problem(std::string folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const { return std::ifstream(path(name)).good(); }

  // Throws std::runtime_error if there is no such array.
  template <class Number>
  Array<Number> array(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    char start[10];  // \x93NUMPY, the version, and the length of the header in two bytes
    if (!file.read(start, sizeof start) || start[6] != 1) throw std::runtime_error(path(name) + ": not an array");
    std::string header(uint8_t(start[8]) + 256 * uint8_t(start[9]), ' ');
    file.read(&header[0], header.size());
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return {shape_of(header), numbers_of<Number>(header, bytes)};
  }

  template <class Number>
  Number number(const std::string& name) const {
    return array<Number>(name).numbers.at(0);
  }

  // The numbers of each example.
  template <class Number>
  std::vector<std::vector<Number>> ragged(const std::string& name) const {
    const auto numbers = array<Number>(name).numbers;
    std::vector<std::vector<Number>> found;
    auto start = numbers.begin();
    for (const int length : array<int>(name + ".lengths").numbers) {
      found.emplace_back(start, start + length);
      start += length;
    }
    return found;
  }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".npy"; }

  // From "... 'shape': (3, 4), }".
  static std::vector<unsigned> shape_of(const std::string& header) {
    const size_t open = header.find('('), close = header.find(')');
    std::istringstream inside(header.substr(open + 1, close - open - 1));
    std::vector<unsigned> shape;
    for (std::string size; std::getline(inside, size, ',');)
      if (size.find_first_of("0123456789") != std::string::npos) shape.push_back(std::stoul(size));
    return shape;
  }

  template <class Number>
  static std::vector<Number> numbers_of(const std::string& header, const std::string& bytes) {
    if (header.find("'<i4'") != std::string::npos) return converted<int32_t, Number>(bytes);
    if (header.find("'<i8'") != std::string::npos) return converted<int64_t, Number>(bytes);
    if (header.find("'<f4'") != std::string::npos) return converted<float, Number>(bytes);
    if (header.find("'<f8'") != std::string::npos) return converted<double, Number>(bytes);
    throw std::runtime_error("an array of other numbers: " + header);
  }

  std::string folder_;
};
