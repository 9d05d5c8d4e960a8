#!/usr/bin/env bash
# The command as a job of several processes: the same model file for any number of processes, and errors that end all of
# them.
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

# A job that was stopped because it took too long did not end by itself: then timeout returns 124.
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

# Only the time of a training may differ.
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
  for ranks in 1 2 4; do
    # shellcheck disable=SC2086
    job $ranks fit table.csv --rows-file rows.bin --target y --model experts --experts 6 --steps 6 --quiet $options \
      -o own.cagey > /dev/null
    sum own.cagey > own.sum
    cmp 1.sum own.sum
  done
  echo "the same model for 1, 2 and 4 processes, from a table and a file of rows: experts $options"
done
for partition in random kmeans column=part; do
  awk -F, 'NR == 1 { print "part," $0; next } { print int($1), $0 }' OFS=, table.csv > parts.csv
  fit=(fit parts.csv --target y --model experts --partition $partition --steps 4 --quiet)
  "$cagey" "${fit[@]}" -o 1.cagey > /dev/null
  job 3 "${fit[@]}" --rows-file rows.bin -o own.cagey > /dev/null
  for name in 1 own; do
    "$cagey" predict $name.cagey parts.csv --quiet -o $name.csv
  done
  cmp 1.csv own.csv
done
echo "the same parts of a table and of a file of rows"

# With wrong usage or wrong rows, the job ends without success.
for arguments in "fit missing.csv" "fit table.csv --target y --model experts --experts 500" "evaluate 1.cagey missing.csv"; do
  for ranks in 2 4; do
    # shellcheck disable=SC2086
    ended_with_error job $ranks $arguments > out.txt 2>&1 || { cat out.txt; exit 1; }
    grep -q "error: " out.txt
  done
done
echo "errors end the job"

# A sparse model of all rows, with sums shared out among ranks.
for ranks in 1 2 4; do
  job $ranks fit table.csv --target y --model sgpr --inducing 20 --steps 6 --quiet -o "$ranks.cagey" > /dev/null
  sum "$ranks.cagey" > "$ranks.sum"
  cmp 1.sum "$ranks.sum"
  job $ranks fit table.csv --rows-file rows.bin --target y --model sgpr --inducing 20 --steps 6 --quiet -o own.cagey \
    > /dev/null
  sum own.cagey > own.sum
  cmp 1.sum own.sum
done
echo "the same model for 1, 2 and 4 processes, from a table and a file of rows: sgpr"

# A variational model with minibatches shared out among ranks, from a table and from a file of rows.
for from in "table.csv" "table.csv --rows-file rows.bin"; do
  for ranks in 1 2 4; do
    # shellcheck disable=SC2086
    job $ranks fit $from --target y --model svgp --inducing 12 --batch 64 --steps 12 --quiet -o "$ranks.cagey" > /dev/null
    sum "$ranks.cagey" > "$ranks.sum"
    cmp 1.sum "$ranks.sum"
  done
  echo "the same model for 1, 2 and 4 processes: svgp, $from"
done

# Figures and comparisons, by all processes or by one while the others wait.
job 1 fit table.csv --target y --model experts --experts 6 --steps 6 --quiet -o drawn.cagey > /dev/null
models=(compare table.csv --target y --models exact,experts,sgpr,svgp --experts 6 --batch 64
  --steps 4 --quiet)
for ranks in 1 2 4; do
  for kind in posterior calibration learning; do
    table=()
    [ $kind = calibration ] && table=(table.csv)
    job $ranks plot drawn.cagey "${table[@]}" --kind $kind -o "$kind-$ranks.svg" --quiet
    cmp "$kind-1.svg" "$kind-$ranks.svg"
  done
  job $ranks "${models[@]}" --json > compared.txt
  grep -v 'seconds\|step_bytes' compared.txt > "compared-$ranks.txt"
  cmp compared-1.txt "compared-$ranks.txt"
done
grep -q sgpr compared-1.txt
echo "plot and compare by 1, 2 and 4 processes"

# Tables that stay with their ranks: one model file, without rows.
for site in 1 2 3 4; do
  awk -v site=$site 'NR == 1 || NR % 4 == site - 1' table.csv > "site-$site.csv"
done
shards=(fit --shards 'site-*.csv' --target y --steps 6 --quiet)
for ranks in 1 2 4; do
  job $ranks "${shards[@]}" -o "$ranks.cagey" > /dev/null
  job $ranks predict "$ranks.cagey" table.csv -o "$ranks.csv" --quiet
  sum "$ranks.cagey" > "$ranks.sum"
  cmp 1.sum "$ranks.sum"
  cmp 1.csv "$ranks.csv"
  job $ranks plot "$ranks.cagey" -o "shards-$ranks.svg" --quiet
  cmp shards-1.svg "shards-$ranks.svg"
done
job 2 evaluate 4.cagey table.csv --aggregation all > out.txt
grep -q rbcm out.txt
echo "the same model for 1, 2 and 4 processes: experts that keep their rows"

