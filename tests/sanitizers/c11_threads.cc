// librdkafka uses C11 threads, which clang's thread sanitizer does not know: a thread made by glibc's thrd_create has
// no state in it, so its first malloc crashes, and a mtx_t orders nothing. Here they are again as the POSIX calls that
// it does know; glibc's mtx_t and cnd_t are those of POSIX underneath. Linked into the programs of the tsan tree only.
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <tuple>

namespace {

static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t) && alignof(mtx_t) >= alignof(pthread_mutex_t));
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t) && alignof(cnd_t) >= alignof(pthread_cond_t));

pthread_mutex_t* Posix(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
pthread_cond_t* Posix(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

int Result(int error) {
  switch (error) {
    case 0:
      return thrd_success;
    case EBUSY:
      return thrd_busy;
    case ENOMEM:
      return thrd_nomem;
    case ETIMEDOUT:
      return thrd_timedout;
    default:
      return thrd_error;
  }
}

struct Start {
  thrd_start_t function;
  void* argument;
};

void* Run(void* start) {
  const auto owned = std::unique_ptr<Start>(static_cast<Start*>(start));
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(owned->function(owned->argument)));
}

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  auto start = std::make_unique<Start>(Start{function, argument});
  const int error = pthread_create(thread, nullptr, Run, start.get());
  if (error == 0) std::ignore = start.release();
  return Result(error);
}

int thrd_join(thrd_t thread, int* result) {
  void* value = nullptr;
  const int error = pthread_join(thread, &value);
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return Result(error);
}

int thrd_detach(thrd_t thread) { return Result(pthread_detach(thread)); }

int mtx_init(mtx_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
  const int error = pthread_mutex_init(Posix(mutex), &attributes);
  pthread_mutexattr_destroy(&attributes);
  return Result(error);
}
int mtx_lock(mtx_t* mutex) { return Result(pthread_mutex_lock(Posix(mutex))); }
int mtx_trylock(mtx_t* mutex) { return Result(pthread_mutex_trylock(Posix(mutex))); }
int mtx_timedlock(mtx_t* mutex, const timespec* until) { return Result(pthread_mutex_timedlock(Posix(mutex), until)); }
int mtx_unlock(mtx_t* mutex) { return Result(pthread_mutex_unlock(Posix(mutex))); }
void mtx_destroy(mtx_t* mutex) { pthread_mutex_destroy(Posix(mutex)); }

int cnd_init(cnd_t* condition) { return Result(pthread_cond_init(Posix(condition), nullptr)); }
int cnd_signal(cnd_t* condition) { return Result(pthread_cond_signal(Posix(condition))); }
int cnd_broadcast(cnd_t* condition) { return Result(pthread_cond_broadcast(Posix(condition))); }
int cnd_wait(cnd_t* condition, mtx_t* mutex) { return Result(pthread_cond_wait(Posix(condition), Posix(mutex))); }
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* until) {
  return Result(pthread_cond_timedwait(Posix(condition), Posix(mutex), until));
}
void cnd_destroy(cnd_t* condition) { pthread_cond_destroy(Posix(condition)); }

}  // extern "C"
