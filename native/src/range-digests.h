// Digests of many ranges of files at once, on as many threads as help.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "failure.h"
#include "progress.h"

namespace weightroom {

struct Range {
  int fd;
  uint64_t offset;
  uint64_t length;
};

// Lower-case hex, in the order of the ranges. `progress` counts the bytes read. Throws Failure, whose `item` is
// the number of the range that can't be read.
std::vector<std::string> DigestRanges(const std::vector<Range>& ranges, const ProgressView& progress);

}  // namespace weightroom
