# Whether the driver serves; says so in the files that others wait for. It passes on `hold`, too: what does nothing need
# not be started again.
set -u
run=/run/nvidia
ours=$run/gpu-control-plane
test ! -e "$ours/hold" || exit 0
test -e /sys/module/nvidia/refcnt || { echo "module nvidia is not loaded"; exit 1; }
if test "$DRIVER_MODE" = Compiled; then
    daemons=$(cat "$run/validations/.driver-daemons-status" 2>/dev/null)
    test "$daemons" = Ready || { echo "the driver's daemons do not run: ${daemons:-nothing is said}"; exit 1; }
fi
# Its root is mounted last. The folder itself and lib/firmware in it are kubelet's.
test -d "$run/driver/usr" || { echo "the driver's root is not mounted"; exit 1; }
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
