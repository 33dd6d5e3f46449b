# Who holds a port of a container, as its Proxmox host sees it. Arguments: VMID PORT MARK.
# Prints records, one a line, between `MARK begin` and `MARK end`; what may hold any byte is in base64.
#   user UID · clock TICKS_PER_SECOND UPTIME NOW
#   init PID                                                   of the container's process 1, empty when it does not run
#   listen ADDRESS UID INODE · hold socket:[INODE] PATH        of the port, in the container's network
#   namespace PID_NAMESPACE                                    the container's
#   frozen, late, proc                                         as process.sh has them; frozen also of process 1
vmid=$1 port=$2 mark=$3

look() {
  inside=$(readlink "/proc/$init/ns/pid")
  echo "namespace $inside"
  thawing "/proc/$init"
  row="^ *[0-9]+: [0-9A-F]+$(printf ':%04X' "$port") [^ ]+ 0A "
  network=$(network)
  rows=$(cat "$network/tcp" "$network/tcp6" 2>/dev/null | grep -E "$row" | tr -s ' ' | sed 's/^ //')
  echo "$rows" | while read -r _ local _ _ _ _ _ uid _ inode _; do
    [ -n "$local" ] && echo "listen $local $uid $inode"
  done
  held=$(holders)
  [ -n "$held" ] && echo "$held"
  titled=$(
    grep -lsaE '^sglang::' /proc/[0-9]*/comm
    timeout 3 grep --line-buffered -lsaE '^sglang::' /proc/[0-9]*/cmdline # may hang: see process.sh
  )
  for folder in $(printf '%s\n%s\n' "$held" "$titled" | grep -oE '/proc/[0-9]+' | sort -u); do
    describe "$folder"
  done
}

# The container's network as one of its processes has it: of a process 1 that is ending it can't be read any more.
network() {
  for task in "/proc/$init" /proc/[0-9]* /proc/[0-9]*/task/*; do
    if [ "$(readlink "$task/ns/pid")" = "$inside" ] && cat "$task/net/tcp" >/dev/null 2>&1; then
      echo "$task/net"
      return
    fi
  done
}

# Paths of the descriptors that are one of these sockets. Of a dead main thread the descriptors are gone, its threads
# still have them.
holders() {
  match=""
  for inode in $(echo "$rows" | cut -d' ' -f10); do
    match="$match -o -lname socket:\\[$inode\\]"
  done
  [ -n "$match" ] || return
  folders=$(
    for folder in /proc/[0-9]*; do echo "$folder/fd"; done
    grep -lsE '^State:[[:space:]]+Z' /proc/[0-9]*/status | while read -r status; do
      for task in "${status%/status}"/task/*; do echo "$task/fd"; done
    done
  )
  set -f
  # shellcheck disable=SC2086
  find $folders -maxdepth 1 \( ${match# -o } \) -printf 'hold %l %p\n' 2>/dev/null
  set +f
}

echo "$mark begin"
echo "user $(id -u)"
echo "clock $(getconf CLK_TCK) $(cut -d' ' -f1 /proc/uptime) $(date +%s)"
init=$(lxc-info -n "$vmid" -p -H 2>/dev/null)
echo "init $init"
[ -n "$init" ] && look 2>/dev/null
echo "$mark end"
