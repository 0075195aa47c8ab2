// Conversion of struct stat; see stat-value.h.
#include <cstdint>

#include "stat-value.h"

namespace weightroom {
namespace {

void SetTime(napi_env env, napi_value object, const char* key, const timespec& time) {
  napi_value value = nullptr;
  napi_create_bigint_int64(env, int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec, &value);
  napi_set_named_property(env, object, key, value);
}

}  // namespace

void SetNumber(napi_env env, napi_value object, const char* key, double number) {
  napi_value value = nullptr;
  napi_create_double(env, number, &value);
  napi_set_named_property(env, object, key, value);
}

void SetBigInt(napi_env env, napi_value object, const char* key, uint64_t number) {
  napi_value value = nullptr;
  napi_create_bigint_uint64(env, number, &value);
  napi_set_named_property(env, object, key, value);
}

napi_value StatValue(napi_env env, const struct stat& stat) {
  napi_value object = nullptr;
  napi_create_object(env, &object);
  SetBigInt(env, object, "dev", stat.st_dev);
  SetBigInt(env, object, "ino", stat.st_ino);
  SetNumber(env, object, "mode", stat.st_mode);
  SetNumber(env, object, "nlink", static_cast<double>(stat.st_nlink));
  SetNumber(env, object, "uid", stat.st_uid);
  SetNumber(env, object, "gid", stat.st_gid);
  SetNumber(env, object, "sizeBytes", static_cast<double>(stat.st_size));
  SetNumber(env, object, "allocatedBytes", static_cast<double>(stat.st_blocks * kBlockBytes));
  SetTime(env, object, "mtimeNs", stat.st_mtim);
  SetTime(env, object, "ctimeNs", stat.st_ctim);
  return object;
}

}  // namespace weightroom
