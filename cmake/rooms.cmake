# regatta_together(TARGET APART…): eight of its files are one translation unit, as what they include
# is most of what they cost to compile; those of APART are not. -DWITH_UNITY=OFF: none are.
function(regatta_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${WITH_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# regatta_room(FOLDER sources… APART sources… LINK libraries… PRIVATE libraries…): the library
# regatta_FOLDER of a room, a folder of a layer (tests/rooms.py has their order). LINK: what its
# headers need, too. APART: files that define names of their own which another defines, too.
#
# Each room is also linked alone, with what it says to need and nothing else, so that a call into a
# room above it does not link.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/alone.cc CONTENT "")  # a library must have a source
function(regatta_room folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "APART;LINK;PRIVATE")
  string(REPLACE "/" "_" name regatta_${folder})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS} ${arg_APART})
  regatta_together(${name} ${arg_APART})
  target_link_libraries(${name} PUBLIC regatta_options ${arg_LINK} PRIVATE ${arg_PRIVATE})
  get_property(rooms GLOBAL PROPERTY REGATTA_ROOMS)
  set_property(GLOBAL PROPERTY REGATTA_ROOMS ${rooms} ${name})
  if(WITH_TESTS AND NOT SANITIZE)
    add_library(${name}_alone MODULE ${CMAKE_BINARY_DIR}/alone.cc)
    target_link_libraries(${name}_alone PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${name}>)
    target_link_options(${name}_alone PRIVATE LINKER:--no-undefined LINKER:--strip-all)
  endif()
endfunction()

# regatta_layer(NAME): regatta_NAME is all rooms of the layer so far.
function(regatta_layer layer)
  get_property(rooms GLOBAL PROPERTY REGATTA_ROOMS)
  list(FILTER rooms INCLUDE REGEX "^regatta_${layer}_")
  add_library(regatta_${layer} INTERFACE)
  target_link_libraries(regatta_${layer} INTERFACE ${rooms})
endfunction()
