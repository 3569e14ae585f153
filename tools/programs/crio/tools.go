//go:build tools

// Package tools names the program of this module, so that `go mod tidy` keeps what it needs.
package tools

import (
	_ "github.com/cri-o/cri-o/cmd/crio"
)
