#!/bin/sh
# What no process reads goes; what each would compile at its start is compiled once, by content: no times are compared.
set -eu
tree=$1
site=$(find "$tree" -type d -name site-packages -print -quit)
find "$site" -type d -name tests -prune -exec rm -r {} +
rm -rf "$site/pyarrow/include" "$site/torch/include" "$site/torch/share" "$site/torch/test"
# Of torch's programs its import looks for this one.
find "$site" -path '*/torch/bin/*' ! -name torch_shm_manager -delete
# Some packages carry files in the grammar of a later Python, which this one does not import.
python3 -m compileall -qq -j 0 -s "${tree%/opt/calibrant}" --invalidation-mode unchecked-hash "$site" || true
