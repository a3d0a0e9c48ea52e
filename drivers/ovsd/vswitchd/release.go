package vswitchd

import (
	"context"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// Release returns the upstream version of the running ovs-vswitchd, such as 3.1.0. It does not show fixes of a
// distribution.
func (c Control) Release(ctx context.Context) (string, error) {
	said, err := c.Call(ctx, "version")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(said, "\n")
	words := strings.Fields(first) // ovs-vswitchd (Open vSwitch) 3.1.0
	if len(words) < 2 {
		return "", fault.New(fault.Internal, "version of ovs-vswitchd: it says %.100q", said)
	}
	return words[len(words)-1], nil
}
