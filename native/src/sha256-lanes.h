// SHA-256 of several messages side by side: one vector element a message. A single message gains nothing from
// it; sixteen take about half the time that they take one after another on SHA instructions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightroom {

constexpr size_t kMostLanes = 16;

// states[word][lane].
using LaneStates = uint32_t[8][kMostLanes];

// Folds `count` whole blocks of each message into its state.
using CompressLanes = void (*)(LaneStates& states, const uint8_t* const* messages, size_t count);

struct LaneKernel {
  const char* name;
  size_t lanes;
  // From this many messages on it is faster than the same messages in pairs or one after another.
  size_t worthwhile;
  CompressLanes compress;
};

// In sha256-avx512.cc and sha256-avx2.cc. Call the kernels only where the processor can run them.
bool Avx512Usable();
void Sha256CompressAvx512(LaneStates& states, const uint8_t* const* messages, size_t count);
bool Avx2Usable();
void Sha256CompressAvx2(LaneStates& states, const uint8_t* const* messages, size_t count);

// nullptr where no kernel is faster than single chains.
const LaneKernel* ChosenLanes();

}  // namespace weightroom
