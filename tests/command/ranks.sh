#!/usr/bin/env bash
# The command as a job of several processes: the same model file for any number of them, and errors that end all.
# Usage: ranks.sh path/to/cagey, built with the feature mpi.
set -euo pipefail
cagey=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

job() {
  local ranks=$1
  shift
  timeout 120 mpirun -n "$ranks" --allow-run-as-root --oversubscribe "$cagey" "$@" --threads 1
}

# A job that had to be stopped for taking too long did not end: 124 is what timeout says then.
ended_with_error() {
  local code=0
  "$@" || code=$?
  if [ $code -eq 0 ] || [ $code -eq 124 ]; then
    echo "exit code $code: $*" >&2
    return 1
  fi
}

awk 'BEGIN { srand(4); print "x1,x2,y"; for (i = 0; i < 240; i++) {
  a = 6 * rand(); b = 6 * rand(); printf "%.6f,%.6f,%.6f\n", a, b, sin(a) * cos(b) + 0.1 * rand() } }' > table.csv

# The time that a training took is the one number that differs.
sum() { "$cagey" predict "$1" table.csv | sha256sum; "$cagey" inspect "$1" --json | grep -v seconds | sha256sum; }

for options in "" "--local sgpr --inducing 20" "--training fedavg --clients 0.5" "--training admm" "--training pxadmm"; do
  for ranks in 1 2 4; do
    # shellcheck disable=SC2086
    job $ranks fit table.csv --target y --model experts --experts 6 --steps 6 --quiet $options -o "$ranks.cagey" > /dev/null
    job $ranks predict "$ranks.cagey" table.csv -o "$ranks.csv" --quiet
    sum "$ranks.cagey" > "$ranks.sum"
    cmp 1.sum "$ranks.sum"
    cmp 1.csv "$ranks.csv"
  done
  echo "the same model for 1, 2 and 4 processes: experts $options"
done

# Wrong usage and wrong rows: the job ends, not with success.
for arguments in "fit missing.csv" "fit table.csv --target y --model experts --experts 500" "evaluate 1.cagey missing.csv"; do
  for ranks in 2 4; do
    # shellcheck disable=SC2086
    ended_with_error job $ranks $arguments > out.txt 2>&1 || { cat out.txt; exit 1; }
    grep -q "error: " out.txt
  done
done
echo "errors end the job"

# A sparse model of all rows, whose sums are spread.
for ranks in 1 2 4; do
  job $ranks fit table.csv --target y --model sgpr --inducing 20 --steps 6 --quiet -o "$ranks.cagey" > /dev/null
  sum "$ranks.cagey" > "$ranks.sum"
  cmp 1.sum "$ranks.sum"
done
echo "the same model for 1, 2 and 4 processes: sgpr"

# A process that is killed ends the job, and what was saved goes on to the same numbers.
options=(fit table.csv --target y --model experts --experts 6 --optimizer adam --patience 100000 --starts data --quiet)
timeout 60 mpirun -n 3 --allow-run-as-root --oversubscribe "$cagey" "${options[@]}" --steps 1000000 \
  --checkpoint state --checkpoint-every 1 --threads 1 -o killed.cagey > killed.txt 2>&1 &
job=$!
for _ in $(seq 200); do
  [ -e state ] && break
  sleep 0.05
done
# The command's processes are children of mpirun, a child of timeout.
mapfile -t victims < <(pgrep -P "$(pgrep -P "$job")" cagey)
kill -KILL "${victims[-1]}"
ended_with_error wait $job
test ! -e killed.cagey
job 2 "${options[@]}" --steps 4000 --resume state -o resumed.cagey > /dev/null
job 1 "${options[@]}" --steps 4000 -o whole.cagey > /dev/null
for name in resumed whole; do
  "$cagey" predict $name.cagey table.csv --quiet -o $name.csv
done
cmp resumed.csv whole.csv
echo "a process that is killed ends the job, and its training goes on to the same numbers"
