//go:build tools

// kubelet is built from this module too, as a program of its own: only `make e2e` needs it.
package main

import _ "k8s.io/kubernetes/cmd/kubelet"
