// Whole transfers between memory and files, at explicit offsets: a descriptor's own position is never used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightroom {

// Until `size` bytes are there or the file ends; returns the bytes read. Throws Failure.
size_t ReadFully(int fd, uint8_t* into, size_t size, uint64_t offset);
void WriteFully(int fd, const uint8_t* from, size_t size, uint64_t offset);

}  // namespace weightroom
