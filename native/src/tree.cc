// The tree calls as JavaScript sees them. Each works on a duplicate of the caller's descriptor, so that
// closing that one meanwhile can't redirect a removal to whatever gets its number next.
#include "tree.h"

#include <fcntl.h>

#include <memory>

#include "args.h"
#include "descriptor.h"
#include "exports.h"
#include "jobs.h"
#include "names.h"
#include "stat-value.h"

namespace weightroom {
namespace {

// When duplicating fails the job fails with it: an asynchronous call rejects instead of throwing.
class HeldDirectory {
 public:
  explicit HeldDirectory(int fd)
      : fd_(std::make_shared<Descriptor>(::fcntl(fd, F_DUPFD_CLOEXEC, 0))), error_(errno) {}

  int Get() const {
    if (!fd_->Open()) throw Failure{error_, "fcntl"};
    return fd_->Get();
  }

 private:
  std::shared_ptr<Descriptor> fd_;
  int error_;
};

napi_value EntryValue(napi_env env, const ListedEntry& entry) {
  napi_value object = nullptr;
  napi_create_object(env, &object);
  napi_set_named_property(env, object, "name", NameValue(env, entry.name));
  napi_set_named_property(env, object, "stat", StatValue(env, entry.stat));
  SetNumber(env, object, "bytes", static_cast<double>(entry.sums.bytes));
  SetNumber(env, object, "allocatedBytes", static_cast<double>(entry.sums.allocated_bytes));
  SetNumber(env, object, "files", static_cast<double>(entry.sums.files));
  return object;
}

napi_value EntriesValue(napi_env env, const std::vector<ListedEntry>& entries) {
  napi_value array = nullptr;
  napi_create_array_with_length(env, entries.size(), &array);
  for (uint32_t i = 0; i < entries.size(); i++) {
    // Ten thousand entries have some hundred thousand handles between them.
    napi_handle_scope scope = nullptr;
    napi_open_handle_scope(env, &scope);
    napi_set_element(env, array, i, EntryValue(env, entries[i]));
    napi_close_handle_scope(env, scope);
  }
  return array;
}

napi_value NumberValue(napi_env env, uint64_t number) {
  napi_value value = nullptr;
  napi_create_double(env, static_cast<double>(number), &value);
  return value;
}

Napi::Value List(const Napi::CallbackInfo& info) {
  const HeldDirectory directory(DescriptorArg(info[0], "directory"));
  return {info.Env(), RunJob(info.Env(), {}, [directory] { return ListTree(directory.Get()); }, EntriesValue)};
}

Napi::Value Sum(const Napi::CallbackInfo& info) {
  const HeldDirectory directory(DescriptorArg(info[0], "directory"));
  return {info.Env(), RunJob(info.Env(), {}, [directory] { return TreeBytes(directory.Get()); }, NumberValue)};
}

Napi::Value Remove(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  const HeldDirectory directory(fd);
  return {info.Env(), RunJob(info.Env(), {}, [directory, name] { RemoveTree(directory.Get(), name); })};
}

}  // namespace

void ExportTrees(Napi::Object exports) {
  Export<List>(exports, "listTree");
  Export<Sum>(exports, "treeBytes");
  Export<Remove>(exports, "removeTree");
}

}  // namespace weightroom
