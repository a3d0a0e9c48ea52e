// Package netplugin is the root of the project, with its version.
package netplugin

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version returns the version of the project, after semantic versioning. Clients of the original controller
// compare the major one, which is 1.
func Version() string { return strings.TrimSpace(version) }
