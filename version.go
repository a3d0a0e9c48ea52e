// Package netplugin is the root of the project. It holds what belongs to all of
// it: the version.
package netplugin

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version is that of the project, as semantic versioning has it. Clients of the
// original controller compare the major one, which is 1.
func Version() string { return strings.TrimSpace(version) }
