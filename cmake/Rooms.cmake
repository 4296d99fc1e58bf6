# posthorn_room(name SOURCES ... DEPENDS ... [PRIVATE ...]): one library target per room.
# DEPENDS are the rooms and libraries its headers need, PRIVATE those that only its .cc files need.
add_library(posthorn_flags INTERFACE)
target_include_directories(posthorn_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(posthorn_flags INTERFACE Threads::Threads)
target_compile_options(posthorn_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  # -Wrestrict: g++ 12 reports std::string's own insides (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wno-restrict>)
if(POSTHORN_WERROR)
  target_compile_options(posthorn_flags INTERFACE -Werror)
endif()
if(POSTHORN_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(POSTHORN_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

if(POSTHORN_SANITIZER)
  add_compile_definitions(POSTHORN_SANITIZED)  # tests go through fewer random histories
  find_program(POSTHORN_LLD ld.lld)
  if(POSTHORN_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)  # a quarter of the time
  endif()
endif()

# Sanitizer builds are not optimised, which halves the time to build them; where random histories run by the thousand
# that would cost more than it saves.
function(posthorn_optimise_under_sanitizers target)
  if(POSTHORN_SANITIZER)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# Most of the time to build goes into what the files of a target share, headers and what they instantiate. Where a tree
# is built for its tests, some files are compiled as one, so that names local to a file have to be its own in the whole
# room; what is built to be used is always compiled file by file.
function(posthorn_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # To GCC these files are headers of the one that it compiles, in which types local to a file would be a mistake.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# For every program that links librdkafka: tests/sanitizers/c11_threads.cc says why.
function(posthorn_c11_threads_under_tsan target)
  if(POSTHORN_SANITIZER STREQUAL "thread")
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/sanitizers/c11_threads.cc")
  endif()
endfunction()

function(posthorn_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(posthorn_${name} STATIC ${ROOM_SOURCES})
  add_library(posthorn::${name} ALIAS posthorn_${name})
  target_link_libraries(posthorn_${name} PUBLIC posthorn_flags ${ROOM_DEPENDS} PRIVATE ${ROOM_PRIVATE})
  if(POSTHORN_SANITIZER OR POSTHORN_UNITED)
    posthorn_unite(posthorn_${name})
  endif()
endfunction()
