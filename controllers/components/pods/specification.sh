# Keeps the CDI specifications of the node's cards and MIG instances: kind nvidia.com/gpu, names by uuid, as the device
# plugin gives them; and kind management.nvidia.com/gpu, one name for all of them, by which GFD, DCGM, its exporter and
# the validator have what there is. NVIDIA's installer makes the second once, when it starts. Runs until it is killed.
# For busybox. HOST, PROC, CDI, RUN and TOOLKIT are folders: $CDI and $RUN are mounted, $TOOLKIT is the host's path.
# Where the driver lies is found by `locate` of driverroot.sh, which stands before this.
umask 022
ours=$CDI/gpu-control-plane.yaml
all=$CDI/management.nvidia.com-gpu.yaml
ctk=$TOOLKIT/nvidia-ctk

# Another file of this folder that names cards by uuid. A name that two files of one folder have is in neither for a
# runtime, so whoever made the other keeps it. A file in /etc/cdi gives way to ours.
foreign() {
    for file in "$CDI"/*.json "$CDI"/*.yaml; do
        if test "$file" != "$ours" &&
            grep -Eqs "kind[\"']?: *[\"']?nvidia\.com/gpu([\"', ]|\$)" "$file" &&
            grep -Eqs "name[\"']?: *[\"']?(GPU|MIG)-" "$file"; then
            echo "$file"
            return
        fi
    done
}

# Whether a library that a specification ($1) mounts is gone, as with a driver's container that has ended: nothing that is
# given a card by it could start.
dead() {
    of="hostPath: *[\"']?(/.*/lib(cuda|nvidia-ml)\.so\.[0-9.]+)[\"']?"
    for path in $(sed -En "s%^[- ]*$of\$%\1%p" "$1" 2>/dev/null); do
        inside "$HOST" "$path" || return 0
    done
    return 1
}

# Nothing stays without the libraries that it mounts.
bury() {
    if dead "$1"; then
        rm -f "$1"
        echo "removed $1: the driver's libraries that it mounts are gone"
    fi
}

# What a specification depends on, without a question to the driver: that would hold the cards open, which a reset for
# MIG must not find.
state() {
    {
        cat "$PROC/driver/nvidia/version"
        # The other lines change with the card's use.
        grep -E '^(Bus Location|Device Minor)' "$PROC"/driver/nvidia/gpus/*/information
        grep -r . "$PROC/driver/nvidia/capabilities" | sort
        echo "$root $nodes $library"
        stat -c '%n %t:%T' "$HOST${nodes%/}"/dev/nvidia* "$HOST${nodes%/}"/dev/nvidia-caps/* "$HOST${nodes%/}"/dev/dri/*
        ls -ln "$HOST$ctk" "$HOST$ctk.real" "$ours" "$all"
        foreign
    } 2>/dev/null | md5sum
}

# Inside the host's root every path is the host's own, and so are the C library, the driver's and its nvidia-modprobe.
# The answer comes by standard output, which nvidia-ctk first writes below TMPDIR: all else of the root is read-only.
generate() {
    set -- env TMPDIR=/run/nvidia/toolkit chroot "$HOST" "$ctk" --quiet cdi generate "$@" \
        --no-all-device --driver-root="$root" --dev-root="$nodes" --nvidia-cdi-hook-path="$TOOLKIT/nvidia-cdi-hook"
    if test "$nodes" = /; then
        "$@"
    else
        # The library opens device nodes in /dev and nowhere else: there this one program sees those of the container.
        unshare -m sh -c 'mount -o bind "$0" "$1" && shift && exec "$@"' "$HOST$nodes/dev" "$HOST/dev" "$@"
    fi
}

# One rename, and none where nothing changed: every change is read by the runtime and by the device plugins.
put() {
    if ! cmp -s "$RUN/cdi.made" "$1"; then
        cp "$RUN/cdi.made" "$CDI/.gpu-control-plane" && mv -f "$CDI/.gpu-control-plane" "$1" || return
        echo "wrote $1"
    fi
}

renew() {
    other=$(foreign)
    if test -n "$other"; then
        rm -f "$ours"
        echo "$other names cards already; it is for its maker to keep it up to date"
        touch "$RUN/cdi.none"
    elif generate --mode=nvml --device-name-strategy=uuid >"$RUN/cdi.made" 2>"$RUN/cdi.log"; then
        put "$ours" && rm -f "$RUN/cdi.none"
    elif grep -q 'invalid spec, no devices' "$RUN/cdi.log"; then
        # All cards are in MIG mode, and none is divided.
        rm -f "$ours"
        touch "$RUN/cdi.none"
    else
        # What is there stays: a card that is lost for the moment is no reason to take the others away.
        bury "$ours"
        echo "no new specification: $(tail -n 3 "$RUN/cdi.log")"
        return 1
    fi
}

# All device nodes as they are now, and the driver's files. After the other: a question to the driver makes nodes.
manage() {
    if generate --mode=management --vendor=management.nvidia.com >"$RUN/cdi.made" 2>"$RUN/cdi.log"; then
        put "$all"
    else
        bury "$all"
        echo "no new specification for the module's own pods: $(tail -n 3 "$RUN/cdi.log")"
        return 1
    fi
}

known= left=0
while touch "$RUN/cdi.alive"; do
    locate
    now=$(state)
    if test "$now" != "$known" || test "$left" -le 0; then
        # The state of before: what changed meanwhile is seen next time.
        known=$now
        # Every few minutes also without a sign: libraries and sockets that it mounts have none. After a failure sooner.
        left=60
        renew || left=6
        manage || left=6
    fi
    left=$((left - 1))
    sleep 5
done
