// Package buildinfo has the build of the running program. The version is part of the source; the linker sets
// commit and time:
//
//	go build -ldflags "-X github.com/contiv/netplugin/utils/buildinfo.GitCommit=1a2b3c4 ..."
package buildinfo

import (
	"fmt"
	"runtime/debug"

	"github.com/contiv/netplugin"
)

// Set by the linker; without -ldflags the values that Go recorded are used.
var (
	GitCommit string
	BuildTime string
)

// Info is the response of GET /version.
type Info struct {
	GitCommit string `json:"GitCommit"`
	Version   string `json:"Version"`
	BuildTime string `json:"BuildTime"`
}

// Get returns the build of the running program, with "unknown" for missing values.
func Get() Info {
	info := Info{GitCommit: GitCommit, Version: netplugin.Version(), BuildTime: BuildTime}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			switch {
			case s.Key == "vcs.revision" && info.GitCommit == "":
				info.GitCommit = s.Value
			case s.Key == "vcs.time" && info.BuildTime == "":
				info.BuildTime = s.Value
			}
		}
	}
	for _, field := range []*string{&info.GitCommit, &info.BuildTime} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return info
}

// String returns the three lines that every program prints for --version, without a final newline.
func (i Info) String() string {
	return fmt.Sprintf("Version: %s\nGitCommit: %s\nBuildTime: %s", i.Version, i.GitCommit, i.BuildTime)
}