# If rank 2 has a bad row, other columns or a missing file, all commands end and say where.
refused() {
  local said=$1
  shift
  ended_with_error job 4 "$@" > out.txt 2>&1 || { cat out.txt; exit 1; }
  grep -q "$said" out.txt || { cat out.txt; exit 1; }
}
mv site-3.csv kept.csv
sed '5s/^[^,]*/much/' kept.csv > site-3.csv
refused "rank 2: site-3.csv: row 5" "${shards[@]}" -o bad.cagey
refused "rank 2: site-3.csv: it is not such a table" predict 1.cagey table.csv
refused "rank 2: site-3.csv: row 5" predict 1.cagey table.csv --shards site-*.csv
if grep -q much <(job 4 predict 1.cagey table.csv 2>&1); then exit 1; fi
sed '1s/x2/x3/' kept.csv > site-3.csv
refused "rank 2: site-3.csv: .*x2" "${shards[@]}" -o bad.cagey
refused "rank 2: site-3.csv: .*x2" evaluate 1.cagey table.csv --shards 'site-*.csv'
sed '$d' kept.csv > site-3.csv
refused "site-3.csv: it is not what the model was trained on" predict 1.cagey table.csv
rm site-3.csv
refused "rank 2: site-3.csv: no such file" fit --shards site-1.csv site-2.csv site-3.csv site-4.csv --target y -o bad.cagey
refused "rank 2: site-3.csv: no such file" predict 1.cagey table.csv
job 4 inspect 1.cagey > /dev/null
mv kept.csv site-3.csv
test ! -e bad.cagey
echo "errors of shards name rank, file and row"

# A long training of several processes; its processes are children of mpirun, a child of timeout.
options=(fit table.csv --target y --model experts --experts 6 --optimizer adam --patience 100000 --starts data --quiet)
begin() {
  rm -f state
  timeout 60 mpirun -n 3 --allow-run-as-root --oversubscribe "$cagey" "${options[@]}" --steps 1000000 \
    --checkpoint state --checkpoint-every 1 --threads 1 -o "$1" > "$1.txt" 2>&1 &
  job=$!
  for _ in $(seq 200); do
    [ -e state ] && break
    sleep 0.05
  done
  mapfile -t processes < <(pgrep -P "$(pgrep -P "$job")" cagey)
}

# A killed process ends the job, and the saved state continues to the same numbers.
begin killed.cagey
kill -KILL "${processes[-1]}"
ended_with_error wait "$job"
test ! -e killed.cagey
job 2 "${options[@]}" --steps 4000 --resume state -o resumed.cagey > /dev/null
job 1 "${options[@]}" --steps 4000 -o whole.cagey > /dev/null
for name in resumed whole; do
  "$cagey" predict $name.cagey table.csv --quiet -o $name.csv
done
cmp resumed.csv whole.csv
echo "a process that is killed ends the job, and its training goes on to the same numbers"

# SIGTERM to another rank ends the training like SIGINT to the leader.
begin ended.cagey
for process in "${processes[@]}"; do
  if tr '\0' '\n' < "/proc/$process/environ" | grep -qx OMPI_COMM_WORLD_RANK=2; then
    kill -TERM "$process"
  fi
done
wait "$job"
grep -q "the model so far" ended.cagey.txt
"$cagey" predict ended.cagey table.csv --quiet -o ended.csv
# A leader that trains alone asks nothing: the rank ends, and so the job.
timeout 60 mpirun -n 2 --allow-run-as-root --oversubscribe "$cagey" fit table.csv --target y --model exact --threads 1 \
  --optimizer adam --steps 1000000 --patience 1000000 --starts data --quiet -o alone.cagey > alone.txt 2>&1 &
job=$!
sleep 3
mapfile -t processes < <(pgrep -P "$(pgrep -P "$job")" cagey)
for process in "${processes[@]}"; do
  if tr '\0' '\n' < "/proc/$process/environ" | grep -qx OMPI_COMM_WORLD_RANK=1; then
    kill -TERM "$process"
  fi
done
ended_with_error wait "$job"
echo "SIGTERM to any rank ends the job"

# Ranks with other options than the leader's are an error.
code=0
timeout 60 mpirun --allow-run-as-root --oversubscribe -n 1 "$cagey" fit table.csv --target y --steps 2 -o one.cagey \
  : -n 1 "$cagey" fit table.csv --target y --steps 3 -o one.cagey > out.txt 2>&1 || code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] && [ ! -e one.cagey ]
grep -q "rank 1: its arguments are .*--steps 3" out.txt
echo "ranks with different options are refused"

# SIGINT to rank 0 ends the training, and the model so far is saved.
begin stopped.cagey
for process in "${processes[@]}"; do
  if tr '\0' '\n' < "/proc/$process/environ" | grep -qx OMPI_COMM_WORLD_RANK=0; then
    kill -INT "$process"
  fi
done
wait "$job"
grep -q "the model so far" stopped.cagey.txt
"$cagey" predict stopped.cagey table.csv --quiet -o stopped.csv
echo "SIGINT to the leader keeps the model so far"
