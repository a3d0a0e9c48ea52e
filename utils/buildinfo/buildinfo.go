// Package buildinfo tells which build of the project a program is.
//
// The linker fills in the variables:
//
//	go build -ldflags "-X github.com/contiv/netplugin/utils/buildinfo.Version=1.0.0 ..."
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// Set by the linker; a build without -ldflags falls back to what Go recorded.
var (
	Version   string
	GitCommit string
	BuildTime string
)

// Info is the answer of GET /version.
type Info struct {
	GitCommit string `json:"GitCommit"`
	Version   string `json:"Version"`
	BuildTime string `json:"BuildTime"`
}

// Get returns the facts of the running program, "unknown" where none is known.
func Get() Info {
	info := Info{GitCommit: GitCommit, Version: Version, BuildTime: BuildTime}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			switch {
			case s.Key == "vcs.revision" && info.GitCommit == "":
				info.GitCommit = s.Value
			case s.Key == "vcs.time" && info.BuildTime == "":
				info.BuildTime = s.Value
			}
		}
		if info.Version == "" {
			info.Version = build.Main.Version
		}
	}
	for _, field := range []*string{&info.GitCommit, &info.Version, &info.BuildTime} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return info
}

// String is the three lines every program prints for --version, without a final newline.
func (i Info) String() string {
	return fmt.Sprintf("Version: %s\nGitCommit: %s\nBuildTime: %s", i.Version, i.GitCommit, i.BuildTime)
}
