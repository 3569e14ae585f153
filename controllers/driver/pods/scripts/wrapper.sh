# Starts NVIDIA's program, unless what an earlier container of this driver has loaded is in use.
#
# A container that starts again runs no init container. Compiling, NVIDIA's program stops the fabric manager and other
# daemons before it looks whether anybody uses the modules; with precompiled ones it fails at once and for ever. So this
# container does nothing then: who computes goes on, and the node is mended when its cards are free.
set -u
ours=/run/nvidia/gpu-control-plane

uses() { cat "/sys/module/$1/refcnt" 2>/dev/null || echo 0; }

held() {
    test -n "$DRIVER_CONFIG_DIGEST" || return 1
    test "$(cat "$ours/driver.state" 2>/dev/null)" = "$DRIVER_CONFIG_DIGEST" || return 1
    test "$(uses nvidia_uvm)" -eq 0 || return 0
    # Compiled modules stay loaded, whoever has a card open; precompiled ones would be unloaded first. Each of the
    # modules that need this one counts as one use of it.
    test "$DRIVER_MODE" = Precompiled && test "$(uses nvidia)" -gt "$(ls /sys/module/nvidia/holders 2>/dev/null | wc -l)"
}

rm -f /run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status
if held; then
    echo "The driver that is loaded is in use, and is this container's own: nothing is started until its cards are free."
    echo "$DRIVER_CONFIG_DIGEST" >"$ours/hold"
    exec sleep infinity
fi
rm -f "$ours/hold"
# NVIDIA's program ends the process whose number is in these files. They outlive their daemon, and the number is the
# host's: by now it may be anybody's.
for file in /run/nvidia-fabricmanager/*.pid /run/nvidia-topologyd/*.pid; do
    test -e "$file" || continue
    case "$(cat "/proc/$(cat "$file")/comm" 2>/dev/null)" in
    nv-fabricmanage | nvlsm | nvidia-topology) ;;
    *) rm -f "$file" ;;
    esac
done
# Where its root is mounted, NVIDIA's program is through (see started.sh); a former container's says nothing of this one.
while test -d /run/nvidia/driver/usr && umount -l -R /run/nvidia/driver; do :; done
exec nvidia-driver init
