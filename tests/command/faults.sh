#!/usr/bin/env bash
# Kills many processes and injects many errors: every job must end by itself, without success, and the saved state must
# continue to the same numbers. Takes minutes, so .ci/run leaves it out.
# Usage: faults.sh path/to/cagey [KILLS [ERRORS]], built with the feature mpi.
set -euo pipefail
cagey=$(realpath "$1")
kills=${2:-20}
errors=${3:-100}
RANDOM=7
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

run() {
  local limit=$1 ranks=$2
  shift 2
  timeout "$limit" mpirun -n "$ranks" --allow-run-as-root --oversubscribe "$cagey" "$@" --threads 1
}

awk 'BEGIN { srand(4); print "x1,x2,y"; for (i = 0; i < 240; i++) {
  a = 6 * rand(); b = 6 * rand(); printf "%.6f,%.6f,%.6f\n", a, b, sin(a) * cos(b) + 0.1 * rand() } }' > table.csv
for site in 1 2 3 4; do
  awk -v site=$site 'NR == 1 || NR % 4 == site - 1' table.csv > "site-$site.csv"
done

options=(fit table.csv --target y --model experts --experts 6 --optimizer adam --patience 100000 --starts data --quiet)
run 300 1 "${options[@]}" --steps 4000 -o whole.cagey > /dev/null
"$cagey" predict whole.cagey table.csv --quiet -o whole.csv
longest=0
for ((i = 1; i <= kills; i++)); do
  rm -f state
  # Not by `run`: the processes must be grandchildren of the process that is waited for.
  timeout 120 mpirun -n 3 --allow-run-as-root --oversubscribe "$cagey" "${options[@]}" --steps 3000000 \
    --checkpoint state --checkpoint-every 20 --threads 1 -o killed.cagey > killed.txt 2>&1 &
  job=$!
  until [ -e state ]; do sleep 0.02; done
  sleep "$(printf '0.%02d' $((RANDOM % 40)))"
  mapfile -t processes < <(pgrep -P "$(pgrep -P "$job")" cagey)
  [ ${#processes[@]} -eq 3 ] || { echo "kill $i: ${#processes[@]} processes" >&2; exit 1; }
  began=$SECONDS
  kill -KILL "${processes[RANDOM % ${#processes[@]}]}"
  code=0
  wait "$job" || code=$?
  took=$((SECONDS - began))
  [ $took -gt $longest ] && longest=$took
  if [ $code -eq 0 ] || [ $code -eq 124 ] || [ $took -gt 30 ] || [ -e killed.cagey ]; then
    echo "kill $i: exit code $code after $took s" >&2
    cat killed.txt >&2
    exit 1
  fi
  run 300 $((1 + RANDOM % 4)) "${options[@]}" --steps 4000 --resume state -o resumed.cagey > /dev/null
  "$cagey" predict resumed.cagey table.csv --quiet -o resumed.csv
  cmp resumed.csv whole.csv
done
echo "$kills kills: every job ended, within $longest s, and went on to the same numbers"

longest=0
for ((i = 1; i <= errors; i++)); do
  site=$((1 + RANDOM % 4)) row=$((2 + RANDOM % 50)) ranks=$((2 + RANDOM % 3))
  cp "site-$site.csv" kept.csv
  fit=(fit --shards site-1.csv site-2.csv site-3.csv site-4.csv --target y --steps 6 --quiet -o bad.cagey)
  case $((i % 5)) in
    0) sed -i "${row}s/^[^,]*/nothing/" "site-$site.csv" ;;
    1) sed -i '1s/x1/x9/' "site-$site.csv" ;;
    2) rm "site-$site.csv" ;;
    3) sed -i "${row}s/,[^,]*\$/,/" "site-$site.csv" ;;
    4) # Experts whose rows have no positive definite covariance.
      fit=(fit table.csv --target y --model experts --experts 6 --kernel "linear" --mean zero --dtype f32
        --init variance=1e30 --init noise=1e-30 --fix variance --fix noise --steps 6 --quiet -o bad.cagey) ;;
  esac
  began=$SECONDS code=0
  run 60 $ranks "${fit[@]}" > out.txt 2>&1 || code=$?
  took=$((SECONDS - began))
  [ $took -gt $longest ] && longest=$took
  if [ $code -eq 0 ] || [ $code -eq 124 ] || ! grep -q "error: " out.txt; then
    echo "error $i (kind $((i % 5)), table $site, row $row, $ranks ranks): exit code $code" >&2
    cat out.txt >&2
    exit 1
  fi
  mv kept.csv "site-$site.csv"
done
echo "$errors errors: every job ended, within $longest s"
