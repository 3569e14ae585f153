# Whether the driver serves; says so in the files that others wait for. It passes on `hold`, too: what does nothing need
# not be started again.
set -u
run=/run/nvidia
ours=$run/gpu-control-plane
test ! -e "$ours/hold" || exit 0
# Images of before August 2026, precompiled ones and those of people say nothing of their daemons. What a former container
# said is gone: `prepare` and the wrapper take it away.
if test -e "$run/validations/.driver-daemons-status"; then
    daemons=$(cat "$run/validations/.driver-daemons-status")
    test "$daemons" = Ready || { echo "the driver's daemons do not run: ${daemons:-nothing is said}"; exit 1; }
fi
# Its root is mounted last. The folder itself and lib/firmware in it are kubelet's.
test -d "$run/driver/usr" || { echo "the driver's root is not mounted"; exit 1; }
# NVIDIA's program goes on to its end though the kernel refuses a module, and waits. The refusal is heard once more, and
# the container ended with it: nothing else would for 20 minutes.
if test ! -e /sys/module/nvidia/refcnt || test ! -e /sys/module/nvidia_uvm/refcnt; then
    said=$(modprobe nvidia 2>&1 && modprobe nvidia-uvm 2>&1 && modprobe nvidia-modeset 2>&1) || {
        echo "NVIDIA's program is through, and its modules are not loaded: $said" | tee /dev/termination-log
        kill -KILL "$(cat "$run/nvidia-driver.pid")"
        exit 1
    }
fi
nvidia-smi >/dev/null || { echo "nvidia-smi fails"; exit 1; }
write() {
    mkdir -p "${1%/*}" && cat >"$1.new" && mv "$1.new" "$1"
}
echo "$DRIVER_CONFIG_DIGEST" | write "$ours/driver.state" || exit 1
write "$run/validations/.driver-ctr-ready" <<END
GDRCOPY_ENABLED: ${GDRCOPY_ENABLED:-false}
GDS_ENABLED: ${GDS_ENABLED:-false}
GPU_DIRECT_RDMA_ENABLED: ${GPU_DIRECT_RDMA_ENABLED:-false}
END
