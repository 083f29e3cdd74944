# Fails if an object file of one instruction set defines a symbol that the linker could share with the
# files of another: a weak one outside its own namespace (trainer/cpu/vector.h).
# Arguments: NM, ISA, OBJECTS (separated by |).
string(REPLACE "|" ";" OBJECTS "${OBJECTS}")
if(NOT OBJECTS)
  message(FATAL_ERROR "no object files of ${ISA}")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only -C ${object} OUTPUT_VARIABLE symbols
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${NM} cannot read ${object}")
  endif()
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
  list(FILTER weak EXCLUDE REGEX "regatta::trainer::cpu::${ISA}::")
  if(weak)
    message(FATAL_ERROR "${object} defines symbols that other files may use: ${weak}")
  endif()
endforeach()
