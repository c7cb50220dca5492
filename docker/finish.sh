#!/bin/sh
# Delete unused files, and compile bytecode once, validated by content hash instead of modification time.
set -eu
tree=$1
site=$(find "$tree" -type d -name site-packages -print -quit)
find "$site" -type d -name tests -prune -exec rm -r {} +
rm -rf "$site/pyarrow/include" "$site/torch/include" "$site/torch/share" "$site/torch/test"
# torch looks for this program when it is imported.
find "$site" -path '*/torch/bin/*' ! -name torch_shm_manager -delete
# Some packages contain files with the syntax of a later Python, which are not imported here.
python3 -m compileall -qq -j 0 -s "${tree%/opt/calibrant}" --invalidation-mode unchecked-hash "$site" || true
