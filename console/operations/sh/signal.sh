# Signals a process only if it still is the one that was meant. Arguments: PID START_TICKS SIGNAL MARK.
# START_TICKS is field 22 of /proc/PID/stat; SIGNAL 0 only looks. Prints MARK and: gone, there, sent, or failed WHY.
pid=$1 ticks=$2 name=$3 mark=$4
stat=$(cat "/proc/$pid/stat" 2>/dev/null) || { echo "$mark gone"; exit; }
set -f
# shellcheck disable=SC2086
set -- ${stat##*) }
state=$1
shift 19
if [ "$1" != "$ticks" ]; then
  echo "$mark gone"
elif [ "$name" = 0 ]; then
  echo "$mark there $state"
elif why=$(kill -s "$name" "$pid" 2>&1); then
  echo "$mark sent"
else
  echo "$mark failed $why"
fi
