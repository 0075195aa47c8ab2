// A payload mapped read-only. It is never unmapped behind anybody's back: the driver may own its pages.
#pragma once

#include <napi.h>

#include <cstdint>

namespace weightroom {

struct Mapping {
  uint8_t* address;
  uint64_t length;  // whole pages
};

// Throws a TypeError for what is no mapping, a RangeError for one that was unmapped.
Mapping& MappingArg(const Napi::Value& value);

struct MappedRange {
  uint8_t* address;
  uint64_t length;
};

// A page-aligned range inside the mapping; throws a RangeError for any other.
MappedRange RangeArgs(const Napi::CallbackInfo& info, size_t mapping, size_t offset, size_t length);

}  // namespace weightroom
