# Which root of the node its driver lies in. `locate` finds it at each call: a driver in a container comes and goes.
# The same rule as nodeagent/host/driverroot.py, for busybox. HOST is where the host's root is mounted here; DRIVER is
# the host's folder in which a driver's container mounts its own root. All that is found has the host's own path.

# Follow every link of a path below a root: `file` is where it leads, seen from that root. Fails where nothing is there.
inside() {
    file= links=0
    set -- "$1" "$2"
    while test -n "$2"; do
        part=${2%%/*}
        case $2 in */*) set -- "$1" "${2#*/}" ;; *) set -- "$1" "" ;; esac
        case $part in
            '' | .) ;;
            ..) file=${file%/*} ;;
            *)
                if test -L "$1$file/$part"; then
                    links=$((links + 1))
                    test "$links" -le 40 && to=$(readlink "$1$file/$part") || return 1
                    case $to in /*) file= ;; esac
                    set -- "$1" "$to/$2"
                else
                    file=$file/$part
                fi
                ;;
        esac
    done
    test -e "$1$file"
}

# `library`: the driver's, empty where there is none; `root`: where it lies; `nodes`: the root whose dev has its nodes.
locate() {
    root=/ nodes=/
    if test "$DRIVER" != / && inside "$HOST" "$DRIVER" && own=$file && test -n "$own" && search "$own"; then
        root=$own library=$own$file
        if inside "$HOST$own" dev/nvidiactl; then nodes=$own; fi
    elif search ""; then
        library=$file
    else
        library=
    fi
}

search() {
    for folder in usr/lib/x86_64-linux-gnu usr/lib/aarch64-linux-gnu usr/lib64 usr/lib usr/local/nvidia/lib64 \
        usr/local/glibc/usr/lib lib64 home/kubernetes/bin/nvidia/lib64 ""; do
        if inside "$HOST$1" "$folder/libnvidia-ml.so.1"; then return 0; fi
    done
    return 1
}
