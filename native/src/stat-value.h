// struct stat as the `Stat` object of index.ts.
#pragma once

#include <node_api.h>
#include <sys/stat.h>

namespace weightroom {

constexpr uint64_t kBlockBytes = 512;  // the unit of st_blocks, whatever the file system's block size

napi_value StatValue(napi_env env, const struct stat& stat);

// Sets properties without throwing, so that it can be used while the environment is being torn down.
void SetNumber(napi_env env, napi_value object, const char* key, double number);
void SetBigInt(napi_env env, napi_value object, const char* key, uint64_t number);

}  // namespace weightroom
