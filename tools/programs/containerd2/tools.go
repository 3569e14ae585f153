//go:build tools

// Package tools names the programs of this module, so that `go mod tidy` keeps what it needs.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
)
