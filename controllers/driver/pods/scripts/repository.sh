# Whether the headers of the running kernel can be had, asked as the driver's own program will ask: with its image, its
# package repositories, certificates and proxies. One line of JSON is the container's termination message.
set -u
kernel=$(uname -r)
refuse() {
    printf '{"result":"Refused","reason":"%s","message":"%s"}' "$1" "$2" >/dev/termination-log
    echo "$2"
    exit 30
}
# Repositories that do not answer matter only if the headers are in none of the others, as for NVIDIA's program.
missing() {
    test "$2" -eq 0 || refuse RepositoryUnreachable "a package repository does not answer, and the others have no $1"
    refuse HeadersMissing "no package repository has $1"
}

certificates=/usr/local/share/ca-certificates
if command -v update-ca-certificates >/dev/null && test -n "$(ls -A "$certificates" 2>/dev/null)"; then
    update-ca-certificates >/dev/null 2>&1
fi
if command -v apt-get >/dev/null; then
    timeout 90 apt-get -qq update -o APT::Update::Error-Mode=any
    answered=$?
    test -n "$(apt-cache show "linux-headers-$kernel" 2>/dev/null)" || missing "linux-headers-$kernel" "$answered"
elif command -v dnf >/dev/null; then
    # As NVIDIA's program does: the release that the kernel is of (el9_4: 9.4), with its extended support where the host
    # has a right to that; then the major version alone.
    major=$(. /host-etc/os-release && echo "${VERSION_ID%%.*}")
    release=$major
    if [[ $kernel =~ el([0-9]+)_([0-9]+) ]]; then release=${BASH_REMATCH[1]}.${BASH_REMATCH[2]}; fi
    for name in baseos appstream; do
        extended=rhel-$major-for-$(uname -m)-$name-eus-rpms
        dnf -q config-manager --set-enabled "$extended" >/dev/null 2>&1
        eus="${eus:-} $extended"
    done
    if ! timeout 60 dnf -q --releasever="$release" makecache; then
        # shellcheck disable=SC2086
        for extended in $eus; do dnf -q config-manager --set-disabled "$extended" >/dev/null 2>&1; done
    fi
    answered=1
    for version in "$release" "$major"; do
        timeout 60 dnf -q --releasever="$version" makecache || continue
        answered=0
        timeout 60 dnf -q --releasever="$version" list --showduplicates "kernel-devel-$kernel" >/dev/null 2>&1 && exit 0
    done
    missing "kernel-devel-$kernel" "$answered"
fi
