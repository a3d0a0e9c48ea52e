package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
)

// ClusterInfo is the part of netmaster's response to /info that the testbed needs.
type ClusterInfo struct {
	LeaderIP string `json:"leader-ip"` // host:port of the lock holder
}

// Info returns the response of the first netmaster that answers, or the last one's error.
func (b *Bed) Info(ctx context.Context) (ClusterInfo, error) {
	if b.secure {
		return b.secureInfo(ctx)
	}
	var last error
	for _, n := range b.Nodes {
		out, err := n.Run(ctx, filepath.Join(b.Bin, "probe"), "http", "http://"+n.At(9999)+"/info")
		if err != nil {
			last = err
			continue
		}
		var info ClusterInfo
		if err := json.Unmarshal([]byte(out), &info); err != nil {
			return info, fmt.Errorf("%s: /info: %w", n.Name, err)
		}
		return info, nil
	}
	return ClusterInfo{}, last
}
