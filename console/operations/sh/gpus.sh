# Who holds the GPUs, as the Proxmox host sees it. Arguments: VMID MARK.
# Prints records, one a line, between `MARK begin` and `MARK end`; what may hold any byte is in base64.
#   user UID · clock TICKS_PER_SECOND UPTIME NOW
#   init PID                                                   of the container's process 1, empty when it does not run
#   smi gpus|apps TEXT                                         what nvidia-smi says; none where the host has none
#   card TEXT                                                  what the driver's own file says of a GPU
#   open DEVICE PATH                                           a descriptor that is a GPU, or /dev/nvidia-uvm
#   frozen, late, proc                                         as process.sh has them
vmid=$1 mark=$2

smi() {
  said=$(timeout 5 nvidia-smi "$2" --format=csv,noheader,nounits 2>&1)
  [ $? = 124 ] && said="no answer in 5 s"
  echo "smi $1 $(printf %s "$said" | head -c 65536 | base64 | tr -d '\n')"
}

look() {
  inside=$(readlink "/proc/$init/ns/pid")
  if command -v nvidia-smi >/dev/null; then
    smi gpus --query-gpu=index,uuid,memory.used
    [ "$said" != "no answer in 5 s" ] && smi apps --query-compute-apps=gpu_uuid,pid,used_memory
  fi
  for card in /proc/driver/nvidia/gpus/*/information; do
    [ -r "$card" ] && echo "card $(b <"$card")"
  done
  opened=$(
    find /proc/[0-9]*/fd -maxdepth 1 \( -lname '/dev/nvidia[0-9]*' -o -lname /dev/nvidia-uvm \) -printf 'open %l %p\n'
  )
  [ -n "$opened" ] && echo "$opened"
  listed=$(echo "$said" | sed -n 's/^[^,]*, *\([0-9][0-9]*\),.*/\1/p')
  for pid in $(printf '%s\n%s\n' "$listed" "$(echo "$opened" | cut -d/ -f5)" | grep -E '^[0-9]+$' | sort -un); do
    [ -d "/proc/$pid" ] && describe "/proc/$pid"
  done
}

echo "$mark begin"
echo "user $(id -u)"
echo "clock $(getconf CLK_TCK) $(cut -d' ' -f1 /proc/uptime) $(date +%s)"
init=$(lxc-info -n "$vmid" -p -H 2>/dev/null)
echo "init $init"
look 2>/dev/null
echo "$mark end"
