// The two shared counters through which JavaScript watches and stops a long call (see Progress in index.ts).
#pragma once

#include <atomic>
#include <cstdint>

#include "failure.h"

namespace weightroom {

class ProgressView {
 public:
  // nullptr: nobody watches.
  explicit ProgressView(int64_t* elements) : elements_(elements) {}

  void Add(uint64_t bytes) const {
    if (elements_ != nullptr) std::atomic_ref(elements_[0]).fetch_add(static_cast<int64_t>(bytes));
  }

  void ThrowIfCanceled(const char* syscall) const {
    if (elements_ != nullptr && std::atomic_ref(elements_[1]).load() != 0) throw Failure{ECANCELED, syscall};
  }

 private:
  int64_t* elements_;
};

}  // namespace weightroom
