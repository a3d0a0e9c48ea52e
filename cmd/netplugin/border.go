package main

import (
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/border"
)

// asBorder returns the agent's interface to it; nil: the node has no uplink.
func asBorder(b *border.Border) agent.Border {
	if b == nil {
		return nil
	}
	return b
}
