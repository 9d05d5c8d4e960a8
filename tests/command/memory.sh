#!/usr/bin/env bash
# Prints the most memory that each process of a job has held: with a table that rank 0 reads, and with a file of rows
# from which each rank reads its own. Takes minutes, so .ci/run leaves it out.
# Usage: memory.sh path/to/cagey [ROWS [EXPERTS [MODEL]]], built with the feature mpi.
set -euo pipefail
cagey=$(realpath "$1")
rows=${2:-200000}
experts=${3:-200}
model=${4:-experts}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

awk -v n="$rows" 'BEGIN { srand(4); print "x1,x2,x3,x4,x5,x6,x7,x8,y"; for (i = 0; i < n; i++) {
  s = 0; for (k = 1; k <= 8; k++) { a = 4 * rand(); s += sin(a + k); printf "%.4f,", a }
  printf "%.4f\n", s + 0.2 * rand() } }' > table.csv

case $model in
  experts) options=(--model experts --experts "$experts" --partition random --steps 2) ;;
  *) options=(--model "$model" --inducing 512 --steps 2) ;;
esac

# Peak MiB of each rank, by rank. A process reports its peak while it lives.
peaks() {
  local ranks=$1 job process rank kib status=0
  shift
  mpirun -n "$ranks" --allow-run-as-root --oversubscribe --bind-to none "$cagey" fit table.csv --target y \
    --likelihood gaussian --starts data --quiet --threads 1 "${options[@]}" "$@" -o model.cagey > out.txt 2>&1 &
  job=$!
  declare -A most=()
  while kill -0 "$job" 2> /dev/null; do
    for process in $(pgrep -P "$job" cagey); do
      rank=$(tr '\0' '\n' 2> /dev/null < "/proc/$process/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p') || continue
      kib=$(awk '/^VmHWM/ { print $2 }' "/proc/$process/status" 2> /dev/null) || continue
      [ -n "$rank" ] && [ -n "$kib" ] && most[$rank]=$kib
    done
    sleep 0.1
  done
  wait "$job" || status=$?
  [ "$status" -eq 0 ] || { cat out.txt >&2; exit 1; }
  for ((rank = 0; rank < ranks; rank++)); do printf ' %6d' $((${most[$rank]} / 1024)); done
}

echo "$model: $rows rows, 8 inputs, 2 steps; peak memory of each rank, MiB"
for ranks in 1 2 4; do
  echo "$ranks ranks, a table:          $(peaks $ranks)"
  if "$cagey" fit --help | grep -q 'experts and sgpr'; then
    echo "$ranks ranks, a file of rows:   $(peaks $ranks --rows-file rows.bin)"
  fi
done
