# Writes to OUT one entry {"name", text} of a C++ table per file of FILES.
set(text "// Made by lib/Costs/EmbedPresets.cmake.\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"json(" "${content}" ")json\"},\n")
endforeach()
file(WRITE ${OUT} "${text}")
