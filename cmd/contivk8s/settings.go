package main

import (
	"encoding/json"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// settings are the fields of the network configuration that this program uses; the server reads the rest.
type settings struct {
	CNIVersion string `json:"cniVersion"`
	Socket     string `json:"socket"`
	StateDir   string `json:"stateDir"`
	LogFile    string `json:"logFile"`
	LogLevel   string `json:"logLevel"`
	Timeout    int    `json:"timeout"` // seconds for an ADD
}

const defaultTimeout = 120

// readSettings never fails: a field of a wrong type counts as absent, so that a DEL succeeds even if the
// configuration is damaged. The server refuses such a configuration for ADD.
func readSettings(stdin []byte) settings {
	var s settings
	if err := json.Unmarshal(stdin, &s); err != nil {
		s = settings{CNIVersion: s.CNIVersion}
	}
	if s.Socket == "" {
		s.Socket = cniwire.DefaultSocket
	}
	if s.StateDir == "" {
		s.StateDir = cniwire.DefaultStateDir
	}
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	return s
}

func (s settings) timeout() time.Duration { return time.Duration(s.Timeout) * time.Second }
