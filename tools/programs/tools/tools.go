//go:build tools

// Package tools pins the programs that the simulated control plane builds from this module.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
