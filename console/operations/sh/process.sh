# Put before the scripts that look. A process as a record of its own; what may hold any byte is in base64.
#   frozen PID FILE                                            a file that thaws its control group, or one above it
#   late PID                                                   its command line or environment could not be read
#   proc PID inside|outside WAITS STAT.CMDLINE.IDS.CGROUP.DUMP_DIR
# $inside is the PID namespace of the container.
LC_ALL=C
export LC_ALL
b() { head -c 8192 | base64 | tr -d '\n'; }
# A command line and an environment are read out of the process's memory: a driver that hangs may hold it for ever. Then
# it is asked for once, and the other processes' for less long: the look as a whole has to end in time.
patience=2
memory() { timeout "$patience" cat "$1" 2>/dev/null; }
has_words() {
  [ -n "$late" ] && return 1
  timeout "$patience" grep -qsa . "$1"
  answer=$?
  [ "$answer" -ge 124 ] && late=1 patience=0.5 # not grep's own: its time is up, or there is no `timeout`
  return "$answer"
}

# Of a process's control group and each above it: is it frozen by itself, and by which file it thaws.
thawing() {
  unified=/sys/fs/cgroup/unified # where the older hierarchies are mounted beside it
  [ -e "$unified/cgroup.procs" ] || unified=/sys/fs/cgroup
  upwards "$1" /sys/fs/cgroup/freezer "$(sed -n 's/^[0-9]*:freezer://p' "$1/cgroup")" freezer.self_freezing freezer.state
  upwards "$1" "$unified" "$(sed -n 's/^0:://p' "$1/cgroup")" cgroup.freeze cgroup.freeze
}

upwards() {
  group=$3
  while [ -n "${group#/}" ]; do
    [ "$(cat "$2$group/$4" 2>/dev/null)" = 1 ] && echo "frozen ${1#/proc/} $(printf %s "$2$group/$5" | b)"
    group=${group%/*}
  done
}

describe() {
  where=outside
  [ "$(readlink "$1/ns/pid")" = "$inside" ] && where=inside
  words=$1 waits="" found="" late="" line="" folder=""
  for task in "$1"/task/*; do
    [ -n "$found" ] || if has_words "$words/cmdline"; then found=1; else words=$task; fi
    stat=$(cat "$task/stat" 2>/dev/null)
    stat=${stat##*) }
    [ "${stat%% *}" = D ] && waits=$(cat "$task/wchan" 2>/dev/null) && waits=${waits:-kernel}
  done
  thawing "$1"
  has_words "$words/cmdline" && line=$(memory "$words/cmdline" | b)
  has_words "$words/environ" && folder=$(memory "$words/environ" | tr '\0' '\n' | sed -n 's/^SGLANG_HS_DUMP_DIR=//p' | b)
  [ -n "$late" ] && echo "late ${1#/proc/}"
  packed="$(b <"$1/stat").$line.$(grep -E '^(Uid|NSpid):' "$1/status" | b).$(b <"$1/cgroup").$folder"
  echo "proc ${1#/proc/} $where ${waits:--} $packed"
}

